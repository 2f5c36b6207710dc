package interop.curator;

import java.io.BufferedReader;
import java.time.Duration;
import org.apache.curator.framework.CuratorFramework;

/**
 * One measurement: warms up, prints {@code {"ready":true}}, waits for the line {@code go}, measures
 * and prints one line with the figures.
 *
 * <pre>
 * CONNECT_STRING WARM_UP_MS MEASURED_MS PATH uncontended
 * CONNECT_STRING WARM_UP_MS MEASURED_MS PATH hot THREADS
 * </pre>
 */
record Bench(String connectString, Duration warmUp, Duration measured, String path, Load load) {
    private static final int SESSION_MS = 30_000;

    /** Something to measure. */
    interface Load {
        /** Runs for {@code span} on the lock at {@code path}, and returns the figures. */
        Json run(CuratorFramework client, String path, Duration span) throws Exception;
    }

    static Bench of(String[] arguments) {
        var load = switch (arguments[4]) {
            case "uncontended" -> new Uncontended();
            case "hot" -> new Hot(Integer.parseInt(arguments[5]));
            default -> throw new IllegalArgumentException("no load " + arguments[4]);
        };
        return new Bench(arguments[0], ms(arguments[1]), ms(arguments[2]), arguments[3], load);
    }

    void run(BufferedReader input, Lines lines) throws Exception {
        try (var client = Client.connected(Client.start(connectString, SESSION_MS))) {
            // A line of its own, so that one process does not warm up in another's measurement.
            var practice = path + "-warm-up-" + ProcessHandle.current().pid();
            load.run(client, practice, warmUp);
            // Makes the directory, which is no part of an acquire.
            load.run(client, path, Duration.ZERO);
            lines.print(new Json().with("ready", true));
            if ("go".equals(input.readLine())) {
                lines.print(load.run(client, path, measured));
            }
        }
    }

    private static Duration ms(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
