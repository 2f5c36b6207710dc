-- KEYS lock queue due held, and of a quorum the fence
-- ARGV waiters and holders to list at most
-- -> {what is at the lock, ms left, fence, waiters, what is due of each, those who hold it together,
--    each with the ms that it has left, the words of those who hold it, the server's clock in ms}
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = call('GET', KEYS[1])
local waiters = ARGV[1] ~= '0' and call('LRANGE', KEYS[2], 0, ARGV[1] - 1) or {}
local due, holders, words = {}, {}, {}
-- A word is missing where the slot of the key is on its way.
local function word_of(owner)
  local claim = string.match(owner, '^%x+')
  local word = claim and redis.pcall('GET', KEYS[1] .. ':name:' .. claim)
  return type(word) == 'string' and word or ''
end
for n, owner in ipairs(waiters) do
  local at = redis.pcall('HGET', KEYS[3], owner)
  due[n] = type(at) == 'string' and at or ''
end
if value and string.sub(value, 1, 5) == 'lock:' then
  holders = call('ZRANGE', KEYS[4], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
  for n = 2, #holders, 2 do
    words[n / 2] = word_of(holders[n - 1])
    holders[n] = holders[n] - now
  end
elseif value then
  words[1] = word_of(value)
end
local fence = KEYS[5] and call('GET', KEYS[5]) or false
return {value, call('PTTL', KEYS[1]), fence, waiters, due, holders, words, now}
