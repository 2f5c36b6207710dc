"""Holds redis-py's Lock on command, with the answers of the Rust worker.

One command per line of standard input, one line of JSON per command:

    acquire NAME WAIT_MS LEASE_MS   NAME is the Redis key, as lock:{order:42}; WAIT_MS 0: one try
    release
    contend NAME ROUNDS COUNTER     takes NAME ROUNDS times, and counts who else was inside
    exit
"""

import json
import sys
import time

import redis
from redis.exceptions import LockError


def reply(ok, **fields):
    line = {"ok": ok, "t_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC), **fields}
    print(json.dumps(line), flush=True)


def lock_of(client, name, wait_ms, lease_ms):
    blocking = wait_ms > 0
    return client.lock(
        name,
        timeout=lease_ms / 1000,
        sleep=0.005,
        blocking=blocking,
        blocking_timeout=wait_ms / 1000 if blocking else None,
    )


def contend(client, name, rounds, counter):
    """Each visitor counts itself in and out; more than one inside is an overlap."""
    overlaps = 0
    for _ in range(rounds):
        lock = lock_of(client, name, 10_000, 10_000)
        if not lock.acquire():
            return reply(False, error="timeout", message="redis-py was starved")
        overlaps += client.incr(counter) != 1
        client.decr(counter)
        lock.release()
        # redis-py retries at once; without a pause it would take turns with itself only.
        time.sleep(0.001)
    return reply(True, value=overlaps)


def main():
    client = redis.Redis.from_url(sys.argv[1])
    client.ping()
    held = None
    for line in sys.stdin:
        match line.split():
            case ["acquire", name, wait_ms, lease_ms]:
                lock = lock_of(client, name, int(wait_ms), int(lease_ms))
                if lock.acquire():
                    held = lock
                    reply(True)
                else:
                    reply(False, error="busy", message="the key is held")
            case ["release"] if held is not None:
                try:
                    held.release()
                    reply(True)
                except LockError as error:
                    reply(False, error="not_held", message=str(error))
                held = None
            case ["contend", name, rounds, counter]:
                contend(client, name, int(rounds), counter)
            case ["exit"]:
                return
            case _:
                reply(False, error="usage", message=f"unknown command {line!r}")


main()
