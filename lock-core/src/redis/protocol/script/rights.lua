-- KEYS scratch clock
-- ARGV channel
-- -> the commands and channels that this user may not use, by name
--TRY
local scratch = KEYS[1]
try('TIME')
try('SET', scratch, '1', 'PX', 1000)
try('GET', scratch)
try('GET', KEYS[2])
try('PTTL', scratch)
try('PEXPIRE', scratch, 1000)
try('EXISTS', scratch)
try('DEL', scratch)
try('RPUSH', scratch, 'a')
try('PEXPIRE', scratch, 1000)
try('LLEN', scratch)
try('LPOS', scratch, 'a')
try('LRANGE', scratch, 0, 0)
try('LREM', scratch, 1, 'b')
try('LPOP', scratch)
try('HSET', scratch, 'a', '1')
try('PEXPIRE', scratch, 1000)
try('HGET', scratch, 'a')
try('HDEL', scratch, 'a')
try('ZADD', scratch, 1, 'a')
try('PEXPIRE', scratch, 1000)
try('ZSCORE', scratch, 'a')
try('ZCARD', scratch)
try('ZRANGE', scratch, 0, 0)
try('ZREM', scratch, 'a')
try('PUBLISH', ARGV[1], '')
return refused
