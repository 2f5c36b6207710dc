/* Loaded into a process (LD_PRELOAD): while the file that FAILING_SYNC names is there, the disk does not
   say that what it took is there. What was written is written, and may be lost or not. */

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(void)
{
    const char *path = getenv("FAILING_SYNC");
    int before = errno;
    int is_there = path && access(path, F_OK) == 0;
    errno = before;
    return is_there;
}

int fsync(int file)
{
    if (fails()) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    if (fails()) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, file);
}
