-- As version 2 had it.
-- KEYS lock, and in a cluster clock queue due
-- ARGV me; and if others may wait, or it was ever in line itself, the last token of its block, or 0
-- -> 1 released, 2 handed on, 0 not held
local call = redis.call
local lock, me = KEYS[1], ARGV[1]
local holder = call('GET', lock)
if holder == me and not ARGV[2] then
  return call('DEL', lock)
end
local clock = KEYS[2] or 'lock:clock'
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
local holds = holder == me or holder == me .. '+'
-- A value of another type there is not in the way of the release.
local in_line = redis.pcall('HDEL', due, me)
if in_line == 1 then
  redis.pcall('LREM', queue, 1, me)
end
if not holds then
  return type(in_line) == 'table' and in_line or 0
end
--COMMON
local used = tonumber(ARGV[2]) or 0
local done, handed = pcall(promote, me, used > 0 and used or nil)
if done and handed then
  return 2
end
-- Nobody is alive, or a foreign value is in the way: the key is free all the same.
call('DEL', lock)
return 1
