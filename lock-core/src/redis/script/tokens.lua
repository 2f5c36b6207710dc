-- Tokens begin with 2020, eight a microsecond: below 2^53 until 2055.
local EPOCH_S = 1577836800
local PER_US = 8
-- A mark ahead of the clock by less than this second is not taken for a clock that was set back.
local AHEAD_MAX = 8000000
-- How many are reserved then, so that not each hand-off needs a request.
local MANY = 65536

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
