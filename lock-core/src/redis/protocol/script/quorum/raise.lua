-- ARGV me, token, fence kept ms, and at a member its enrolment, and the run_id to compare if any
-- -> -2 it is not (any more) what the client knows, 1 the fence is at the token, 0 not held, or granted anew since
local call = redis.call
local lock, _, _, fence = unpack(KEYS)
--MEMBER
--FENCE
if not serves(ARGV[4], ARGV[5]) then
  return -2
end
if call('GET', lock) ~= ARGV[1] then
  return 0
end
local value = call('GET', fence)
if value and last_of(value) >= tonumber(ARGV[2]) then
  return last_of(value) == tonumber(ARGV[2]) and 1 or 0
end
note(tonumber(ARGV[2]))
call('SET', fence, string.format('%016d:1', ARGV[2]), 'PX', ARGV[3])
return 1
