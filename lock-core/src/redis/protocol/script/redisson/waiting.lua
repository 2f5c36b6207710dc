-- What an `RFencedLock` of this name has counted, if there is one: our tokens are above it, and it goes on
-- above ours.
local function counted()
  local given = call('GET', counter)
  if not given then
    return nil
  end
  given = tonumber(given)
  -- Room for the tokens of a grant.
  if not given or given + 65536 >= TOKENS_END then
    error('WRONGTYPE a foreign value is stored at ' .. counter)
  end
  return given
end

-- Whether others wait: claims of ours, or who else listens for the release.
local function wanted(channel, own)
  local claims = redis.pcall('ZCOUNT', waiting, '(' .. now_ms(), '+inf')
  if type(claims) == 'number' and claims > 0 then
    return 1
  end
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
  return listening > tonumber(own) and 1 or 0
end
