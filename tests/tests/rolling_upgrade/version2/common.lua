-- What the scripts of version 2 had in common.
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
-- How many tokens are reserved where the clock was set back, so that not each hand-off needs a request.
local MANY = 65536

-- Reserves tokens above all that were given: the first and the last. `used` is the last one that
-- the holder before may have used; where that is not known, they begin at the clock. All end at the
-- clock, or a few behind the mark: what a server that lost its data gives next is above them.
local function reserve(used)
  local now = ticks()
  local mark = call('GET', clock)
  local before = mark and (tonumber(mark) or error('WRONGTYPE a foreign value is stored at ' .. clock)) or now - 1
  local first = used and used + 1 or math.max(now, before + 1)
  local last = math.max(now, before + 1, first + 31)
  if before > now + AHEAD_MAX then
    last = last + MANY
  end
  call('SET', clock, last)
  return first, last
end

-- A waiter of an earlier version is handed the key. If it asks before it has heard of that, it is to
-- begin at the clock.
local function is_unmarked()
  call('DEL', lock .. ':fence')
end
-- The owner that one of our clients wrote, without the mark that others wait, and its session.
-- Values of other libraries may look alike, but for their length.
local function owner_of(value)
  local owner, session = string.match(value, '^(%x+[.:](%x+))%+?$')
  if owner and #owner == 49 then
    return owner, session
  end
end

-- Whether an owner knows the mark: one of an earlier version, or of a quorum, has a dot.
local function is_markable(owner)
  return string.byte(owner, 33) == 58
end
-- Dead waiters skipped by one call at most, so that no call holds the server up.
local SKIPS_MAX = 1000
-- The claim lease of a waiter that left none.
local CLAIM_LEASE_MS = '1500'

-- Gives the free key to the first waiter that is alive, and pushes the grant to it. True if
-- somebody has the key now; false if it is the turn of `me`, or nobody waits. An error leaves the
-- line as it was. What follows `me` is for `reserve`. While a slot of a cluster moves, a key that was
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
      if call('PUBLISH', 'lock:push:' .. string.sub(head, 34), grant) > 0 then
        local markable = is_markable(head)
        if not markable then
          is_unmarked()
        end
        call('SET', lock, markable and wanted == 1 and head .. '+' or head, 'PX', lease)
        return true
      end
    end
  end
  return false
end
