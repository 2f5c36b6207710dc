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
try('MGET', scratch)
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
try('PUBLISH', ARGV[1], '')
return refused
