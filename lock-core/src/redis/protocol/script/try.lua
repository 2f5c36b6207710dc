-- Tries a command, and notes its name if this user may not use it.
local refused, seen = {}, {}
local function try(...)
  local name = string.lower((...))
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err and not seen[name] then
    local err = string.lower(answer.err)
    -- Redis 7.0 says "the user executing the script can't ...", others "... permissions ...".
    for _, refusal in ipairs({'permission', 'noperm', 'user executing the script'}) do
      if string.find(err, refusal, 1, true) then
        refused[#refused + 1], seen[name] = name, true
        break
      end
    end
  end
end
