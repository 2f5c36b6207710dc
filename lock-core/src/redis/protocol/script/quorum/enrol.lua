-- KEYS enrolment
-- ARGV the enrolment seen (empty for none), the new one, run_id seen, its clock seen in us, for how
--      long that is good in us
-- -> 1 written, 0 it is not as it was seen
local time = redis.call('TIME')
local late = time[1] * 1000000 + time[2] - ARGV[4] > tonumber(ARGV[5])
local same = (redis.call('GET', KEYS[1]) or '') == ARGV[1]
if late or not same or not string.find(redis.call('INFO', 'server'), ARGV[3], 1, true) then
  return 0
end
-- Without an end: it lives for as long as the data.
redis.call('SET', KEYS[1], ARGV[2])
return 1
