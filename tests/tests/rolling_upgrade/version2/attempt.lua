-- As version 2 had it.
-- KEYS lock, and in a cluster clock queue due
-- ARGV me, lease ms, and how it stands: nothing for a claim that was not asked for before, 1 for one
--      that was, 0 for one that must not wait
-- -> the first of 32 tokens: granted, and nothing was looked at
--    {1, first, last, wanted} granted
--    {0, ahead, ms left, foreign, a token above all that were given} blocked
local call = redis.call
local lock, clock = KEYS[1], KEYS[2] or 'lock:clock'
local me, stands = ARGV[1], ARGV[3]

if stands ~= '1' and call('SET', lock, me, 'PX', ARGV[2], 'NX') then
  -- As `reserve` below: to define a function costs as much as a call of a command.
  local time = call('TIME')
  local now = ((time[1] - 1577836800) * 1000000 + time[2]) * 8
  local mark = redis.pcall('SET', clock, now + 31, 'GET')
  if not mark then
    return now
  end
  local before = tonumber(mark)
  if before then
    if before < now then
      return now
    end
    call('SET', clock, before + 32)
    return before + 1
  end
  -- What is there is none of ours, and stays.
  call('DEL', lock)
  if type(mark) == 'table' then
    return mark
  end
  call('SET', clock, mark)
  return redis.error_reply('WRONGTYPE a foreign value is stored at ' .. clock)
end

local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
-- How long a waiter that does not ask again counts as alive.
local DUE_MS = 1500
--COMMON

local holder = call('GET', lock)
if not holder then
  -- Nobody is woken when a lease ends, so who waits hands the key to the head of the line.
  if not promote(me) then
    local first, last = reserve()
    local wanted = call('EXISTS', queue)
    call('SET', lock, wanted == 1 and me .. '+' or me, 'PX', ARGV[2])
    return {1, first, last, wanted}
  end
  holder = call('GET', lock)
end

if holder == me or holder == me .. '+' then
  -- The answer to an earlier attempt was lost, or the push of a hand-off. One that was long on its way
  -- may have found the key free when this claim was in line already.
  call('PEXPIRE', lock, ARGV[2])
  if call('HDEL', due, me) == 1 then
    call('LREM', queue, 1, me)
  end
  local first, last = reserve()
  return {1, first, last, holder == me and 0 or call('EXISTS', queue)}
end

local left = call('PTTL', lock)
local owner, session = owner_of(holder)
local alien = owner and 0 or 1
-- A hand-off that is pushed later ends above it; an older push still on its way does not, also where
-- the mark was deleted by hand.
local latest = math.max(tonumber(call('GET', clock)) or 0, ticks())
-- Before anything is written: it may be no list.
local waiting = call('LLEN', queue)
if stands == '0' then
  return {0, waiting + 1, left, alien, latest}
end
local lease = math.min(tonumber(ARGV[2]), DUE_MS)
local new = call('HSET', due, me, now_ms() + DUE_MS .. ':' .. lease) == 1
local at = not new and call('LPOS', queue, me)
local ahead = at and at + 1 or call('RPUSH', queue, me)
-- Ten times as long as any waiter counts as alive.
call('PEXPIRE', queue, DUE_MS * 10)
call('PEXPIRE', due, DUE_MS * 10)
if owner == holder and is_markable(holder) then
  -- So that its release looks at the line, and no other one does.
  call('SET', lock, holder .. '+', 'KEEPTTL')
end
if ahead == 1 and owner then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. owner)
end
return {0, ahead, left, alien, latest}
