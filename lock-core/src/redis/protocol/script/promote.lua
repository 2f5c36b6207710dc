-- Waiters taken out of the line by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000
-- The claim lease of a waiter that left none.
local CLAIM_LEASE_MS = '1500'
-- Those who were let in by this call, to hold the key together.
local joined = {}

-- Lets in whoever is at the head of the line and alive, as long as it fits beside all who hold the key,
-- and pushes the grant to it. True if the first that does not fit stops the line, or has the key alone
-- now; false if it is the turn of `me`, or nobody waits any more. An error leaves the line as it was.
-- `used` is for `reserve`. While a slot of a cluster moves, a key that was emptied here is of another
-- node: nothing may be asked of it any more.
local function promote(me, used)
  local waiting = call('LLEN', queue)
  local first, last
  local left = waiting
  for behind = waiting - 1, math.max(waiting - SKIPS_MAX, 0), -1 do
    if not mode and not first then
      first, last = reserve(used)
    end
    -- Beside others only one that fits is taken out of the line.
    local peeked = mode ~= nil
    local head = peeked and call('LRANGE', queue, 0, 0)[1] or call('LPOP', queue)
    -- Of a foreign type: nothing is known of the waiters but that they wait.
    local at = redis.pcall('HGET', due, head)
    local lease, wants = CLAIM_LEASE_MS, nil
    local alive = true
    if type(at) ~= 'table' then
      local by
      by, lease, wants = string.match(at or '', '^(%d+):(%d+):?(.*)$')
      wants = wants ~= '' and wants or nil
      alive = by and tonumber(by) >= now_ms()
    end
    if peeked then
      if (alive or head == me) and not fits(wants) then
        break
      end
      call('LPOP', queue)
    end
    left = behind
    redis.pcall('HDEL', due, head)
    if head == me then
      return false
    end
    if alive then
      if not first then
        first, last = reserve()
      end
      local slot = wants and enter(head, lease, wants)
      local wanted = not wants and behind > 0 and 1 or 0
      local grant = string.format('g %s %d %d %d', head, first, last, wanted)
      if slot then
        grant = grant .. ' ' .. slot
      end
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) > 0 then
        if not wants then
          local markable = is_markable(head)
          if not markable then
            is_unmarked()
          end
          call('SET', lock, markable and wanted == 1 and head .. '+' or head, 'PX', lease)
          return true
        end
        joined[#joined + 1] = head
        first = nil
      elseif wants then
        leave(head)
      end
    end
  end
  -- Not before it is known who of those behind them was let in as well.
  if left > 0 then
    tell(joined)
  end
  return left > 0 and mode ~= nil
end
