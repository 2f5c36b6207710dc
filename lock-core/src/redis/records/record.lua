local call = redis.call
local K = KEYS[1]
-- A record: magic and version, state (i in flight, d done, t tombstone), token and the token that
-- it took over from (20 digits each, zeros for none), claimed at (ms, 16 digits), fingerprint (32
-- bytes), length of the payload (10 digits), payload. Tokens are compared as text: a number here
-- has 53 bits only.
local MAGIC, HEAD, NONE = 'idem1', 104, string.rep('0', 20)
local FOREIGN = 'WRONGTYPE what is stored here is no idempotency record of version 1'

local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function read()
  local value = call('GET', K)
  if not value then
    return nil
  end
  local record = {
    state = string.sub(value, 6, 6),
    token = string.sub(value, 7, 26),
    replaced = string.sub(value, 27, 46),
    since = string.sub(value, 47, 62),
    fingerprint = string.sub(value, 63, 94),
    payload = string.sub(value, HEAD + 1),
  }
  local sound = #value >= HEAD
    and string.sub(value, 1, 5) == MAGIC
    and string.find('idt', record.state, 1, true)
    and string.find(string.sub(value, 7, 62), '^%d+$')
    and string.find(string.sub(value, 95, HEAD), '^%d+$')
    and tonumber(string.sub(value, 95, HEAD)) == #record.payload
    and (record.state == 'd' or record.payload == '')
  if not sound then
    error(FOREIGN)
  end
  return record
end

local function age(record)
  return math.max(0, now_ms() - record.since)
end

local function write(record, ttl)
  call('SET', K, table.concat({
    MAGIC, record.state, record.token, record.replaced, record.since, record.fingerprint,
    string.format('%010d', #record.payload), record.payload,
  }), 'PX', ttl)
end
