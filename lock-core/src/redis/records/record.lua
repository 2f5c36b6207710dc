local call = redis.call
local K = KEYS[1]
-- A record: magic and version; state (i in flight, d done, t tombstone, a mark of an abort); tokens
-- of 20 digits, zeros for none: its own, the one that it took over from, the first one in that
-- row, the greatest that was aborted; times of 16 digits (ms): claimed at, lives until, and both
-- of the one that it took over from; fingerprint (32 bytes); length of the payload (10 digits);
-- payload. Tokens are compared as text: a number here has 53 bits only.
local MAGIC, HEAD, NONE, NEVER = 'idem1', 192, string.rep('0', 20), string.rep('0', 16)
local FOREIGN = 'WRONGTYPE what is stored here is no idempotency record of version 1'
local FIELDS = {
  {'token', 7, 26}, {'replaced', 27, 46}, {'first', 47, 66}, {'barred', 67, 86},
  {'since', 87, 102}, {'until_ms', 103, 118}, {'back_since', 119, 134}, {'back_until', 135, 150},
  {'fingerprint', 151, 182},
}

local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function read()
  local value = call('GET', K)
  if not value then
    return nil
  end
  local record = {state = string.sub(value, 6, 6), payload = string.sub(value, HEAD + 1)}
  for _, field in ipairs(FIELDS) do
    record[field[1]] = string.sub(value, field[2], field[3])
  end
  local length = string.sub(value, 183, HEAD)
  local sound = #value >= HEAD
    and string.sub(value, 1, 5) == MAGIC
    and string.find('idta', record.state, 1, true)
    and string.find(string.sub(value, 7, 150), '^%d+$')
    and string.find(length, '^%d+$')
    and tonumber(length) == #record.payload
    and (record.state == 'd' or record.payload == '')
  if not sound then
    error(FOREIGN)
  end
  return record
end

local function age(record)
  return math.max(0, now_ms() - record.since)
end

-- `ttl` begins a life; without one, the record lives on as long as it was to. Another `by` than
-- `call` is for what can be done otherwise when the server has no memory left.
local function write(record, ttl, by)
  local now = now_ms()
  if ttl then
    record.until_ms = string.format('%016d', now + ttl)
  end
  local parts = {MAGIC, record.state}
  for _, field in ipairs(FIELDS) do
    parts[#parts + 1] = record[field[1]]
  end
  parts[#parts + 1] = string.format('%010d', #record.payload)
  parts[#parts + 1] = record.payload
  local px = ttl or string.format('%d', math.max(1, record.until_ms - now))
  return (by or call)('SET', K, table.concat(parts), 'PX', px)
end
