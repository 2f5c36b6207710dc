-- KEYS lock, and in a cluster clock queue due, and held slots where the key is held together
-- ARGV me; and if others may wait, or it was ever in line itself, the last token of its block, or 0
-- -> 1 released, 2 handed on, 0 not held; 3 it is not in line, and all keys are to be named
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
--MODE
if together and KEYS[2] and not KEYS[5] then
  return 3
end
if not holds and not together then
  return type(in_line) == 'table' and in_line or 0
end
--TOKENS
--PROMOTE
local used = holds and tonumber(ARGV[2]) or 0
if together then
  several()
  look(together)
  holds = leave(me)
end
local done, stopped = pcall(promote, me, used > 0 and used or nil)
local is_taken = done and stopped and not mode
if mode then
  extend()
elseif not is_taken then
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', lock)
end
if not holds then
  return type(in_line) == 'table' and in_line or 0
end
return (is_taken or #joined > 0) and 2 or 1
