-- Each fence value outlives the last lease under it by an hour.
local FENCE_MS = 3600000
-- Dead waiters skipped by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000

-- The keys of the lock at hand.
local K = KEYS

local clock
local function now_us()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

local function fence_read()
  local value = redis.call('GET', K[4])
  if not value then
    return nil, nil
  end
  local first, last = string.match(value, '^(%d+):(%d+)$')
  if not last then
    error('WRONGTYPE a foreign value is stored at the fence of this lock')
  end
  return tonumber(first), tonumber(last)
end

-- Tokens above all before them, none ahead of the clock unless it was set back: what a server
-- that lost its data gives next is above all it ever gave.
local function reserve(count, lease)
  local now = now_us()
  local _, last = fence_read()
  local first
  count = tonumber(count)
  if not last then
    first, last = now, now
  elseif last > now then
    first, last = last + 1, last + count
  else
    first = math.max(last + 1, now - count + 1)
    last = math.max(first, now)
  end
  local value = string.format('%.0f:%.0f', first, last)
  local done = redis.pcall('SET', K[4], value, 'PX', FENCE_MS + lease)
  if type(done) == 'table' and done.err then
    if not string.find(done.err, 'OOM', 1, true) then
      error(done.err)
    end
    return 1, 0
  end
  return first, last
end

-- Gives the key to the first waiter that is alive, and pushes the grant to it. True if somebody
-- has the key now; false if it is the turn of `me`, or nobody waits.
local function promote(me)
  local first, last
  for _ = 1, SKIPS_MAX do
    local head = redis.call('ZRANGE', K[2], 0, 0)[1]
    if not head then
      return false
    end
    local due, lease = string.match(redis.call('HGET', K[3], head) or '', '^(%d+):(%d+)$')
    redis.call('ZREM', K[2], head)
    redis.call('HDEL', K[3], head)
    if head == me then
      return false
    end
    if due and tonumber(due) >= now_ms() then
      if not first then
        first, last = reserve(TOKENS, tonumber(lease))
      end
      if first > last then
        -- No memory for a token: nobody can be granted anything now.
        return false
      end
      local session = string.match(head, '%.(%x+)$') or ''
      local grant = string.format('g %s %.0f %.0f %d', head, first, last, redis.call('EXISTS', K[2]))
      -- Without a receiver its process is gone, or its connection: skip it at once.
      if redis.call('PUBLISH', 'lock:push:' .. session, grant) > 0 then
        redis.call('SET', K[1], head, 'PX', lease)
        return true
      end
    end
  end
  return false
end
