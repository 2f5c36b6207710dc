-- KEYS lock
-- ARGV me, lease ms
-- -> as renew.lua, for one claim, without tokens and with 2 where it tells whether others wait: the
--    slot is on its way, and some of the other keys may be elsewhere
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return string.find(holder.err, 'WRONGTYPE', 1, true) and {-1} or holder
elseif holder ~= ARGV[1] then
  return {0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, 1, 0, 2}
