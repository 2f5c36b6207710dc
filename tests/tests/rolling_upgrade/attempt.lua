-- As version 1 had it.
-- ARGV me, lease ms, tokens, join (1 or 0), due in ms, claim lease ms, fence kept ms,
--      clock of the tokens (or none: the server's), and at a member of a quorum its enrolment, and
--      the run_id to compare if any
-- -> -2 it is not (any more) what the client knows
--    {1, first, last, wanted} granted
--    {0, ahead, ms left, foreign, last token of the key, or of the clock} blocked
local call = redis.call
-- The keys of the lock at hand: lock, queue, due, fence.
local K = KEYS
--COMMON
local me = ARGV[1]
local values = {call('GET', K[1]), call('GET', K[4])}
local holder = values[1]

local function take(fence, wanted)
  local first, last = reserve(fence, tonumber(ARGV[3]), ARGV[7], ARGV[8])
  if not call('SET', K[1], me, 'PX', ARGV[2], 'NX') then
    foreign(K[1])
  end
  return {1, first, last, wanted}
end

local waiting = call('LLEN', K[2])
if not holder and waiting == 0 then
  return take(values[2], 0)
end

if holder == me then
  -- The answer to an earlier attempt was lost, or the push of a hand-off: the tokens stay.
  call('PEXPIRE', K[1], ARGV[2])
  local first, last
  if values[2] then
    last = last_of(values[2])
    first = last - tonumber(string.sub(values[2], 18)) + 1
  else
    -- The fence was deleted by hand.
    first, last = reserve(nil, 1, ARGV[7], ARGV[8])
  end
  return {1, first, last, waiting > 0 and 1 or 0}
end


if not holder then
  -- Nobody is woken when a lease ends, so whoever comes by hands the key to the head of the line.
  if call('EXISTS', K[1]) == 1 then
    foreign(K[1])
  end
  if not promote(me, values[2], tonumber(ARGV[3]), ARGV[8]) then
    return take(call('GET', K[4]), call('EXISTS', K[2]))
  end
  values = {call('GET', K[1]), call('GET', K[4])}
  holder = values[1]
end

local left = call('PTTL', K[1])
-- A hand-off that is pushed later carries greater tokens; an older push still on its way does not.
local fence = values[2]
local latest = fence and last_of(fence) or ticks()
local session = string.match(holder, '^%x+%.(%x+)$')
local alien = session and 0 or 1
if ARGV[4] == '0' then
  return {0, call('LLEN', K[2]) + 1, left, alien, latest}
end
local new = call('HSET', K[3], me, (now_ms() + ARGV[5]) .. ':' .. ARGV[6]) == 1
local at = not new and call('LPOS', K[2], me)
local ahead = at and at + 1 or call('RPUSH', K[2], me)
-- Ten times as long as any waiter counts as alive.
call('PEXPIRE', K[2], ARGV[5] * 10)
call('PEXPIRE', K[3], ARGV[5] * 10)
if ahead == 1 and session then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. holder)
end
return {0, ahead, left, alien, latest}
