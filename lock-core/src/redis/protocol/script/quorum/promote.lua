-- Dead waiters skipped by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000
-- Fewer hear of a grant to one that is gone. The patient form of the script has none of this.
local RECEIVERS_MIN = 1
-- The claim lease of a waiter that left none.
local CLAIM_LEASE_MS = '1500'

-- Gives the free key to the first waiter that is alive, and pushes the grant to it. True if
-- somebody has the key now; false if it is the turn of `me`, or nobody waits. Also whether it is not known
-- whose turn it is: as many were skipped as may be. An error leaves the line as it was. What follows `me` is for `reserve`. While a slot of a cluster moves, a key that was
-- emptied here is of another node: nothing may be asked of it any more.
local function promote(me, ...)
  local waiting = call('LLEN', queue)
  if waiting == 0 then
    return false
  end
  local first, last = reserve(...)
  for behind = waiting - 1, math.max(waiting - SKIPS_MAX, 0), -1 do
    local head = call('LPOP', queue)
    -- Of a foreign type: nothing is known of the waiters but that they wait.
    local at = redis.pcall('HGET', due, head)
    redis.pcall('HDEL', due, head)
    if head == me then
      return false
    end
    local lease = CLAIM_LEASE_MS
    local alive = true
    if type(at) ~= 'table' then
      local by, claim_lease = string.match(at or '', '^(%d+):(%d+)$')
      alive = by and tonumber(by) >= now_ms()
      lease = claim_lease
    end
    if alive then
      local wanted = behind > 0 and 1 or 0
      local grant = string.format('g %s %d %d %d', head, first, last, wanted)
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) >= RECEIVERS_MIN then
        call('SET', lock, head, 'PX', lease)
        return true
      end
    end
  end
  return false, waiting > SKIPS_MAX
end
