-- KEYS lock per claim; in a cluster the clock, and lock queue per claim
-- ARGV 1 if they are to have tokens or 0 (of a quorum, where no owner is marked as wanted), 1 if the
--      server is to tell when others write their keys or 0, and me, lease ms per claim
-- -> {the last token of all, or 0; per claim 1 held, 2 held and others wait, 0 lost, -1 a foreign
--    value at the key}
local call = redis.call
local claims = (#ARGV - 2) / 2
local has_all = #KEYS > claims
local last = 0
if ARGV[1] == '1' then
  local clock = has_all and KEYS[1] or 'lock:clock'
  -- The leases, whatever becomes of the tokens: a server without memory still renews.
  pcall(function()
--TOKENS
    local _, reserved = reserve(0)
    last = reserved
  end)
end
local tracked = ARGV[2] == '1'
local answers = {last}
for n = 1, claims do
  local lock = has_all and KEYS[2 * n] or KEYS[n]
  local me, lease = ARGV[2 * n + 1], ARGV[2 * n + 2]
  local holder = redis.pcall('GET', lock)
  local answer = 0
  if holder == me then
    call('PEXPIRE', lock, lease)
    answer = ARGV[1] == '0' and call('EXISTS', lock .. ':queue') == 1 and 2 or 1
  elseif holder == me .. '+' then
    call('PEXPIRE', lock, lease)
    answer = 2
    if call('EXISTS', has_all and KEYS[2 * n + 1] or lock .. ':queue') == 0 then
      -- Nobody waits any more. A server without memory may refuse that.
      redis.pcall('SET', lock, me, 'KEEPTTL')
      answer = 1
    end
  elseif type(holder) == 'table' then
    answer = -1
  end
  if tracked and answer > 0 then
    -- The server tells of what was read; it has forgotten this at the write.
    call('GET', lock)
  end
  answers[n + 1] = answer
end
return answers
