-- As version 1 had it.
-- ARGV me, tokens, clock of the tokens (or none: the server's), and at a member of a quorum its
--      enrolment (empty: unknown), and the run_id to compare if any
-- -> 1 released, 2 handed on, 0 not held
local call = redis.call
local K = KEYS
local me = ARGV[1]
if call('GET', K[1]) == me then
  local alone = call('LLEN', K[2]) == 0
  if alone then
    call('DEL', K[1])
    return 1
  end
--COMMON
  local done, handed = pcall(function()
    return promote(me, call('GET', K[4]), tonumber(ARGV[2]), ARGV[3])
  end)
  if done and handed then
    return 2
  end
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', K[1])
  return 1
end
if call('HDEL', K[3], me) == 1 then
  call('LREM', K[2], 1, me)
end
return 0
