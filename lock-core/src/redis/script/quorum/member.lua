-- What a member of a quorum has more than others: K[5] its enrolment, K[6] the highest token that it
-- ever reserved, for any key.

-- Whether it still is what the client knows. A pool's connections may have been made after a new
-- start of which the client does not know: then the run_id is compared too.
local function serves(enrolment, life)
  return call('GET', K[5]) == enrolment
    and (not life or string.find(call('INFO', 'server'), life, 1, true) ~= nil)
end

local function note(last)
  if last > (tonumber(call('GET', K[6])) or 0) then
    call('SET', K[6], string.format('%016d', last))
  end
end

-- Where the block of a key without a fence ends: above all that was ever reserved if this client's
-- clock is further behind that than `ahead`. The fence may be gone, and the clock of who used the
-- key last have been ahead.
local function above_all(last, ahead)
  local high = tonumber(call('GET', K[6])) or 0
  return high > last + ahead and high + 1 or last
end
