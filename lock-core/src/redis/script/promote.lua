-- Dead waiters skipped by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000

-- Gives the free key to the first waiter that is alive, and pushes the grant to it. True if
-- somebody has the key now; false if it is the turn of `me`, or nobody waits.
local function promote(me, fence, tokens)
  local first, last
  for _ = 1, SKIPS_MAX do
    local head = call('LPOP', K[2])
    if not head then
      return false
    end
    local due, lease = string.match(call('HGET', K[3], head) or '', '^(%d+):(%d+)$')
    call('HDEL', K[3], head)
    if head == me then
      return false
    end
    if due and tonumber(due) >= now_ms() then
      if not first then
        first, last = reserve(fence, tokens, tonumber(lease))
      end
      local wanted = call('EXISTS', K[2])
      local grant = string.format('g %s %.0f %.0f %d', head, first, last, wanted)
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) > 0 then
        call('SET', K[1], head, 'PX', lease)
        return true
      end
    end
  end
  return false
end
