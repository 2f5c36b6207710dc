-- Each fence value outlives the last lease under it by an hour.
local FENCE_MS = 3600000

local call = redis.call
-- The keys of the lock at hand: lock, queue, due, fence.
local K = KEYS

local now
local function now_us()
  if not now then
    local t = call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  return now
end

-- A key of another type, or a value that no script of ours wrote.
local function foreign(key)
  call('GET', key)
  error('WRONGTYPE a foreign value is stored at a key of this lock')
end

-- The last token of a fence value `last:count`; 16 digits until the year 2286.
local function last_of(value)
  local last = tonumber(string.sub(value, 1, 16))
  if not last or string.byte(value, 17) ~= 58 then
    foreign(K[4])
  end
  return last
end

-- Reserves up to `count` tokens above all before them, none ahead of the clock unless it was set
-- back: what a server that lost its data gives next is above all it ever gave. `value` is the
-- fence as read.
local function reserve(value, count, lease)
  local last = now_us()
  local first = last
  if value then
    local before = last_of(value)
    if before > last then
      first, last = before + 1, before + count
    else
      first = math.max(before + 1, last - count + 1)
      last = math.max(first, last)
    end
    call('SET', K[4], string.format('%.0f:%d', last, last - first + 1), 'PX', FENCE_MS + lease)
  elseif not call('SET', K[4], string.format('%.0f:1', last), 'PX', FENCE_MS + lease, 'NX') then
    foreign(K[4])
  end
  return first, last
end
