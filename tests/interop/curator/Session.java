package interop.curator;

import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.KeeperException.NoNodeException;

/** The one session of this program, and what does not belong to a handle. */
final class Session implements AutoCloseable {
    private final Lines lines;
    private volatile CuratorFramework client;

    /** Reports the connection's states and the handles' revocations to {@code lines}. */
    Session(Lines lines) {
        this.lines = lines;
    }

    Json connect(String connectString, int sessionMs) throws Exception {
        var started = Client.start(connectString, sessionMs);
        started.getConnectionStateListenable().addListener(
                (ignored, state) -> lines.print(event("state").with("state", state)));
        client = Client.connected(started);
        var zookeeper = started.getZookeeperClient().getZooKeeper();
        return new Json()
                .with("session", zookeeper.getSessionId())
                .with("session_ms", zookeeper.getSessionTimeout());
    }

    CuratorFramework client() {
        var current = client;
        if (current == null) {
            throw new IllegalStateException("there is no session: connect first");
        }
        return current;
    }

    Json participants(String path) throws Exception {
        var nodes = new Json();
        try {
            return nodes.with("nodes", new Mutex(client(), path).getParticipantNodes());
        } catch (NoNodeException error) {
            // The directory comes with the first claim, and goes some time after the last.
            return nodes.with("nodes", List.of());
        }
    }

    Json leader(String path) throws Exception {
        var leader = new LeaderLatch(client(), path).getLeader();
        return new Json().with("nodes", leader.isLeader() ? List.of(leader.getId()) : List.of());
    }

    Json revoke(String node) throws Exception {
        Revoker.attemptRevoke(client(), node);
        return new Json();
    }

    /** Tells that another asks for the lock of {@code handle}. */
    void revoked(String handle) {
        lines.print(event("revoked").with("handle", handle));
    }

    /** Ends the session, and with it every lock of this program. */
    @Override
    public void close() {
        var current = client;
        if (current != null) {
            current.close();
        }
    }

    Json closed() {
        close();
        return new Json();
    }

    private static Json event(String name) {
        return new Json().with("event", name).with("t_ns", System.nanoTime());
    }
}
