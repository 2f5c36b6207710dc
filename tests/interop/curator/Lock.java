package interop.curator;

import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** One of Curator's locks, as a handle takes it. */
interface Lock {
    /** Waits for it; false if the time was up. */
    boolean acquire(int waitMs) throws Exception;

    void release() throws Exception;

    /** Whether the calling thread has it. */
    boolean isMine();

    boolean isHeld();

    /** The node of what is held. */
    String node();

    /** Calls {@code revoked} when another asks for it. */
    void makeRevocable(Runnable revoked, Executor executor);

    /** Takes the read lock of the same path, lets go of the write lock, and is the former. */
    default Lock downgraded() throws Exception {
        throw new IllegalStateException("only a write lock can be downgraded");
    }

    /** {@code mutex}, {@code read}, {@code write}, {@code latch=ID}, or {@code permits=LIMIT}. */
    static Lock of(String recipe, CuratorFramework client, String path) {
        return switch (recipe) {
            case "mutex" -> new Exclusion(new Mutex(client, path));
            case "read" -> new Exclusion(new InterProcessReadWriteLock(client, path).readLock());
            case "write" -> new Writer(new InterProcessReadWriteLock(client, path));
            default -> recipe.startsWith("latch=")
                    ? new Term(client, path, recipe.substring("latch=".length()))
                    : new Permit(client, path, limit(recipe));
        };
    }

    private static int limit(String recipe) {
        if (!recipe.startsWith("permits=")) {
            throw new IllegalArgumentException("no recipe " + recipe);
        }
        return Integer.parseInt(recipe.substring("permits=".length()));
    }

    /** The write lock of a read-write lock. */
    final class Writer extends Exclusion {
        private final InterProcessReadWriteLock both;

        Writer(InterProcessReadWriteLock both) {
            super(both.writeLock());
            this.both = both;
        }

        @Override
        public Lock downgraded() throws Exception {
            var reader = new Exclusion(both.readLock());
            both.readLock().acquire();
            release();
            return reader;
        }
    }

    /** A mutex, or either side of a read-write lock. */
    class Exclusion implements Lock {
        private final InterProcessMutex mutex;

        Exclusion(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        @Override
        public boolean acquire(int waitMs) throws Exception {
            return mutex.acquire(waitMs, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }

        @Override
        public boolean isMine() {
            return mutex.isOwnedByCurrentThread();
        }

        @Override
        public boolean isHeld() {
            return mutex.isAcquiredInThisProcess();
        }

        @Override
        public String node() {
            return mutex instanceof Mutex own ? own.node() : "";
        }

        @Override
        public void makeRevocable(Runnable revoked, Executor executor) {
            mutex.makeRevocable(ignored -> revoked.run(), executor);
        }
    }

    /** One permit of a semaphore, which belongs to no thread. */
    final class Permit implements Lock {
        private final InterProcessSemaphoreV2 semaphore;
        private volatile Lease lease;

        Permit(CuratorFramework client, String path, int limit) {
            semaphore = new InterProcessSemaphoreV2(client, path, limit);
        }

        @Override
        public boolean acquire(int waitMs) throws Exception {
            lease = semaphore.acquire(waitMs, TimeUnit.MILLISECONDS);
            return lease != null;
        }

        @Override
        public void release() throws Exception {
            semaphore.returnLease(lease);
            lease = null;
        }

        @Override
        public boolean isMine() {
            return lease != null;
        }

        @Override
        public boolean isHeld() {
            return lease != null;
        }

        @Override
        public String node() {
            return lease.getNodeName();
        }

        @Override
        public void makeRevocable(Runnable revoked, Executor executor) {
            throw new IllegalStateException("Curator's semaphore cannot be revoked");
        }
    }

    /** The lead in an election, which belongs to no thread either. */
    final class Term implements Lock {
        private final LeaderLatch latch;

        Term(CuratorFramework client, String path, String id) {
            latch = new LeaderLatch(client, path, id);
        }

        @Override
        public boolean acquire(int waitMs) throws Exception {
            latch.start();
            var leads = latch.await(waitMs, TimeUnit.MILLISECONDS);
            if (!leads) {
                latch.close();
            }
            return leads;
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }

        @Override
        public boolean isMine() {
            return latch.hasLeadership();
        }

        @Override
        public boolean isHeld() {
            return latch.hasLeadership();
        }

        @Override
        public String node() {
            return "";
        }

        @Override
        public void makeRevocable(Runnable revoked, Executor executor) {
            throw new IllegalStateException("Curator's latch cannot be revoked");
        }
    }
}
