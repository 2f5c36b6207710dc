-- KEYS lock, and in a cluster clock queue due held slots
-- ARGV me, lease ms
-- -> {first, last, wanted} it shares the key from now on, or did before, with these tokens; 0 lost
local call = redis.call
local lock, me = KEYS[1], ARGV[1]
local holder = call('GET', lock)
local is_alone = holder == me or holder == me .. '+'
if not is_alone and holder ~= 'lock:shared' then
  return 0
end
local clock = KEYS[2] or 'lock:clock'
local queue, due = KEYS[3] or lock .. ':queue', KEYS[4] or lock .. ':due'
--TOKENS
--PROMOTE
several()
if is_alone then
  -- A server without memory lets a script go on that has written.
  call('PEXPIRE', lock, ARGV[2])
else
  look('shared')
  if not mode or not call('ZSCORE', held, me) then
    return 0
  end
  hold_on(me, ARGV[2])
end
-- Those of others are above its last ones, so it goes on with others.
local first, last = reserve()
if is_alone then
  enter(me, ARGV[2], 'shared')
end
promote('')
return {first, last, call('EXISTS', queue)}
