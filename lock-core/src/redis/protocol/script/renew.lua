-- KEYS lock per claim; in a cluster the clock, and lock queue per claim, or lock queue held slots for
--      those that hold their key with others
-- ARGV how many tokens those may have that hold their key with others, or 0 if nobody is to have any
--      (of a quorum, where no owner is marked as wanted either), 1 if the server is to tell when others write their keys or 0, and me, lease ms per claim, of one
--      that has a permit `<lease ms>:<its number>`
-- -> {the last token of all, or 0; per claim 1 held, 2 held and others wait, 0 lost, -1 a foreign
--    value at the key; or for one that holds it with others {1 or 2, first, last}, with tokens of its
--    own or 0, or the error that the server has for it alone}
local call = redis.call
local claims = (#ARGV - 2) / 2
local has_all = #KEYS > claims
local each = (#KEYS - 1) / claims
local clock = has_all and KEYS[1] or 'lock:clock'
--TOKENS
local last = 0
if ARGV[1] ~= '0' then
  -- The leases, whatever becomes of the tokens: a server without memory still renews.
  local done, _, reserved = pcall(reserve, 0)
  last = done and reserved or 0
end
local tracked = ARGV[2] == '1'
local answers = {last}
for n = 1, claims do
  local at = each * (n - 1) + 2
  local lock = has_all and KEYS[at] or KEYS[n]
  local me, lease = ARGV[2 * n + 1], ARGV[2 * n + 2]
  local holder = redis.pcall('GET', lock)
  local answer, failed = 0, nil
  if holder == me then
    call('PEXPIRE', lock, lease)
    answer = ARGV[1] == '0' and call('EXISTS', lock .. ':queue') == 1 and 2 or 1
  elseif holder == me .. '+' then
    call('PEXPIRE', lock, lease)
    -- The mark stays where nobody waits any more: whoever tries the key in vain looks for it, and tells
    -- the holder only where there is none.
    answer = 1 + call('EXISTS', has_all and KEYS[at + 1] or lock .. ':queue')
  elseif type(holder) == 'table' then
    failed = holder
  end
  local is_held = answer == 1 or answer == 2
  if ARGV[1] == '0' and is_held then
    -- The fence outlives the lease by an hour, as behind a grant.
    call('PEXPIRE', lock .. ':fence', lease + 3600000)
  end
  if tracked and is_held then
    -- The server tells of what was read; it has forgotten this at the write.
    call('GET', lock)
  end
  if answer == 0 and type(holder) == 'string' and string.sub(holder, 1, 5) == 'lock:' then
    local held, slots = lock .. ':held', lock .. ':slots'
    -- An error of one is none of those beside it.
    local done, said = pcall(function()
      local ends = call('ZSCORE', held, me)
      if not ends or tonumber(ends) <= now_ms() then
        return 0
      end
      local number
      lease, number = string.match(lease, '^(%d+):?(%d*)$')
      local longest = call('ZRANGE', held, -1, -1, 'WITHSCORES')[2] - now_ms()
      local left = math.max(longest, tonumber(lease))
      -- In this order: a server without memory refuses a script to begin with the next.
      call('PEXPIRE', lock, left)
      call('ZADD', held, now_ms() + lease, me)
      call('PEXPIRE', held, left)
      if holder ~= 'lock:shared' then
        if number ~= '' then
          -- It may have been evicted.
          call('ZADD', slots, number, me)
        end
        call('PEXPIRE', slots, left)
      end
      -- The last ones of others are above its own.
      local got, first, own = pcall(reserve, nil, tonumber(ARGV[1]))
      return {1 + call('EXISTS', lock .. ':queue'), got and first or 0, got and own or 0}
    end)
    if done then
      answer = said
    else
      failed = said
    end
  end
  if failed then
    -- The error of one claim, as its answer beside those of others.
    local text = type(failed) == 'table' and failed.err or failed
    if string.find(text, 'WRONGTYPE', 1, true) then
      answer = -1
    elseif string.find(text, 'non local key', 1, true) then
      answer = {err = 'TRYAGAIN it is on its way with its slot'}
    else
      answer = {err = text}
    end
  end
  answers[n + 1] = answer
end
return answers
