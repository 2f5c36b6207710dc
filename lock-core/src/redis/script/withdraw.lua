-- KEYS lock, and in a cluster clock queue due
-- ARGV me, and the last token of its block if it knows that others wait
-- -> 1 released, 2 handed on, 0 not held
local call = redis.call
local lock, me = KEYS[1], ARGV[1]
local holder = call('GET', lock)
if holder == me then
  return call('DEL', lock)
end
local clock = KEYS[2] or 'lock:clock'
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
if holder == me .. '+' then
--TOKENS
--PROMOTE
  local done, handed = pcall(promote, me, tonumber(ARGV[2]))
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
