// Makes one function of the C library fail where the collector calls it, and nowhere else: preloaded
// before libstage2.so, it looks at the address that a call returns to.
//
// STAGE2_TEST_CALL=NAME ERROR FIRST LAST: calls FIRST to LAST of the function fail with the number ERROR.
// Functions of the C library that make system calls are named, and by `futex`, `pwritev2` and others what goes
// through `syscall`. ERROR -1: a write takes half of its bytes, a clock steps an hour ahead. ERROR -2: the
// call goes well, and before it a thread of the guest forks; that happens at call FIRST and at every LASTth
// one after it. ERROR -1000 and below: the call goes well, so many ms later as it is below that.
// STAGE2_TEST_TALLY names a file of 16 bytes: calls that came by, and calls that failed.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { INSTEAD = -1, FORK = -2, SLOW = -1000 };
enum { NOBODY_FORKS = -1, IDLE = 0, ASKED = 1 };

// A thread of the guest forks where it finds ASKED here, and sets IDLE then.
atomic_int stage2_test_fork = NOBODY_FORKS;

static char chosen[32];
static int error_number;
static unsigned long first_call, last_call;
static atomic_ulong own_tally[2];
static atomic_ulong *tally = own_tally;
static atomic_int prepared;
static atomic_uintptr_t low, high;
static long owner;

static int find_collector(struct dl_phdr_info *library, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *name = strrchr(library->dlpi_name, '/');
    if (!name || strcmp(name, "/libstage2.so")) return 0;
    uintptr_t end = 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        uintptr_t here = library->dlpi_phdr[i].p_vaddr + library->dlpi_phdr[i].p_memsz;
        if (library->dlpi_phdr[i].p_type == PT_LOAD && here > end) end = here;
    }
    atomic_store(&high, library->dlpi_addr + end);
    atomic_store(&low, library->dlpi_addr);
    return 1;
}

static void prepare(void) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&prepared, &none, 1)) return;
    const char *what = getenv("STAGE2_TEST_CALL");
    if (what) sscanf(what, "%31s %d %lu %lu", chosen, &error_number, &first_call, &last_call);
    const char *path = getenv("STAGE2_TEST_TALLY");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR) : -1;
    if (file >= 0) {
        void *page = (void *)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) tally = page;
        syscall(SYS_close, file);
    }
    owner = syscall(SYS_getpid);
    dl_iterate_phdr(find_collector, 0);
}

// Has the guest fork now, if nobody else does and this is no child. The fork may have to wait for a lock that
// the calling thread holds, so this does not wait for it for ever.
void stage2_test_have_fork(void) {
    int error = errno, idle = IDLE;
    if (syscall(SYS_getpid) != owner || !atomic_compare_exchange_strong(&stage2_test_fork, &idle, ASKED)) return;
    struct timespec rest = {0, 100000};
    for (int i = 0; i < 300 && atomic_load(&stage2_test_fork) == ASKED; i++) syscall(SYS_nanosleep, &rest, 0);
    atomic_fetch_add(&tally[1], 1);
    errno = error;
}

// Whether this call is to fail.
static int fails(const char *name, const void *caller) {
    if (atomic_load(&prepared) != 1) prepare();
    uintptr_t at = (uintptr_t)caller;
    if (at < atomic_load(&low) || at >= atomic_load(&high) || strcmp(name, chosen)) return 0;
    unsigned long number = atomic_fetch_add(&tally[0], 1) + 1;
    if (error_number == FORK && first_call) {
        if (number >= first_call && (number - first_call) % last_call == 0) stage2_test_have_fork();
        return 0;
    }
    if (number < first_call || number > last_call) return 0;
    atomic_fetch_add(&tally[1], 1);
    if (error_number <= SLOW) {
        struct timespec rest = {0, (SLOW - error_number) * 1000000L};
        syscall(SYS_nanosleep, &rest, 0);
        return 0;
    }
    return 1;
}

