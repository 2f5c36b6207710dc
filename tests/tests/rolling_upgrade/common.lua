-- What both scripts of version 1 began with.
-- Tokens begin with 2020, eight a microsecond: below 2^53 until 2055.
local EPOCH_S = 1577836800
local PER_US = 8
-- A mark or a fence ahead of the clock by less than this second is not taken for a clock that was set back.
local AHEAD_MAX = 8000000

local time
local function now_ms()
  time = time or call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- This moment in tokens.
local function ticks()
  time = time or call('TIME')
  return ((time[1] - EPOCH_S) * 1000000 + time[2]) * PER_US
end
-- A key of another type, or a value that no script of ours wrote.
local function foreign(key)
  call('GET', key)
  error('WRONGTYPE a foreign value is stored at a key of this lock')
end

-- The last token of a fence value `last:count`; `last` has 16 digits.
local function last_of(value)
  local last = tonumber(string.sub(value, 1, 16))
  if not last or string.byte(value, 17) ~= 58 then
    foreign(K[4])
  end
  return last
end

-- Reserves up to `count` tokens above all before them, none ahead of the clock unless it was set
-- back: what a server that lost its data gives next is above all it ever gave. `value` is the
-- fence as read, `ttl` how long it is kept. The members of a quorum are given one `clock`.
local function reserve(value, count, ttl, clock)
  local last = tonumber(clock) or ticks()
  local first = last
  if value then
    local before = last_of(value)
    if before > last + AHEAD_MAX then
      first, last = before + 1, before + count
    else
      first = math.max(before + 1, last - count + 1)
      last = math.max(first, last)
    end
    call('SET', K[4], string.format('%016d:%d', last, last - first + 1), 'PX', ttl)
    return first, last
  end
  if not call('SET', K[4], string.format('%016d:1', last), 'PX', ttl, 'NX') then
    foreign(K[4])
  end
  return first, last
end

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
