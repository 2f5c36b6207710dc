-- Tokens begin with 2020, eight a microsecond: below 2^53 until 2055.
local EPOCH_S = 1577836800
local PER_US = 8
-- A mark or a fence ahead of the clock by less than this second is not taken for a clock that was set back.
local AHEAD_MAX = 8000000
-- The tokens of a block where the clock was set back by more: so many that not each hand-off needs a
-- request, and so few, 64 us, that the clock catches up with a busy server.
local AHEAD_TOKENS = 512
-- 2^53: numbers from here on are not told apart, and tokens would be given twice.
local TOKENS_END = 9007199254740992

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
