-- KEYS lock, and in a cluster clock queue due, and held slots where the key is held together
-- ARGV me, lease ms, and how it stands: nothing for a claim that was not asked for before, 1 for one
--      that was, 0 for one that must not wait; and the mode of one that does not want the key alone,
--      and how many tokens it may have if it shares it
-- -> the first of 32 tokens: granted, and nothing was looked at
--    {1, first, last, wanted} granted, and for a mode its number
--    {0, ahead, ms left, foreign, a token above all that were given} blocked
--    {2, how many} permits are given out of this other number of them
--    {3} nothing was done: the key is held together, and all keys are to be named
local call = redis.call
local lock, clock = KEYS[1], KEYS[2] or 'lock:clock'
local me, stands, wants = ARGV[1], ARGV[3], ARGV[4]

if stands ~= '1' and not wants and call('SET', lock, me, 'PX', ARGV[2], 'NX') then
  -- As `reserve` below: to define a function costs as much as a call of a command.
  local time = call('TIME')
  local now = ((time[1] - 1577836800) * 1000000 + time[2]) * 8
  local mark = redis.pcall('SET', clock, now + 31, 'GET')
  -- 64 below 2^53.
  local before, full = tonumber(mark or 0), 9007199254740928
  if before and before < now and now < full then
    return now
  end
  if before and before >= now and before < full then
    call('SET', clock, before + 32)
    return before + 1
  end
  -- What is there is none of ours, or no token is left. It stays.
  call('DEL', lock)
  if type(mark) == 'table' then
    return mark
  end
  if mark then
    call('SET', clock, mark)
  else
    call('DEL', clock)
  end
  return redis.error_reply((before and 'USEDUP ' or 'WRONGTYPE a foreign value is stored at ') .. clock)
end

local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
-- How long a waiter that does not ask again counts as alive.
local DUE_MS = 1500
-- The walk of the line for another limit.
local WALK_MAX = 1000
--TOKENS
--PROMOTE

local holder = call('GET', lock)
--MODE
if together and KEYS[2] and not KEYS[5] then
  return {3}
end
if together or wants then
  several()
end
if together then
  look(together)
  if unnumbered > 0 and call('ZSCORE', held, me) and not call('ZSCORE', slots, me) then
    -- Nobody was told its number, as the answer was lost, or the push: it stands in line once more.
    leave(me)
  end
end
local is_my_turn, stopped, others, is_unknown = false
if together or not holder then
  -- Nobody is woken when a lease ends, so who waits hands the key to the head of the line.
  stopped, others, is_unknown = promote(me)
  is_my_turn = not stopped and not is_unknown and (not mode or fits(wants))
  holder = not is_my_turn and call('GET', lock)
end

-- The answer to an earlier attempt was lost, or the push of a hand-off. One that was long on its way
-- may have found the key free when this claim was in line already.
local is_alone = holder == me or holder == me .. '+'
if is_alone or wants and mode and call('ZSCORE', held, me) then
  local slot = 0
  if is_alone then
    call('PEXPIRE', lock, ARGV[2])
  else
    hold_on(me, ARGV[2])
    slot = mode ~= 'shared' and tonumber(call('ZSCORE', slots, me)) or 0
  end
  if call('HDEL', due, me) == 1 then
    call('LREM', queue, 1, me)
  end
  local first, last = reserve()
  return {1, first, last, holder == me and 0 or call('EXISTS', queue), slot}
end

local limit = string.match(wants or '', '%d+')
if limit and wants ~= mode and not call('HGET', due, me) then
  -- Of those who hold the key, or of the first who waits for a permit.
  local other = string.match(mode or '', '%d+')
  local from = 0
  while not other and from < WALK_MAX do
    local waiting = call('LRANGE', queue, from, from + 99)
    for _, owner in ipairs(waiting) do
      local by, of = string.match(call('HGET', due, owner) or '', '^(%d+):%d+:permits:(%d+)$')
      other = other or by and tonumber(by) >= now_ms() and of
    end
    if #waiting < 100 then
      break
    end
    from = from + 100
  end
  if other and other ~= limit then
    return {2, tonumber(other)}
  end
end

if is_my_turn then
  -- The first write, which a server without memory refuses. Readers of its process may wait behind it.
  local first, last = reserve(nil, tonumber(ARGV[5]))
  -- It may stand behind more dead ones than are skipped by one call, and would be let in twice.
  if stands == '1' and redis.pcall('HDEL', due, me) == 1 then
    call('LREM', queue, 1, me)
  end
  if wants then
    local slot = enter(me, ARGV[2], wants)
    if others then
      -- Those right behind it may fit as well.
      promote('')
    end
    return {1, first, last, call('EXISTS', queue), slot}
  end
  local wanted = call('EXISTS', queue)
  call('SET', lock, wanted == 1 and me .. '+' or me, 'PX', ARGV[2])
  return {1, first, last, wanted}
end

local left = call('PTTL', lock)
local owner, session = owner_of(holder or '')
local alien = (owner or mode or not holder) and 0 or 1
-- The owner of a quorum has a dot, and its release looks for what it wrote.
local may_mark = owner == holder and string.byte(holder, 33) == 58
if not holder then
  -- The key is free, and whose turn it is shows when more of the dead were skipped: at once.
  left = 0
elseif mode then
  -- Until the first of their leases may end.
  left = call('ZRANGE', held, 0, 0, 'WITHSCORES')[2] - now_ms()
end
-- A hand-off that is pushed later ends above it; an older push still on its way does not, also where
-- the mark was deleted by hand.
local latest = math.max(tonumber(call('GET', clock)) or 0, ticks())
-- Before anything is written: it may be no list.
local waiting = call('LLEN', queue)
local holders = math.max(count, 1)
if stands == '0' then
  if may_mark then
    -- One that only lingers is given back. Once for each mark, as some try often.
    call('SET', lock, holder .. '+', 'KEEPTTL')
    call('PUBLISH', 'lock:push:' .. session, 't ' .. owner)
  end
  return {0, waiting + holders, left, alien, latest}
end
local lease = math.min(tonumber(ARGV[2]), DUE_MS)
local at_due = now_ms() + DUE_MS .. ':' .. lease .. (wants and ':' .. wants or '')
local new = call('HSET', due, me, at_due) == 1
local at = not new and call('LPOS', queue, me) or call('RPUSH', queue, me) - 1
-- Ten times as long as any waiter counts as alive.
call('PEXPIRE', queue, DUE_MS * 10)
call('PEXPIRE', due, DUE_MS * 10)
if may_mark then
  -- So that its release looks at the line, and no other one does.
  call('SET', lock, holder .. '+', 'KEEPTTL')
end
if at == 0 and owner then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. owner)
elseif at == 0 and new and mode then
  tell(call('ZRANGE', held, 0, HOLDERS_MAX - 1))
end
return {0, at + holders, left, alien, latest}
