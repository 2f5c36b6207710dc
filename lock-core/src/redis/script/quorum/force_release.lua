-- ARGV tokens
-- -> 1 released, 2 handed on, 0 nobody held it
local call = redis.call
local K = KEYS
--MEMBER
-- Of whatever library: a value of another type is an error here, and stays.
local holder = call('GET', K[1])
if not holder then
  return 0
end
--FENCE
--HAND-ON
local alone = false
--ALONE
local done, handed = pcall(function()
  return not alone and promote('', call('GET', K[4]), tonumber(ARGV[1]))
end)
handed = done and handed
if not handed then
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', K[1])
end
-- The holder renews when it hears that it is wanted, and finds that it holds nothing.
local session = string.match(holder, '^%x+[.:](%x+)$')
if session then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. holder)
end
return handed and 2 or 1
