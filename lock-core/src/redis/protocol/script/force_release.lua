-- KEYS lock, and in a cluster clock queue due, and held slots where the key is held together
-- ARGV until when in ms
-- -> 1 released, 2 handed on, 0 nobody held it; 3 nothing was done: all keys are to be named
--LATE
local call = redis.call
local lock, clock = KEYS[1], KEYS[2] or 'lock:clock'
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
-- Of whatever library: a value of another type is an error here, and stays.
local holder = call('GET', lock)
if not holder then
  return 0
end
--MODE
if together and KEYS[2] and not KEYS[5] then
  return 3
end
--TOKENS
--PROMOTE
several()
local taken = {(owner_of(holder))}
local was_held = true
if together then
  look(together)
  was_held = mode ~= nil
  taken = call('ZRANGE', held, 0, HOLDERS_MAX - 1)
  call('DEL', held, slots)
  mode, count, unnumbered = nil, 0, 0
end
local done, stopped = pcall(promote, '')
local handed = done and stopped or mode ~= nil
if not handed then
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', lock)
end
-- Those who held it renew when they hear that it is wanted, and find that they hold nothing.
tell(taken)
if not was_held then
  return 0
end
return handed and 2 or 1
