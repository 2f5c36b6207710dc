-- KEYS scratch
-- -> the commands that this user may not use, by name
local refused = {}
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    local err = string.lower(answer.err)
    -- Redis 7.0 says "the user executing the script can't ...", others "... permissions ...".
    for _, refusal in ipairs({'permission', 'noperm', 'user executing the script'}) do
      if string.find(err, refusal, 1, true) then
        refused[#refused + 1] = string.lower((...))
        break
      end
    end
  end
end
try('TIME')
try('SET', KEYS[1], '1', 'PX', 1000)
try('GET', KEYS[1])
try('PEXPIRE', KEYS[1], 1000)
try('DEL', KEYS[1])
return refused
