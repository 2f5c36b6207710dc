-- ARGV me, tokens, clock of the tokens (or none: the server's), and at a member of a quorum its
--      enrolment (empty: unknown), and the run_id to compare if any
-- -> 1 released, 2 handed on, 0 not held
local call = redis.call
local lock, queue, due, fence = unpack(KEYS)
--MEMBER
local me = ARGV[1]
if call('GET', lock) == me then
  local alone = call('LLEN', queue) == 0
  -- Nobody is handed a key where that could be a grant in quarantine.
  alone = alone or not serves(ARGV[4], ARGV[5])
  if alone then
    call('DEL', lock)
    return 1
  end
--FENCE
--PROMOTE_QUORUM
  local done, handed = pcall(function()
    return promote(me, call('GET', fence), tonumber(ARGV[2]), FENCE_MS, ARGV[3])
  end)
  if done and handed then
    return 2
  end
  -- Nobody is alive, or a foreign value is in the way: the key is free all the same.
  call('DEL', lock)
  return 1
end
if call('HDEL', due, me) == 1 then
  call('LREM', queue, 1, me)
end
return 0