// The real function, looked up once.
#define REAL(name)                                                              \
    static __typeof__(&name) real;                                              \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define CALLER __builtin_return_address(0)

// A function that answers -1 (or what `bad` is) and sets errno.
#define FAILING(type, name, bad, parameters, ...)                               \
    type name parameters {                                                      \
        REAL(name);                                                             \
        if (fails(#name, CALLER)) return errno = error_number, bad;             \
        return real(__VA_ARGS__);                                               \
    }
// One that returns the error.
#define RETURNING(name, parameters, ...)                                        \
    int name parameters {                                                       \
        REAL(name);                                                             \
        return fails(#name, CALLER) ? error_number : real(__VA_ARGS__);         \
    }

FAILING(int, mkdir, -1, (const char *path, mode_t mode), path, mode)
FAILING(int, chmod, -1, (const char *path, mode_t mode), path, mode)
FAILING(int, fchmod, -1, (int file, mode_t mode), file, mode)
FAILING(int, close, -1, (int file), file)
FAILING(int, fstat, -1, (int file, struct stat *to), file, to)
FAILING(int, fstat64, -1, (int file, struct stat64 *to), file, to)
FAILING(int, stat64, -1, (const char *path, struct stat64 *to), path, to)
FAILING(int, statx, -1, (int folder, const char *path, int flags, unsigned mask, struct statx *to), folder,
        path, flags, mask, to)
FAILING(int, lstat64, -1, (const char *path, struct stat64 *to), path, to)
FAILING(int, unlink, -1, (const char *path), path)
FAILING(int, socket, -1, (int family, int type, int protocol), family, type, protocol)
FAILING(int, bind, -1, (int file, const struct sockaddr *to, socklen_t bytes), file, to, bytes)
FAILING(int, listen, -1, (int file, int waiting), file, waiting)
FAILING(int, accept4, -1, (int file, struct sockaddr *who, socklen_t *bytes, int flags), file, who, bytes, flags)
FAILING(int, getsockopt, -1, (int file, int level, int name, void *to, socklen_t *bytes), file, level, name, to,
        bytes)
FAILING(int, shutdown, -1, (int file, int how), file, how)
FAILING(off64_t, lseek64, -1, (int file, off64_t to, int from), file, to, from)
FAILING(ssize_t, pread64, -1, (int file, void *to, size_t bytes, off64_t at), file, to, bytes, at)
FAILING(ssize_t, read, -1, (int file, void *to, size_t bytes), file, to, bytes)
FAILING(ssize_t, readlink, -1, (const char *path, char *to, size_t bytes), path, to, bytes)
FAILING(char *, realpath, NULL, (const char *path, char *to), path, to)
FAILING(int, rename, -1, (const char *from, const char *to), from, to)
FAILING(char *, getcwd, NULL, (char *to, size_t bytes), to, bytes)
FAILING(DIR *, opendir, NULL, (const char *path), path)
FAILING(struct dirent64 *, readdir64, NULL, (DIR *folder), folder)
FAILING(int, poll, -1, (struct pollfd *files, nfds_t count, int ms), files, count, ms)
FAILING(void *, mmap, MAP_FAILED, (void *at, size_t bytes, int access, int flags, int file, off_t from), at,
        bytes, access, flags, file, from)
FAILING(int, munmap, -1, (void *at, size_t bytes), at, bytes)
FAILING(int, mprotect, -1, (void *at, size_t bytes, int access), at, bytes, access)
FAILING(int, madvise, -1, (void *at, size_t bytes, int advice), at, bytes, advice)
FAILING(ssize_t, getrandom, -1, (void *to, size_t bytes, unsigned flags), to, bytes, flags)
FAILING(int, getrlimit, -1, (__rlimit_resource_t what, struct rlimit *to), what, to)
FAILING(int, sched_getaffinity, -1, (pid_t thread, size_t bytes, cpu_set_t *to), thread, bytes, to)
FAILING(int, sched_setaffinity, -1, (pid_t thread, size_t bytes, const cpu_set_t *to), thread, bytes, to)
FAILING(int, sched_setscheduler, -1, (pid_t thread, int class, const struct sched_param *to), thread, class,
        to)
FAILING(int, sigpending, -1, (sigset_t * to), to)
FAILING(int, sigtimedwait, -1, (const sigset_t *set, siginfo_t *to, const struct timespec *within), set, to,
        within)
FAILING(int, setenv, -1, (const char *name, const char *value, int replace), name, value, replace)
FAILING(long, sysconf, -1, (int what), what)
FAILING(void *, dlopen, NULL, (const char *path, int flags), path, flags)
FAILING(void *, malloc, NULL, (size_t bytes), bytes)
FAILING(void *, calloc, NULL, (size_t count, size_t bytes), count, bytes)
FAILING(void *, realloc, NULL, (void *from, size_t bytes), from, bytes)
RETURNING(posix_memalign, (void **to, size_t alignment, size_t bytes), to, alignment, bytes)
RETURNING(pthread_create,
          (pthread_t * to, const pthread_attr_t *how, void *(*body)(void *), void *with), to, how, body, with)
RETURNING(pthread_attr_setstacksize, (pthread_attr_t * how, size_t bytes), how, bytes)
RETURNING(pthread_key_create, (pthread_key_t * to, void (*end)(void *)), to, end)
RETURNING(pthread_setname_np, (pthread_t thread, const char *name), thread, name)
RETURNING(pthread_setcancelstate, (int state, int *before), state, before)
RETURNING(pthread_sigmask, (int how, const sigset_t *set, sigset_t *before), how, set, before)
RETURNING(clock_nanosleep, (clockid_t clock, int flags, const struct timespec *to, struct timespec *left),
          clock, flags, to, left)

// The same under the other name that Rust knows it by.
void *mmap64(void *at, size_t bytes, int access, int flags, int file, off64_t from) {
    if (fails("mmap64", CALLER)) return errno = error_number, MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, access, flags, file, from);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (fails("open64", CALLER)) return errno = error_number, -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fcntl(int file, int what, ...) {
    REAL(fcntl);
    va_list more;
    va_start(more, what);
    void *with = va_arg(more, void *);
    va_end(more);
    if (fails("fcntl", CALLER)) return errno = error_number, -1;
    return real(file, what, with);
}

ssize_t write(int file, const void *from, size_t bytes) {
    if (fails("write", CALLER)) {
        if (error_number != INSTEAD) return errno = error_number, -1;
        bytes = (bytes + 1) / 2;
    }
    return syscall(SYS_write, file, from, bytes);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (fails("writev", CALLER)) {
        if (error_number != INSTEAD) return errno = error_number, -1;
        return syscall(SYS_write, file, parts->iov_base, (parts->iov_len + 1) / 2);
    }
    return syscall(SYS_writev, file, parts, count);
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    REAL(clock_gettime);
    int wall = clock == CLOCK_REALTIME;
    // A clock of the wall may be set; the others can only fail.
    if ((error_number != INSTEAD || wall) && fails("clock_gettime", CALLER)) {
        if (error_number != INSTEAD) return errno = error_number, -1;
        real(clock, to);
        to->tv_sec += 3600;
        return 0;
    }
    return real(clock, to);
}

long syscall(long number, ...) {
    REAL(syscall);
    va_list more;
    va_start(more, number);
    long with[6];
    for (int i = 0; i < 6; i++) with[i] = va_arg(more, long);
    va_end(more);
    const char *name = number == SYS_futex              ? "futex"
                       : number == SYS_pwritev2         ? "pwritev2"
                       : number == SYS_process_vm_readv ? "process_vm_readv"
                       : number == 436                  ? "close_range"
                       : number == SYS_gettid           ? "gettid"
                                                        : 0;
    if (name && fails(name, CALLER)) return errno = error_number, -1;
    return real(number, with[0], with[1], with[2], with[3], with[4], with[5]);
}
