-- KEYS lock
-- ARGV the channel, until when in ms
-- -> 1 released, 0 nobody held it
--LATE
--TELL
-- A value of another type is an error here, and stays.
if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
tell(KEYS[1], 'a')
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], '0')
return 1
