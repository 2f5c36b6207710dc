-- How several hold the key, by the value at the lock. No other library has such a value.
local together = holder and string.sub(holder, 1, 5) == 'lock:'
  and (string.match(holder, '^lock:(shared)$') or string.match(holder, '^lock:(permits:%d+)$'))
