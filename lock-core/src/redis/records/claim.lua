-- KEYS record
-- ARGV fingerprint, token, ttl ms, 1 to refuse an unknown outcome
-- -> {5, token taken over from} claimed | {6, age ms} unknown outcome, refused
--    | {1, age ms, token} in flight under a greater token, or aborted | {2, payload} | {3} | {4} as for peek
--RECORD
local fingerprint, token, ttl = ARGV[1], ARGV[2], ARGV[3]
local record = read()
local replaced, first, back_since, back_until = NONE, NONE, NEVER, NEVER
if record and record.state == 'a' then
  if record.token >= token then
    return {1, 0, record.token}
  end
elseif record then
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
    if write(record, ttl, redis.pcall).err then
      call('PEXPIRE', K, ttl)
    end
    return {5, record.replaced}
  elseif record.barred >= token then
    return {1, age(record), record.barred}
  elseif ARGV[4] == '1' then
    return {6, age(record)}
  end
  replaced, back_since, back_until = record.token, record.since, record.until_ms
  first = record.first ~= NONE and record.first or record.replaced
end
write({
  state = 'i', token = token, replaced = replaced, first = first, barred = NONE,
  since = string.format('%016d', now_ms()), back_since = back_since, back_until = back_until,
  fingerprint = fingerprint, payload = '',
}, ttl)
return {5, replaced}
