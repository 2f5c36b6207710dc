-- The last argument is until when this may be done, in ms by the clock of the server. Nobody waits for
-- it then, and whoever has the key may have come later.
local came = redis.call('TIME')
if came[1] * 1000 + math.floor(came[2] / 1000) > tonumber(ARGV[#ARGV]) then
  return redis.error_reply('LATE it was too long on its way, and nothing was done')
end
