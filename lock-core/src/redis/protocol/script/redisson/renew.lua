-- KEYS lock clock counter waiting
-- ARGV me, lease ms, the channel, and 1 if this client listens to that or 0
-- -> {1, the last token or 0, wanted} held; {0} lost
local call = redis.call
local lock, clock, counter, waiting, me = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
--TOKENS
--WAITING
if call('HEXISTS', lock, me) == 0 then
  return {0}
end
call('PEXPIRE', lock, ARGV[2])
-- The lease, whatever becomes of the tokens.
local done, last = pcall(function()
  local given = counted()
  local _, reserved = reserve(0)
  if given then
    reserved = math.max(reserved, given)
    call('SET', counter, reserved, 'KEEPTTL')
  end
  return reserved
end)
return {1, done and last or 0, wanted(ARGV[3], ARGV[4])}
