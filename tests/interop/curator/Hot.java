package interop.curator;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Threads with a mutex each, which all want one lock and give it back at once. */
record Hot(int threads) implements Bench.Load {
    @Override
    public Json run(CuratorFramework client, String path, Duration span) throws Exception {
        var pool = Executors.newFixedThreadPool(threads);
        try {
            var counts = grants(pool, client, path, span);
            var total = counts.stream().mapToLong(Long::longValue).sum();
            var seconds = span.toNanos() / 1e9;
            return new Json()
                    .with("grants", total)
                    .with("seconds", seconds)
                    .with("grants_per_s", seconds > 0 ? total / seconds : 0)
                    .with("per_thread", counts)
                    .with("jain", jain(counts));
        } finally {
            pool.shutdownNow();
        }
    }

    /** The grants of each thread in {@code span}; a grant that comes later does not count. */
    private List<Long> grants(
            ExecutorService pool, CuratorFramework client, String path, Duration span)
            throws Exception {
        var start = new CountDownLatch(1);
        var contenders = new ArrayList<Future<Long>>();
        for (var thread = 0; thread < threads; thread++) {
            var mutex = new InterProcessMutex(client, path);
            contenders.add(pool.submit(() -> {
                start.await();
                return contend(mutex, span);
            }));
        }
        start.countDown();
        var counts = new ArrayList<Long>();
        for (var contender : contenders) {
            counts.add(contender.get());
        }
        return counts;
    }

    private static long contend(InterProcessMutex mutex, Duration span) throws Exception {
        var begin = System.nanoTime();
        for (var count = 0L; ; count++) {
            mutex.acquire();
            var late = System.nanoTime() - begin >= span.toNanos();
            mutex.release();
            if (late) {
                return count;
            }
        }
    }

    /** Jain's index of fairness: 1 if all have the same, 1/n if one has all. */
    private static double jain(List<Long> counts) {
        var sum = counts.stream().mapToDouble(count -> count).sum();
        var squares = counts.stream().mapToDouble(count -> (double) count * count).sum();
        return squares == 0 ? 1 : sum * sum / (counts.size() * squares);
    }
}
