-- KEYS lock, and in a cluster clock queue due, and held slots where the key is held together
-- ARGV me, lease ms, until when in ms
-- -> {1, first, last, wanted} granted, whoever held the key; {3} nothing was done: all keys are to be
--    named
--LATE
local call = redis.call
local lock, clock, me = KEYS[1], KEYS[2] or 'lock:clock', ARGV[1]
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
-- Of whatever library: a value of another type is an error here, and stays.
local holder = call('GET', lock)
--MODE
if together and KEYS[2] and not KEYS[5] then
  return {3}
end
--TOKENS
--PROMOTE
several()
-- The first write, which a server without memory refuses: nobody has lost the key then.
local first, last = reserve()
local taken = {}
if together then
  taken = call('ZRANGE', held, 0, HOLDERS_MAX - 1)
  call('DEL', held, slots)
elseif holder and holder ~= me and holder ~= me .. '+' then
  taken = {(owner_of(holder))}
end
local wanted = call('EXISTS', queue)
call('SET', lock, wanted == 1 and me .. '+' or me, 'PX', ARGV[2])
-- Those who held it renew when they hear that it is wanted, and find that they hold nothing.
tell(taken)
return {1, first, last, wanted}
