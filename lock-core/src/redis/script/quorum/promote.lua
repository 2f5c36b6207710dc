-- Dead waiters skipped by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000
-- The claim lease of a waiter that left none.
local CLAIM_LEASE_MS = '1500'
-- An hour past it; the renewal of a longer lease keeps the fence longer too.
local FENCE_MS = '3601500'

-- Gives the free key to the first waiter that is alive, and pushes the grant to it. True if
-- somebody has the key now; false if it is the turn of `me`, or nobody waits. An error leaves the
-- line as it was. While a slot of a cluster moves, a key that was emptied here is of another node:
-- nothing may be asked of it any more.
local function promote(me, fence, tokens, clock)
  local first, last = reserve(fence, tokens, FENCE_MS, clock)
  local waiting = call('LLEN', K[2])
  for behind = waiting - 1, math.max(waiting - SKIPS_MAX, 0), -1 do
    local head = call('LPOP', K[2])
    -- Of a foreign type: nothing is known of the waiters but that they wait.
    local due = redis.pcall('HGET', K[3], head)
    redis.pcall('HDEL', K[3], head)
    if head == me then
      return false
    end
    local lease = CLAIM_LEASE_MS
    local alive = true
    if type(due) ~= 'table' then
      local at, claim_lease = string.match(due or '', '^(%d+):(%d+)$')
      alive = at and tonumber(at) >= now_ms()
      lease = claim_lease
    end
    if alive then
      local wanted = behind > 0 and 1 or 0
      local grant = string.format('g %s %d %d %d', head, first, last, wanted)
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) > 0 then
        call('SET', K[1], head, 'PX', lease)
        return true
      end
    end
  end
  return false
end
