-- KEYS lock, and in a cluster clock value followers
-- ARGV me, the ms for which it is told without asking again, or 0: no more
-- -> {what is at the lock, ms left, what was published}
local FOLLOWERS_MAX = 10000
local call = redis.call
local lock, me, told_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local value, followers = KEYS[3] or lock .. ':value', KEYS[4] or lock .. ':followers'
if told_ms == 0 then
  call('ZREM', followers, me)
  return {}
end
--TICKS
local now = now_ms()
local gone = call('ZRANGE', followers, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
if #gone > 0 then
  call('ZREM', followers, unpack(gone))
end
-- One more than that asks by itself.
if call('ZCARD', followers) < FOLLOWERS_MAX or call('ZSCORE', followers, me) then
  call('ZADD', followers, now + told_ms, me)
  call('PEXPIRE', followers, told_ms)
end
return {call('GET', lock), call('PTTL', lock), call('GET', value)}
