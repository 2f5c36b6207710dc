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
