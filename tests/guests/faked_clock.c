// A monotonic clock that stands still in the year 2300, as some libraries fake it for a whole program.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, to);
    to->tv_sec = 10413792000;
    to->tv_nsec = 0;
    return 0;
}
