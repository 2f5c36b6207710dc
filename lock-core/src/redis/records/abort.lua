-- KEYS record
-- ARGV token, ttl ms of a mark
-- -> 1 removed, now or before | 0 stale
--RECORD
local token = ARGV[1]
local record = read()
if record and record.state == 'i' and record.token <= token then
  record.barred = record.barred > token and record.barred or token
  if record.token == token then
    if record.replaced == NONE or tonumber(record.back_until) <= now_ms() then
      record = nil
    else
      -- The one that it took over from is without an outcome again.
      record.token, record.replaced, record.first = record.replaced, record.first, NONE
      record.since, record.until_ms = record.back_since, record.back_until
    end
  end
  if record then
    write(record)
    return 1
  end
elseif record and record.state ~= 'a' then
  return 0
end
if record and record.token > token then
  token = record.token
end
local marked = write({
  state = 'a', token = token, replaced = NONE, first = NONE, barred = token, since = NEVER,
  back_since = NEVER, back_until = NEVER, fingerprint = string.rep('\0', 32), payload = '',
}, ARGV[2], redis.pcall)
if marked.err then
  call('DEL', K)
end
return 1
