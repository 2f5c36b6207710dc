-- KEYS lock
-- ARGV me
-- -> 1 released, without a hand-off: the line is out of reach; 2 others hold it, perhaps with it; 0 not
--    held
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] or holder == ARGV[1] .. '+' then
  return redis.call('DEL', KEYS[1])
end
return holder and string.sub(holder, 1, 5) == 'lock:' and 2 or 0
