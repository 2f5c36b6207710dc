-- Tells a claim of ours that holds the lock, over the channel of its session: `w` others wait, `t`
-- somebody tried, `a` it is to ask. A field of Redisson's has dashes.
local function tell(lock, what)
  local owner = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock)[1] or ''
  local claim, session = string.match(owner, '^(%x+):(%x+)$')
  if claim and #claim == 32 then
    redis.pcall('PUBLISH', 'lock:push:' .. session, what .. ' ' .. owner)
  end
end
