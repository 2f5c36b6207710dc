-- KEYS record
-- ARGV token, d or t, payload, ttl ms
-- -> 1 written, now or before | 0 stale
--RECORD
local record = read()
if not record or record.state == 'a' or record.token ~= ARGV[1] then
  return 0
elseif record.state ~= 'i' then
  return (record.state == ARGV[2] and record.payload == ARGV[3]) and 1 or 0
end
record.state, record.payload = ARGV[2], ARGV[3]
write(record, ARGV[4])
return 1
