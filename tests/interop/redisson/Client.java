// Holds an RLock or an RFencedLock of Redisson on command, with the answers of the Rust worker.
//
// Its argument is the URL of a Redis. One command per line of standard input, one line of JSON per
// command:
//
//   acquire NAME WAIT_MS LEASE_MS  NAME is the Redis key, as lock:{order:42}
//   fenced NAME                    an RFencedLock, for a minute; with its token
//   release
//   exit

import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.Config;

public class Client {
    public static void main(String[] arguments) {
        var config = new Config();
        // It keeps 24 connections, unless it is told otherwise.
        config.useSingleServer().setAddress(arguments[0])
            .setConnectionMinimumIdleSize(1).setConnectionPoolSize(2);
        RedissonClient redisson = Redisson.create(config);
        RLock held = null;
        for (var lines = new Scanner(System.in); lines.hasNextLine(); ) {
            var words = lines.nextLine().split(" ");
            switch (words[0]) {
                case "acquire" -> {
                    held = redisson.getLock(words[1]);
                    acquire(held, Long.parseLong(words[2]), Long.parseLong(words[3]));
                }
                case "fenced" -> {
                    var fenced = redisson.getFencedLock(words[1]);
                    held = fenced;
                    fenced(fenced);
                }
                case "release" -> release(held);
                default -> {
                    redisson.shutdown();
                    return;
                }
            }
        }
        redisson.shutdown();
    }

    static void acquire(RLock lock, long wait, long lease) {
        try {
            var taken = lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
            reply(taken ? null : "busy", "another has it");
        } catch (RedisException | InterruptedException error) {
            reply("failed", error.getMessage());
        }
    }

    static void fenced(RFencedLock lock) {
        var token = lock.tryLockAndGetToken(0, 60_000, TimeUnit.MILLISECONDS);
        if (token == null) {
            reply("busy", "another has it");
        } else {
            System.out.println("{\"ok\":true,\"t_ns\":%d,\"token\":%d}".formatted(System.nanoTime(), token));
        }
    }

    static void release(RLock lock) {
        try {
            lock.unlock();
            reply(null, null);
        } catch (RedisException | IllegalMonitorStateException error) {
            reply("not_held", error.getMessage());
        }
    }

    /** System.nanoTime is the monotonic clock of the other workers. */
    static void reply(String error, String message) {
        var said = "{\"ok\":%b,\"t_ns\":%d".formatted(error == null, System.nanoTime());
        if (error != null) {
            var text = message.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\p{Cntrl}", " ");
            said += ",\"error\":\"%s\",\"message\":\"%s\"".formatted(error, text);
        }
        System.out.println(said + "}");
    }
}
