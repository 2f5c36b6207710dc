-- KEYS scratch
-- ARGV channel
-- -> the commands and channels that this user may not use, by name
local refused = {}
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    local err = string.lower(answer.err)
    if string.find(err, 'permission', 1, true) or string.find(err, 'noperm', 1, true) then
      refused[#refused + 1] = string.lower((...))
    end
  end
end
local scratch = KEYS[1]
try('TIME')
try('SET', scratch, '1', 'PX', 1000)
try('GET', scratch)
try('PTTL', scratch)
try('PEXPIRE', scratch, 1000)
try('EXISTS', scratch)
try('DEL', scratch)
try('ZADD', scratch, 1, 'a')
try('PEXPIRE', scratch, 1000)
try('ZCARD', scratch)
try('ZSCORE', scratch, 'a')
try('ZRANK', scratch, 'a')
try('ZRANGE', scratch, 0, 0)
try('ZREM', scratch, 'a')
try('HSET', scratch, 'a', '1')
try('PEXPIRE', scratch, 1000)
try('HGET', scratch, 'a')
try('HDEL', scratch, 'a')
try('PUBLISH', ARGV[1], '')
return refused
