-- KEYS record
-- ARGV token
-- -> 1 removed, now or before | 0 stale
--RECORD
local record = read()
if not record then
  return 1
elseif record.state ~= 'i' or record.token ~= ARGV[1] then
  return 0
end
call('DEL', K)
return 1
