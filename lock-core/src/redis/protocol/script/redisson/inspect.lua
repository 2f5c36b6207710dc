-- KEYS lock waiting
-- ARGV waiters to list at most
-- -> {who holds it, ms left, our claims that wait}
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting = call('ZRANGE', KEYS[2], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[1])
return {call('HKEYS', KEYS[1]), call('PTTL', KEYS[1]), waiting}
