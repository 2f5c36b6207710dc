-- KEYS scratch clock
-- ARGV channel
-- -> the commands and channels that this user may not use, by name
--TRY
local scratch = KEYS[1]
try('TIME')
try('SET', scratch, '1', 'PX', 1000)
try('GET', scratch)
try('GET', KEYS[2])
try('GET', 'redisson_lock_token:{probe}')
try('PTTL', scratch)
try('EXISTS', scratch)
try('DEL', scratch)
try('HSET', scratch, 'a', '1')
try('PEXPIRE', scratch, 1000)
try('HEXISTS', scratch, 'a')
try('HLEN', scratch)
try('HKEYS', scratch)
try('DEL', scratch)
try('ZADD', scratch, 1, 'a')
try('PEXPIRE', scratch, 1000)
try('ZCOUNT', scratch, 0, 2)
try('ZRANGE', scratch, 0, 0)
try('ZREMRANGEBYSCORE', scratch, 2, 3)
try('ZREM', scratch, 'a')
try('PUBLISH', ARGV[1], '')
try('PUBLISH', 'lock:push:probe', '')
try('PUBSUB', 'NUMSUB', ARGV[1])
return refused
