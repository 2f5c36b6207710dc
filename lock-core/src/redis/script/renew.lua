-- KEYS (lock queue due fence) per claim
-- ARGV (me, lease ms, tokens) per claim
-- -> per claim {1, first, last, wanted} held | {0} lost | {-1, error}
local answers = {}
for n = 1, #KEYS / 4 do
  K = {KEYS[n * 4 - 3], KEYS[n * 4 - 2], KEYS[n * 4 - 1], KEYS[n * 4]}
  local me, lease, tokens = ARGV[n * 3 - 2], ARGV[n * 3 - 1], ARGV[n * 3]
  local holder = redis.pcall('GET', K[1])
  if type(holder) == 'table' then
    answers[n] = {-1, holder.err}
  elseif holder == me then
    -- First of all, so that a server without memory still renews; tokens can wait.
    redis.call('PEXPIRE', K[1], lease)
    local first, last = reserve(tokens, tonumber(lease))
    answers[n] = {1, first, last, redis.call('EXISTS', K[2])}
  else
    answers[n] = {0}
  end
end
return answers
