-- KEYS lock queue, and of a quorum the fence
-- ARGV waiters to list at most
-- -> {holder, ms left, fence, waiters}
return {
  redis.call('GET', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  KEYS[3] and redis.call('GET', KEYS[3]) or false,
  redis.call('LRANGE', KEYS[2], 0, ARGV[1] - 1)
}
