-- Tokens begin with 2020, eight a microsecond: below 2^53 until 2055.
local EPOCH_S = 1577836800
local PER_US = 8
-- A fence ahead by less than this second is not taken for a clock that was set back.
local AHEAD_MAX = 8000000

local time
local function now_ms()
  time = time or call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
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

-- The token of this moment.
local function clock_token()
  time = time or call('TIME')
  return ((time[1] - EPOCH_S) * 1000000 + time[2]) * PER_US
end

-- Reserves up to `count` tokens above all before them, none ahead of the clock unless it was set
-- back: what a server that lost its data gives next is above all it ever gave. `value` is the
-- fence as read, `ttl` how long it is kept. The members of a quorum are given one `clock`.
local function reserve(value, count, ttl, clock)
  local last = tonumber(clock) or clock_token()
  --ABOVE
  local first = last
  if value then
    local before = last_of(value)
    if before > last + AHEAD_MAX then
      first, last = before + 1, before + count
    else
      first = math.max(before + 1, last - count + 1)
      last = math.max(first, last)
    end
    --NOTE
    call('SET', K[4], string.format('%016d:%d', last, last - first + 1), 'PX', ttl)
    return first, last
  end
  --NOTE
  if not call('SET', K[4], string.format('%016d:1', last), 'PX', ttl, 'NX') then
    foreign(K[4])
  end
  return first, last
end
