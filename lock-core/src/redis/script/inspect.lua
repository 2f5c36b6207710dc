-- KEYS lock queue due fence
-- ARGV waiters to list at most
-- -> {holder, ms left, fence, waiters}
return {
  redis.call('GET', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('GET', KEYS[4]),
  redis.call('LRANGE', KEYS[2], 0, ARGV[1] - 1)
}
