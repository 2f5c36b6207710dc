-- KEYS lock waiting
-- ARGV me, the channel
-- -> 1 released, 0 not held
-- Values of another type are not ours.
local held = redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1
if held then
  redis.call('DEL', KEYS[1])
  -- What Redisson says. The key is free, heard or not.
  redis.pcall('PUBLISH', ARGV[2], '0')
end
redis.pcall('ZREM', KEYS[2], ARGV[1])
return held and 1 or 0
