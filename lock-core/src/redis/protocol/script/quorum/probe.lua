-- KEYS enrolment, highest
-- -> {enrolment, highest, s, us, INFO server}
local time = redis.call('TIME')
return {
  redis.call('GET', KEYS[1]),
  redis.call('GET', KEYS[2]),
  tonumber(time[1]),
  tonumber(time[2]),
  redis.call('INFO', 'server')
}
