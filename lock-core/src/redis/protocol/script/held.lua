-- Those who hold a key together: `shared`, or `permits:<how many there are>`. The mode stands at the lock
-- as `lock:<mode>`, so that whoever sets that only if it is not there stays out. One sorted set has each
-- of them with the end of its lease, and for permits another one has their numbers.

-- How they hold it, and how many they are. While `mode` is not set, nobody does.
local mode, count = nil, 0
-- How many have a permit whose number is not known: the numbers can be evicted alone. Renewals bring them
-- back, and until then no number is certain to be free.
local unnumbered = 0
-- Those that one call ends or tells at most, so that no call holds the server up.
local HOLDERS_MAX = 1000
local held, slots, look, fits, extend, hold_on, enter, leave, tell

-- Makes the names above known. Most calls meet no such key, and each function costs a call about 0.1 us.
local function several()
  if held then
    return
  end
  held, slots = KEYS[5] or lock .. ':held', KEYS[6] or lock .. ':slots'
  -- Until when the lock lives, if this call has set it for them.
  local lives = 0

  -- Reads who they are, once the lock said how they hold it, and ends the leases that are over.
  function look(together)
    local over = call('ZRANGE', held, '-inf', now_ms(), 'BYSCORE', 'LIMIT', 0, HOLDERS_MAX)
    count = call('ZCARD', held) - #over
    mode = count > 0 and together or nil
    if #over > 0 then
      call('ZREM', held, unpack(over))
      if together ~= 'shared' then
        call('ZREM', slots, unpack(over))
      end
    end
    if mode and mode ~= 'shared' then
      unnumbered = math.max(count - call('ZCARD', slots), 0)
    end
  end

  -- Whether one that wants it so can hold the key beside them. Without a mode it wants it alone.
  function fits(wants)
    return not mode
      or wants == mode and unnumbered == 0 and count < (tonumber(string.match(mode, '%d+')) or math.huge)
  end

  -- All lives as long as the longest lease.
  function extend()
    lives = tonumber(call('ZRANGE', held, -1, -1, 'WITHSCORES')[2])
    local left = lives - now_ms()
    call('SET', lock, 'lock:' .. mode, 'PX', left)
    call('PEXPIRE', held, left)
    if mode ~= 'shared' then
      call('PEXPIRE', slots, left)
    end
  end

  -- One that holds the key does so for a lease from now on. The lock comes first, and is not cut short: a
  -- server without memory refuses a script to begin with the set, and what comes behind may be an error.
  function hold_on(owner, lease)
    call('PEXPIRE', lock, math.max(call('PTTL', lock), tonumber(lease)))
    call('ZADD', held, now_ms() + lease, owner)
    extend()
  end

  -- Lets one in that fits. Returns its number, of permits the lowest that is free.
  function enter(owner, lease, wants)
    -- Of those who held it until somebody deleted the lock. What is of another type is an error, and stays.
    if not mode and call('ZCARD', held) > 0 then
      call('DEL', held)
    end
    local slot = 0
    if wants ~= 'shared' then
      if not mode and call('ZCARD', slots) > 0 then
        call('DEL', slots)
      end
      -- Each number below the lowest free one is at the place of that number.
      local above = call('ZCARD', slots)
      while slot < above do
        local middle = math.floor((slot + above) / 2)
        if tonumber(call('ZRANGE', slots, middle, middle, 'WITHSCORES')[2]) == middle then
          slot = middle + 1
        else
          above = middle
        end
      end
      call('ZADD', slots, slot, owner)
    end
    local ends = now_ms() + lease
    call('ZADD', held, ends, owner)
    mode, count = wants, count + 1
    if ends > lives then
      extend()
    end
    return slot
  end

  -- Takes one out; whether it held the key. The lock is the caller's to give up behind the last.
  function leave(owner)
    if not mode or call('ZREM', held, owner) == 0 then
      return false
    end
    if mode ~= 'shared' and call('ZREM', slots, owner) == 0 then
      unnumbered = math.max(unnumbered - 1, 0)
    end
    count = count - 1
    if count == 0 then
      mode, lives, unnumbered = nil, 0, 0
    end
    return true
  end

  -- Tells these that others want the key.
  function tell(owners)
    for _, owner in ipairs(owners) do
      call('PUBLISH', 'lock:push:' .. string.sub(owner, 34), 'w ' .. owner)
    end
  end
end
