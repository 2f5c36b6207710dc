// Holds a lock of node-redlock on command, with the answers of the Rust worker.
//
// Its argument is the URL of a Redis. One command per line of standard input, one line of JSON per
// command:
//
//   acquire NAME WAIT_MS LEASE_MS   NAME is the Redis key, as lock:{order:42}; WAIT_MS 0: one try
//   release
//   exit

import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import Redlock from "redlock";

const RETRY_EVERY_MS = 5;

function reply(code, error) {
  // It is the clock of the Rust worker.
  const answer = { ok: !error, t_ns: Number(process.hrtime.bigint()) };
  if (error) Object.assign(answer, { error: code, message: String(error) });
  console.log(JSON.stringify(answer));
}

const client = new Redis(process.argv[2]);
let held;

async function acquire(name, waitMs, leaseMs) {
  const retryCount = Math.floor(waitMs / RETRY_EVERY_MS);
  const locks = new Redlock([client], { retryCount, retryDelay: RETRY_EVERY_MS, retryJitter: 0 });
  held = await locks.lock(name, leaseMs);
}

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, name, waitMs, leaseMs] = line.split(" ");
  if (verb === "exit") break;
  const [asked, code] =
    verb === "acquire" ? [acquire(name, Number(waitMs), Number(leaseMs)), "busy"] : [held.unlock(), "not_held"];
  await asked.then(() => reply(), (error) => reply(code, error));
}
client.disconnect();
