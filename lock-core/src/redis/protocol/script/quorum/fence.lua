-- How long a hand-off keeps the fence: an hour past it; who holds the key for longer keeps it longer.
local FENCE_MS = '3601500'

-- A key of another type, or a value that no script of ours wrote.
local function foreign(key)
  call('GET', key)
  error('WRONGTYPE a foreign value is stored at a key of this lock')
end

-- The last token of a fence value `last:count`; `last` has 16 digits.
local function last_of(value)
  local last = tonumber(string.sub(value, 1, 16))
  if not last or string.byte(value, 17) ~= 58 then
    foreign(fence)
  end
  return last
end

-- An error where there is no token left, because of what is at `key`.
local function not_used_up(last, key)
  if last >= TOKENS_END then
    error('USEDUP ' .. key)
  end
end

-- Reserves up to `count` tokens above all before them, none ahead of the clock unless it was set
-- back: what a server that lost its data gives next is above all it ever gave. `value` is the
-- fence as read, `ttl` how long it is kept. The members of a quorum are given one `clock`.
local function reserve(value, count, ttl, clock)
  local last = tonumber(clock) or ticks()
  if not value then
    last = above_all(last, AHEAD_MAX)
  end
  local first = last
  if value then
    local before = last_of(value)
    if before > last + AHEAD_MAX then
      first, last = before + 1, before + math.min(count, AHEAD_TOKENS)
    else
      first = math.max(before + 1, last - count + 1)
      last = math.max(first, last)
    end
    not_used_up(last, fence)
    note(last)
    call('SET', fence, string.format('%016d:%d', last, last - first + 1), 'PX', ttl)
    return first, last
  end
  not_used_up(last, highest or fence)
  note(last)
  if not call('SET', fence, string.format('%016d:1', last), 'PX', ttl, 'NX') then
    foreign(fence)
  end
  return first, last
end
