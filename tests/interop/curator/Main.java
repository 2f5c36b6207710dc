package interop.curator;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;

/**
 * Curator's locks on command.
 *
 * <p>{@code serve} takes commands from standard input, see {@link Commands}; {@code bench …}
 * measures once, see {@link Bench}. Both answer with lines of JSON and end with their input.
 */
public final class Main {
    private static final Duration FAREWELL = Duration.ofSeconds(2);

    private Main() {}

    /** Runs the mode that the first argument names. */
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var lines = new Lines(System.out);
        var mode = arguments.length == 0 ? "" : arguments[0];
        switch (mode) {
            case "serve" -> {
                var session = new Session(lines);
                new Commands(lines, session).run(input);
                end(session);
            }
            case "bench" -> Bench.of(Arrays.copyOfRange(arguments, 1, arguments.length))
                    .run(input, lines);
            default -> throw new IllegalArgumentException("serve | bench …, not '" + mode + "'");
        }
    }

    /** Ends in bounded time: a client cannot say goodbye to a server that does not answer. */
    private static void end(Session session) throws InterruptedException {
        var farewell = new Thread(session::close, "farewell");
        farewell.setDaemon(true);
        farewell.start();
        farewell.join(FAREWELL.toMillis());
        Runtime.getRuntime().halt(0);
    }
}
