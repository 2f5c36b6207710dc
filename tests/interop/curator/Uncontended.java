package interop.curator;

import java.time.Duration;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** One thread that acquires and releases one lock that nobody else wants, over and over. */
record Uncontended() implements Bench.Load {
    @Override
    public Json run(CuratorFramework client, String path, Duration span) throws Exception {
        var mutex = new InterProcessMutex(client, path);
        var acquires = new Latencies();
        var pairs = new Latencies();
        var start = System.nanoTime();
        long end;
        do {
            var asked = System.nanoTime();
            mutex.acquire();
            var granted = System.nanoTime();
            mutex.release();
            end = System.nanoTime();
            acquires.add(granted - asked);
            pairs.add(end - asked);
        } while (end - start < span.toNanos());
        return new Json()
                .with("count", pairs.count())
                .with("seconds", (end - start) / 1e9)
                .with("pair", pairs.summary())
                .with("acquire", acquires.summary());
    }
}
