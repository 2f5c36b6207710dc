-- KEYS lock queue due fence
-- ARGV me, lease ms, tokens, join (1 or 0), due in ms, claim lease ms
-- -> {1, first, last, wanted} granted | {0, ahead, ms left, foreign} blocked
local me = ARGV[1]
local holder = redis.call('GET', KEYS[1])

if holder == me then
  -- The answer to an earlier attempt was lost, or the push of a hand-off: the tokens stay.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  local first, last = fence_read()
  return {1, first, last, redis.call('EXISTS', KEYS[2])}
end

if not holder then
  -- Nobody is woken when a lease ends, so whoever comes by hands the key to the head of the line.
  if redis.call('EXISTS', KEYS[2]) == 0 or not promote(me) then
    local first, last = reserve(ARGV[3], tonumber(ARGV[2]))
    redis.call('SET', KEYS[1], me, 'PX', ARGV[2])
    return {1, first, last, redis.call('EXISTS', KEYS[2])}
  end
  holder = redis.call('GET', KEYS[1])
end

local left = redis.call('PTTL', KEYS[1])
local session = string.match(holder, '^%x+%.(%x+)$')
if ARGV[4] == '0' then
  return {0, redis.call('ZCARD', KEYS[2]) + 1, left, session and 0 or 1}
end
if not redis.call('ZSCORE', KEYS[2], me) then
  local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  redis.call('ZADD', KEYS[2], (tail[2] or 0) + 1, me)
end
redis.call('HSET', KEYS[3], me, (now_ms() + ARGV[5]) .. ':' .. ARGV[6])
-- Ten times as long as any waiter counts as alive.
redis.call('PEXPIRE', KEYS[2], ARGV[5] * 10)
redis.call('PEXPIRE', KEYS[3], ARGV[5] * 10)
local rank = redis.call('ZRANK', KEYS[2], me)
if rank == 0 and session then
  redis.call('PUBLISH', 'lock:push:' .. session, 'w ' .. holder)
end
return {0, rank + 1, left, session and 0 or 1}
