package interop.curator;

import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * One named holder with a thread of its own, since Curator's mutex belongs to a thread.
 *
 * <p>Everything but {@link #isHeld} and {@link #thread} runs on that thread, so a revocation and a
 * release do not meet.
 */
final class Handle {
    private final String name;
    private final Executor thread;
    private Revocation revocation = Revocation.IGNORED;
    private volatile Lock lock;

    /** What the holder does when another asks for its lock. */
    private enum Revocation { IGNORED, REPORTED, OBEYED }

    Handle(String name) {
        this.name = name;
        this.thread = Executors.newSingleThreadExecutor(work -> {
            var thread = new Thread(work, "handle-" + name);
            thread.setDaemon(true);
            return thread;
        });
    }

    Executor thread() {
        return thread;
    }

    /** Reports, and by choice obeys, the revocation of what is acquired later. */
    Json makeRevocable(boolean obeys) {
        revocation = obeys ? Revocation.OBEYED : Revocation.REPORTED;
        return new Json();
    }

    /** Waits for the lock at {@code path}, at most {@code waitMs}. */
    Json acquire(Session session, String path, int waitMs, String recipe) throws Exception {
        if (isMine()) {
            throw new IllegalStateException(name + " holds " + lock.node() + " already");
        }
        var wanted = Lock.of(recipe, session.client(), path);
        if (revocation != Revocation.IGNORED) {
            // Before it joins the line: Curator looks only there whether its node may be revoked.
            wanted.makeRevocable(() -> revoked(session, wanted), thread);
        }
        lock = wanted;
        return granted(wanted.acquire(waitMs));
    }

    /** Takes the lock that this handle holds once more. */
    Json reacquire() throws Exception {
        return granted(mine().acquire(0));
    }

    /** Gives one level of the lock back, and tells whether another is left. */
    Json release() throws Exception {
        mine().release();
        return new Json().with("held", isMine());
    }

    /** Becomes a reader of what it holds as a writer. */
    Json downgrade() throws Exception {
        lock = mine().downgraded();
        return new Json();
    }

    /** Curator's own word on it, which the end of the session does not change. */
    Json isHeld() {
        var current = lock;
        return new Json().with("held", current != null && current.isHeld());
    }

    private void revoked(Session session, Lock wanted) {
        session.revoked(name);
        try {
            while (revocation == Revocation.OBEYED && wanted.isMine()) {
                wanted.release();
            }
        } catch (Exception error) {
            throw new IllegalStateException(name + " could not obey a revocation", error);
        }
    }

    private Json granted(boolean granted) {
        return new Json().with("node", granted ? lock.node() : null);
    }

    private boolean isMine() {
        return lock != null && lock.isMine();
    }

    private Lock mine() {
        if (!isMine()) {
            throw new IllegalStateException(name + " holds no lock");
        }
        return lock;
    }
}
