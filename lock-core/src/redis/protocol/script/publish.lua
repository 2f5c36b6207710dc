-- KEYS lock, and in a cluster clock value followers
-- ARGV me; and of a leader its lease in ms, the token of its term, and what it publishes
-- -> 1 it is shown, or is shown no more; 0 it does not hold the key
local call = redis.call
local lock, me = KEYS[1], ARGV[1]
local value, followers = KEYS[3] or lock .. ':value', KEYS[4] or lock .. ':followers'
local before, said = call('GET', value), false
if ARGV[2] then
  local holder = call('GET', lock)
  if holder ~= me and holder ~= me .. '+' then
    return 0
  end
  said = me .. ' ' .. ARGV[3] .. ' ' .. ARGV[4]
  -- It ends after the lease: each renewal sets it again, and one that fails to is not the end. A server
  -- without memory lets a script go on that has written.
  call('DEL', value)
  call('SET', value, said, 'PX', 2 * ARGV[2])
elseif before and string.sub(before, 1, #me + 1) == me .. ' ' then
  call('DEL', value)
else
  return 1
end
if said == before then
  return 1
end
--TICKS
--OWNER
-- As many are told as may be without keeping the server; the others ask by themselves.
for _, follower in ipairs(call('ZRANGE', followers, '(' .. now_ms(), '+inf', 'BYSCORE', 'LIMIT', 0, 1000)) do
  local owner, session = owner_of(follower)
  if owner then
    call('PUBLISH', 'lock:push:' .. session, 'a ' .. owner)
  end
end
return 1
