-- Waiters taken out of the line by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000
-- The same of those that count as dead by their time, which are taken out many at once.
local DEAD_MAX = 5000
-- Those of them that are let in together, which costs more. Who is left comes with the next call.
local JOINS_MAX = 250
-- Fewer hear of a grant to one that is gone. The patient form of the script has none of this.
local RECEIVERS_MIN = 1
-- The claim lease of a waiter that left none.
local CLAIM_LEASE_MS = '1500'
-- Those who were let in by this call, to hold the key together.
local joined = {}

-- Takes out those at the head of the line that are dead, up to `me`. Whether there may be more of them,
-- and whether anybody is left.
local function skip_dead(me)
  for _ = 1, DEAD_MAX / 100 do
    local heads, dead = call('LRANGE', queue, 0, 100), 0
    for n, head in ipairs(heads) do
      local at = redis.pcall('HGET', due, head)
      local by = type(at) ~= 'table' and tonumber(string.match(at or '0:', '^(%d+):'))
      if n > 100 or head == me or type(at) == 'table' or by and by >= now_ms() then
        break
      end
      dead = n
    end
    if dead > 0 then
      call('LPOP', queue, dead)
      redis.pcall('HDEL', due, unpack(heads, 1, dead))
    end
    if dead < 100 or #heads == dead then
      return false, #heads > dead
    end
  end
  return true, true
end

-- Lets in whoever is at the head of the line and alive, as long as it fits beside all who hold the key,
-- and pushes the grant to it. True if the first that does not fit stops the line, or has the key alone
-- now; false if it is the turn of `me`, or nobody waits any more. Also whether anybody does, and whether
-- it is not known whose turn it is: as many were skipped as may be. One that an error keeps out stays in
-- the line. `used` is for `reserve`. While a slot of a cluster moves, a key that was emptied here is of another
-- node: nothing may be asked of it any more.
local function promote(me, used)
  local first, last
  local head, behind = unpack(call('LRANGE', queue, 0, 1))
  local is_unknown = true
  for _ = 1, SKIPS_MAX do
    if not head or #joined == JOINS_MAX then
      is_unknown = false
      break
    end
    if not mode and not first then
      first, last = reserve(used)
    end
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
    local is_me = head == me
    if mode and (alive or is_me) and not fits(wants) then
      is_unknown = false
      break
    end
    local slot
    if alive and not is_me then
      if not first then
        first, last = reserve()
      end
      if wants then
        several()
        slot = enter(head, lease, wants)
      end
    end
    call('LPOP', queue)
    redis.pcall('HDEL', due, head)
    if is_me then
      return false, behind ~= nil
    end
    if alive then
      local wanted = not wants and behind and 1 or 0
      local grant = string.format('g %s %d %d %d', head, first, last, wanted)
      if slot then
        grant = grant .. ' ' .. slot
      end
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) >= RECEIVERS_MIN then
        if not wants then
          call('SET', lock, wanted == 1 and head .. '+' or head, 'PX', lease)
          return true
        end
        joined[#joined + 1] = head
        first = nil
      elseif wants then
        leave(head)
      end
    end
    head = nil
    if not alive and behind then
      local has_more
      has_more, behind = skip_dead(me)
      if has_more then
        head = behind
        break
      end
    end
    if behind then
      head, behind = unpack(call('LRANGE', queue, 0, 1))
    end
  end
  -- Not before it is known who of those behind them was let in as well.
  if head and #joined > 0 then
    tell(joined)
  end
  return head ~= nil and mode ~= nil, head ~= nil, is_unknown and not mode
end
