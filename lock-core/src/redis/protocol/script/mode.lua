-- How several hold a key, by the value at the lock. No other library has such a value.
local function mode_of(value)
  return value and (string.match(value, '^lock:(shared)$') or string.match(value, '^lock:(permits:%d+)$'))
end

