-- KEYS (lock queue due fence) per claim
-- ARGV (me, lease ms, tokens, fence kept ms) per claim
-- -> per claim {1, first, last, wanted} held | {0} lost | {-1} a foreign value at the key
local call = redis.call
local K
--FENCE
local answers = {}
for n = 1, #KEYS / 4 do
  K = {KEYS[n * 4 - 3], KEYS[n * 4 - 2], KEYS[n * 4 - 1], KEYS[n * 4]}
  local me, lease, tokens = ARGV[n * 4 - 3], ARGV[n * 4 - 2], tonumber(ARGV[n * 4 - 1])
  local holder = redis.pcall('GET', K[1])
  if type(holder) == 'table' then
    answers[n] = {-1}
  elseif holder == me then
    -- The lease first, and whatever becomes of the tokens: a server without memory still renews.
    call('PEXPIRE', K[1], lease)
    local done, first, last = pcall(function()
      if tokens == 0 then
        -- The members of a quorum agree on tokens when they grant.
        call('PEXPIRE', K[4], ARGV[n * 4])
        return 1, 0
      end
      return reserve(call('GET', K[4]), tokens, ARGV[n * 4])
    end)
    if not done then
      first, last = 1, 0
    end
    answers[n] = {1, first, last, call('EXISTS', K[2])}
  else
    answers[n] = {0}
  end
end
return answers
