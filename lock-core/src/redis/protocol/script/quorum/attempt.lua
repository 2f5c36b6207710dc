-- ARGV me, lease ms, tokens, join (1 or 0), due in ms, claim lease ms, fence kept ms,
--      clock of the tokens (or none: the server's), and at a member of a quorum its enrolment, and
--      the run_id to compare if any
-- -> -2 it is not (any more) what the client knows
--    {1, first, last, wanted} granted
--    {0, ahead, ms left, foreign, last token of the key, or of the clock} blocked
local call = redis.call
local lock, queue, due, fence = unpack(KEYS)
--MEMBER
--FENCE
local me = ARGV[1]
if not serves(ARGV[9], ARGV[10]) then
  return -2
end
local values = {call('GET', lock), call('GET', fence)}
local holder = values[1]

local function take(value, wanted)
  local first, last = reserve(value, tonumber(ARGV[3]), ARGV[7], ARGV[8])
  if not call('SET', lock, me, 'PX', ARGV[2], 'NX') then
    foreign(lock)
  end
  return {1, first, last, wanted}
end

local waiting = call('LLEN', queue)
if not holder and waiting == 0 then
  return take(values[2], 0)
end

if holder == me then
  -- The answer to an earlier attempt was lost, or the push of a hand-off: the tokens stay.
  call('PEXPIRE', lock, ARGV[2])
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

--PROMOTE_QUORUM

if not holder then
  -- Nobody is woken when a lease ends, so whoever comes by hands the key to the head of the line.
  if call('EXISTS', lock) == 1 then
    foreign(lock)
  end
  local is_given, is_unknown = promote(me, values[2], tonumber(ARGV[3]), FENCE_MS, ARGV[8])
  if not is_given and not is_unknown then
    return take(call('GET', fence), call('EXISTS', queue))
  end
  values = {call('GET', lock), call('GET', fence)}
  holder = values[1]
end

-- Without a holder, whose turn it is shows when more of the dead were skipped: at once.
local left = holder and call('PTTL', lock) or 0
-- A hand-off that is pushed later carries greater tokens; an older push still on its way does not.
local latest = values[2] and last_of(values[2]) or ticks()
local owner, session = owner_of(holder or '')
local alien = (owner or not holder) and 0 or 1
if ARGV[4] == '0' then
  return {0, call('LLEN', queue) + 1, left, alien, latest}
end
local new = call('HSET', due, me, (now_ms() + ARGV[5]) .. ':' .. ARGV[6]) == 1
local at = not new and call('LPOS', queue, me)
local ahead = at and at + 1 or call('RPUSH', queue, me)
-- Ten times as long as any waiter counts as alive.
call('PEXPIRE', queue, ARGV[5] * 10)
call('PEXPIRE', due, ARGV[5] * 10)
if ahead == 1 and owner then
  call('PUBLISH', 'lock:push:' .. session, 'w ' .. owner)
end
return {0, ahead, left, alien, latest}
