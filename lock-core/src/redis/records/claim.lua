-- KEYS record
-- ARGV fingerprint, token, ttl ms, 1 to refuse an unknown outcome
-- -> {5, token taken over from} claimed | {6, age ms} unknown outcome, refused
--    | {1, age ms, token} in flight under a greater token | {2, payload} | {3} | {4} as for peek
--RECORD
local fingerprint, token, ttl = ARGV[1], ARGV[2], ARGV[3]
local record = read()
local replaced = NONE
if record then
  if record.fingerprint ~= fingerprint then
    return {4}
  elseif record.state == 'd' then
    return {2, record.payload}
  elseif record.state == 't' then
    return {3}
  elseif record.token > token then
    return {1, age(record), record.token}
  elseif record.token == token then
    -- Asked again: as it was answered before.
    call('PEXPIRE', K, ttl)
    return {5, record.replaced}
  elseif ARGV[4] == '1' then
    return {6, age(record)}
  end
  replaced = record.token
end
write({
  state = 'i', token = token, replaced = replaced, since = string.format('%016d', now_ms()),
  fingerprint = fingerprint, payload = '',
}, ttl)
return {5, replaced}
