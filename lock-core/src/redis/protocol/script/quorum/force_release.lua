-- KEYS lock, queue
-- ARGV until when in ms
-- -> 1 released, 0 nobody held it
--LATE
local call = redis.call
local lock, queue = KEYS[1], KEYS[2]
-- Of whatever library: a value of another type is an error here, and stays.
local holder = call('GET', lock)
if not holder then
  return 0
end
--OWNER
call('DEL', lock)
-- Whose turn it is, a majority decides: the first in line is told to ask.
local head = redis.pcall('LRANGE', queue, 0, 0)[1]
if head then
  call('PUBLISH', 'lock:push:' .. string.sub(head, 34), 'a ' .. head)
end
-- The holder renews when it hears that it is wanted, and finds that it holds nothing.
local owner, session = owner_of(holder)
if owner then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. owner)
end
return 1
