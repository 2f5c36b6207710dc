-- KEYS lock
-- ARGV me, lease ms
-- -> 1 held, 2 held with others if it is one of them, 0 lost, -1 a foreign value, as renew.lua for one
--    claim; without tokens, and not whether others wait: the slot is on its way, and some of the other
--    keys may be elsewhere
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return string.find(holder.err, 'WRONGTYPE', 1, true) and -1 or holder
end
--MODE
if together then
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
  return 2
elseif holder ~= ARGV[1] and holder ~= ARGV[1] .. '+' then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
