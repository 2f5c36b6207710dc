package interop.curator;

import java.util.Arrays;

/** Every latency of a measurement, so that its percentiles are exact. */
final class Latencies {
    private long[] nanos = new long[1 << 16];
    private int count;

    void add(long latencyNanos) {
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, 2 * count);
        }
        nanos[count++] = latencyNanos;
    }

    int count() {
        return count;
    }

    /** Mean, percentiles and maximum in microseconds. */
    Json summary() {
        var sorted = Arrays.copyOf(nanos, count);
        Arrays.sort(sorted);
        return new Json()
                .with("mean_us", micros(Arrays.stream(sorted).average().orElseThrow()))
                .with("p50_us", percentile(sorted, 50))
                .with("p90_us", percentile(sorted, 90))
                .with("p99_us", percentile(sorted, 99))
                .with("p999_us", percentile(sorted, 99.9))
                .with("max_us", percentile(sorted, 100));
    }

    /** The smallest latency that is not exceeded by {@code percent} of all. */
    private static double percentile(long[] sorted, double percent) {
        var rank = (int) Math.ceil(percent / 100 * sorted.length);
        return micros(sorted[Math.max(rank, 1) - 1]);
    }

    private static double micros(double nanos) {
        return Math.round(nanos / 100) / 10.0;
    }
}
