-- KEYS locks: first those to give back, then those to take
-- ARGV how many are given back; per lock me, and for one to take lease ms
-- -> per lock: 1 it was given back, or the first of the 32 tokens that it was taken with, the same for
--    all; 0 nothing was done, and the claim is to ask alone
local call, try = redis.call, redis.pcall
local gives = tonumber(ARGV[1])
local answers, taken = {}, {}
for n = 1, gives do
  answers[n] = try('GET', KEYS[n]) == ARGV[n + 1] and call('DEL', KEYS[n]) or 0
end
for n = gives + 1, #KEYS do
  local at = 2 * n - gives
  local set = try('SET', KEYS[n], ARGV[at], 'PX', ARGV[at + 1], 'NX')
  answers[n] = 0
  if set and set.ok then
    taken[#taken + 1] = n
  end
end
if #taken == 0 then
  return answers
end
local clock = 'lock:clock'
--TOKENS
local done, first = pcall(reserve)
for _, n in ipairs(taken) do
  if done then
    answers[n] = first
  else
    -- A foreign value is at the clock: each says so by itself.
    call('DEL', KEYS[n])
  end
end
return answers
