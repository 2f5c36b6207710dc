-- KEYS lock
-- ARGV me
-- -> 1 released, without a hand-off: the line is out of reach; 0 not held
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] or holder == ARGV[1] .. '+' then
  return redis.call('DEL', KEYS[1])
end
return 0
