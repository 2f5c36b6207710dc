-- What a server has more that is enrolled as a member of a quorum: its enrolment, and the highest token
-- that it ever reserved, for any key.
local enrolled, highest = KEYS[5], KEYS[6]

-- Whether it still is what the client knows. A pool's connections may have been made after a new
-- start of which the client does not know: then the run_id is compared too.
local function serves(enrolment, life)
  return not enrolled or call('GET', enrolled) == enrolment
    and (not life or string.find(call('INFO', 'server'), life, 1, true) ~= nil)
end

local function note(last)
  if highest and last > (tonumber(call('GET', highest)) or 0) then
    call('SET', highest, string.format('%016d', last))
  end
end

-- Where the block of a key without a fence ends: above all that was ever reserved if this client's
-- clock is further behind that than `ahead`. The fence may be gone, and the clock of who used the
-- key last have been ahead.
local function above_all(last, ahead)
  local high = highest and tonumber(call('GET', highest)) or 0
  return high > last + ahead and high + 1 or last
end
