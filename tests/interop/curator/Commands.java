package interop.curator;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * Runs commands, any number at once, and answers each when it is done.
 *
 * <pre>
 * ID connect CONNECT_STRING SESSION_MS     session, session_ms: what the server agreed to
 * ID make_revocable HANDLE [release]       for the handle's later acquires
 * ID acquire HANDLE PATH WAIT_MS [RECIPE]  node: the lock node; none if the time was up. The
 *                                          recipe is mutex, read, write, latch=ID or
 *                                          permits=LIMIT
 * ID reacquire HANDLE                      node
 * ID downgrade HANDLE                      what it has as a writer it has as a reader
 * ID release HANDLE                        held: whether a level is left
 * ID is_held HANDLE                        held
 * ID participants PATH                     nodes: the lock nodes, holder first
 * ID leader PATH                           nodes: the id of the leader, if there is one
 * ID revoke NODE
 * ID close                                 ends the session and the program
 * </pre>
 *
 * An answer has {@code id}, {@code ok} and {@code t_ns} (CLOCK_MONOTONIC, when it was done), and
 * {@code error} and {@code message} if it is not ok. A line with {@code event} answers nothing:
 * {@code state} tells of the connection, {@code revoked} that another asks for a handle's lock.
 */
final class Commands {
    private final Lines lines;
    private final Session session;
    private final Map<String, Handle> handles = new HashMap<>();
    private final Executor workers = Executors.newCachedThreadPool(Commands::daemon);

    Commands(Lines lines, Session session) {
        this.lines = lines;
        this.session = session;
    }

    /** Takes commands until the input ends or one of them is {@code close}. */
    void run(BufferedReader input) throws IOException {
        String line;
        while ((line = input.readLine()) != null) {
            var command = Command.parse(line);
            if (command.verb().equals("close")) {
                answer(command, session::closed);
                return;
            }
            try {
                start(command);
            } catch (IllegalArgumentException error) {
                answer(command, () -> {
                    throw error;
                });
            }
        }
    }

    private void start(Command command) {
        switch (command.verb()) {
            case "connect" -> {
                var connectString = command.text(0);
                var sessionMs = command.number(1);
                on(workers, command, () -> session.connect(connectString, sessionMs));
            }
            case "participants" -> {
                var path = command.text(0);
                on(workers, command, () -> session.participants(path));
            }
            case "leader" -> {
                var path = command.text(0);
                on(workers, command, () -> session.leader(path));
            }
            case "revoke" -> {
                var node = command.text(0);
                on(workers, command, () -> session.revoke(node));
            }
            default -> start(command, handles.computeIfAbsent(command.text(0), Handle::new));
        }
    }

    private void start(Command command, Handle handle) {
        switch (command.verb()) {
            case "acquire" -> {
                var path = command.text(1);
                var waitMs = command.number(2);
                var recipe = command.textOr(3, "mutex");
                on(handle.thread(), command, () -> handle.acquire(session, path, waitMs, recipe));
            }
            case "reacquire" -> on(handle.thread(), command, handle::reacquire);
            case "downgrade" -> on(handle.thread(), command, handle::downgrade);
            case "release" -> on(handle.thread(), command, handle::release);
            case "make_revocable" -> {
                var obeys = command.has(1, "release");
                on(handle.thread(), command, () -> handle.makeRevocable(obeys));
            }
            // Not on the handle's thread, which may be waiting for the lock.
            case "is_held" -> answer(command, handle::isHeld);
            default -> throw new IllegalArgumentException("no command " + command.verb());
        }
    }

    private void on(Executor executor, Command command, Work work) {
        executor.execute(() -> answer(command, work));
    }

    private void answer(Command command, Work work) {
        lines.print(work.answered(command.id()));
    }

    private static Thread daemon(Runnable work) {
        var thread = new Thread(work, "command");
        thread.setDaemon(true);
        return thread;
    }
}
