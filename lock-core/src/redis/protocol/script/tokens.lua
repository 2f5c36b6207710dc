-- Reserves tokens above all that were given: the first and the last. `used` is the last one that
-- the holder before may have used; where that is not known, they begin at the clock. All end at the
-- clock, or a few behind the mark: what a server that lost its data gives next is above them. One of
-- several holders may have `many`, which the clock has not counted yet: 4 ms of them at most, and none
-- while the mark is ahead by one.
local function reserve(used, many)
  local now = ticks()
  local mark = call('GET', clock)
  local before = mark and (tonumber(mark) or error('WRONGTYPE a foreign value is stored at ' .. clock)) or now - 1
  local first = used and used + 1 or math.max(now, before + 1)
  local last = math.max(now, before + 1, first + 31)
  if many and before < now + 8000 then
    last = math.max(last, first + many - 1)
  end
  if before > now + AHEAD_MAX then
    last = math.max(last, before + AHEAD_TOKENS)
  end
  if last >= TOKENS_END then
    error('USEDUP ' .. clock)
  end
  call('SET', clock, last)
  return first, last
end
