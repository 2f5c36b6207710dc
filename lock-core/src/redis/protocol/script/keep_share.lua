-- KEYS held, or slots
-- ARGV me, lease ms, and whether it is held (1) or slots (0)
-- -> 1 it is one of those who hold the key, 0 it is not; as keep.lua. With a lease of 0 it is one no
--    more, and the next to look takes it out
local call = redis.call
local held, me, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local ends = call('ZSCORE', held, me)
if not ends then
  return 0
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is_share = ARGV[3] == '1'
if is_share and tonumber(ends) <= now then
  return 0
end
-- In this order: a server without memory refuses a script to begin with the next.
local left = math.max(call('PTTL', held), lease)
if left > 0 then
  call('PEXPIRE', held, left)
end
if is_share then
  call('ZADD', held, lease > 0 and now + lease or 0, me)
end
return 1
