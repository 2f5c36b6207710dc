-- Whose turn it is, a majority decides: the first in line is told to ask.
alone = true
local head = redis.pcall('LRANGE', K[2], 0, 0)[1]
if head then
  call('PUBLISH', 'lock:push:' .. string.sub(head, 34), 'a ' .. head)
end
