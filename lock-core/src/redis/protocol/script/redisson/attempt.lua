-- KEYS lock clock counter waiting
-- ARGV me, lease ms, how many tokens, the channel, 1 if this client listens to that or 0, and how long it
--      counts as a waiter in ms, or 0 if it does not wait
-- -> {1, first, last, wanted} granted
--    {0, ms left} blocked
local call = redis.call
local lock, clock, counter, waiting, me = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
--TOKENS
--WAITING
-- Before anything is written: it may be something else.
call('ZREMRANGEBYSCORE', waiting, '-inf', now_ms())
if call('EXISTS', lock) == 1 and call('HEXISTS', lock, me) == 0 then
  if ARGV[6] == '0' then
    -- One that only lingers is given back.
    tell(lock, 't')
  else
    local is_new = call('ZADD', waiting, now_ms() + ARGV[6], me) == 1
    call('PEXPIRE', waiting, ARGV[6])
    if is_new then
      tell(lock, 'w')
    end
  end
  return {0, call('PTTL', lock)}
end
local given = counted()
-- The first write, which a server without memory refuses.
local first, last = reserve(nil, tonumber(ARGV[3]))
if given then
  if given >= first then
    first, last = given + 1, given + 1 + last - first
  end
  call('SET', counter, last, 'KEEPTTL')
end
call('HSET', lock, me, 1)
call('PEXPIRE', lock, ARGV[2])
call('ZREM', waiting, me)
return {1, first, last, wanted(ARGV[4], ARGV[5])}
