-- KEYS lock queue due fence
-- ARGV me, tokens
-- -> 1 released, 2 handed on, 0 not held
local me = ARGV[1]
if redis.call('GET', KEYS[1]) == me then
  if redis.call('EXISTS', KEYS[2]) == 1 and promote(me) then
    return 2
  end
  redis.call('DEL', KEYS[1])
  return 1
end
if redis.call('ZREM', KEYS[2], me) == 1 then
  redis.call('HDEL', KEYS[3], me)
end
return 0
