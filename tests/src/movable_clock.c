/* Loaded into a server (LD_PRELOAD): its wall clock, moved by as many microseconds as stand at the
   start of the file that MOVED_CLOCK names. Its other clocks, which measure spans, are left alone.

   libfaketime would do, but its locks wait for an allocator that asks for the time at its start, as
   that of redis-server does. So nothing is allocated here, and the system is asked directly. */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none;
static volatile int64_t *moved_us = &none;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("MOVED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        moved_us = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t now_ns = out->tv_sec * INT64_C(1000000000) + out->tv_nsec + *moved_us * 1000;
        out->tv_sec = now_ns / INT64_C(1000000000);
        out->tv_nsec = now_ns % INT64_C(1000000000);
    }
    return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
