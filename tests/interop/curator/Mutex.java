package interop.curator;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Curator's mutex, which also tells where it stands in line. */
final class Mutex extends InterProcessMutex {
    Mutex(CuratorFramework client, String path) {
        super(client, path);
    }

    /** The lock node of the calling thread; null if it does not hold the lock. */
    String node() {
        return getLockPath();
    }
}
