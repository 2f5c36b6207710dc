-- As version 2 had it.
-- KEYS lock, and in a cluster clock queue due
-- -> 1 released, 2 handed on, 0 nobody held it
local call = redis.call
local lock, clock = KEYS[1], KEYS[2] or 'lock:clock'
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
-- Of whatever library: a value of another type is an error here, and stays.
local holder = call('GET', lock)
if not holder then
  return 0
end
--COMMON
local done, handed = pcall(promote, '')
handed = done and handed
if not handed then
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', lock)
end
-- The holder renews when it hears that it is wanted, and finds that it holds nothing.
local owner, session = owner_of(holder)
if owner then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. owner)
end
return handed and 2 or 1
