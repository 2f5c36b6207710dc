-- KEYS record
-- ARGV fingerprint
-- -> {0} absent | {1, age ms, token} in flight | {2, payload} done | {3} tombstone | {4} mismatch
--RECORD
local record = read()
if not record or record.state == 'a' then
  return {0}
elseif record.fingerprint ~= ARGV[1] then
  return {4}
elseif record.state == 'd' then
  return {2, record.payload}
elseif record.state == 't' then
  return {3}
end
return {1, age(record), record.token}
