-- KEYS lock queue due held, and of a quorum the fence
-- ARGV waiters and holders to list at most
-- -> {what is at the lock, ms left, fence, waiters, what is due of each, those who hold it together,
--    each with the ms that it has left, the names of those who hold it}
local call = redis.call
local value = call('GET', KEYS[1])
local waiters = ARGV[1] ~= '0' and call('LRANGE', KEYS[2], 0, ARGV[1] - 1) or {}
local due, holders, names = {}, {}, {}
-- A name is missing where the slot of the key is on its way.
local function name_of(owner)
  local claim = string.match(owner, '^%x+')
  local name = claim and redis.pcall('GET', KEYS[1] .. ':name:' .. claim)
  return type(name) == 'string' and name or ''
end
for n, owner in ipairs(waiters) do
  local at = redis.pcall('HGET', KEYS[3], owner)
  due[n] = type(at) == 'string' and at or ''
end
if value and string.sub(value, 1, 5) == 'lock:' then
  local time = call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  holders = call('ZRANGE', KEYS[4], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
  for n = 2, #holders, 2 do
    names[n / 2] = name_of(holders[n - 1])
    holders[n] = holders[n] - now
  end
elseif value then
  names[1] = name_of(value)
end
local fence = KEYS[5] and call('GET', KEYS[5]) or false
return {value, call('PTTL', KEYS[1]), fence, waiters, due, holders, names}
