package interop.curator;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Connects to ZooKeeper with the settings of Curator's own introduction. */
final class Client {
    private static final int CONNECT_SECONDS = 10;
    private static final int CONNECTION_MS_MAX = 15_000;

    private Client() {}

    /** Starts a client; it still connects. */
    static CuratorFramework start(String connectString, int sessionMs) {
        var client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(Math.min(sessionMs, CONNECTION_MS_MAX))
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                // The tracker learns the servers' own addresses and would walk past a test's proxy.
                .ensembleTracker(false)
                .build();
        client.start();
        return client;
    }

    /** Waits until {@code client} has a session. */
    static CuratorFramework connected(CuratorFramework client) throws InterruptedException {
        if (!client.blockUntilConnected(CONNECT_SECONDS, TimeUnit.SECONDS)) {
            client.close();
            throw new IllegalStateException("no session after " + CONNECT_SECONDS + " s");
        }
        return client;
    }
}
