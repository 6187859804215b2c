/* A disk that freezes at a chosen publishing step, preloaded into the process under trial.
 *
 * Steps are what makes a file visible under its final name below a folder: rename and link. From step
 * number AT on, every step and every change below the folder fails with EIO, which to all later readers
 * looks like a process that died there. The settings stand in the file that FROZEN_DISK names, read anew
 * at each call, as "TRIAL AT FOLDER"; AT -1 only counts. With an EVERY behind it nothing freezes: each
 * EVERY-th step or change fails, and the others do not. Python and Java are two processes on one disk:
 * the counts and whether it froze lie in FROZEN_DISK.count, mapped by both; whoever writes the settings
 * zeroes it. Each step is written to FROZEN_DISK.log, so that a trial in which nothing froze is seen.
 * Failing rename alone would prove nothing: Hadoop falls back to a copy, so opening for writing fails too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static long *shared = 0; /* steps so far, 1 once frozen, and steps and changes so far */
static __thread int inside = 0;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__) = 0; \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int plain_open(const char *path, int flags, mode_t mode) {
    REAL(int, "open", const char *, int, ...);
    return real(path, flags, mode);
}

static int settings(long *trial, long *at, char *folder, long *every) {
    const char *file = getenv("FROZEN_DISK");
    char text[1024];
    int fd = file ? plain_open(file, O_RDONLY, 0) : -1;
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    *every = 0;
    return sscanf(text, "%ld %ld %900s %ld", trial, at, folder, every) >= 3;
}

static int mapped(void) {
    char name[1024];
    if (shared) return 1;
    snprintf(name, sizeof name, "%s.count", getenv("FROZEN_DISK"));
    int fd = plain_open(name, O_RDWR, 0);
    if (fd < 0) return 0;
    void *place = mmap(0, 3 * sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (place != MAP_FAILED) shared = place;
    return shared != 0;
}

static void write_down(long trial, long step, const char *word, const char *path) {
    char name[1024], line[1400];
    snprintf(name, sizeof name, "%s.log", getenv("FROZEN_DISK"));
    int fd = plain_open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int length = snprintf(line, sizeof line, "%ld %ld %s %s\n", trial, step, word, path);
    if (fd < 0) return;
    if (write(fd, line, length) < 0) errno = 0;
    close(fd);
}

/* True where a call on this path must fail; a step also counts. */
static int refused(const char *path, int is_step) {
    long trial, at, every;
    char folder[1024];
    int answer = 0;
    if (!path || inside) return 0;
    inside = 1;
    pthread_mutex_lock(&guard);
    if (settings(&trial, &at, folder, &every) && strncmp(path, folder, strlen(folder)) == 0 && mapped()) {
        if (is_step) {
            long step = __atomic_fetch_add(&shared[0], 1, __ATOMIC_SEQ_CST);
            if (at >= 0 && step >= at) __atomic_store_n(&shared[1], 1, __ATOMIC_SEQ_CST);
            write_down(trial, step, shared[1] ? "FROZEN" : "ok", path);
        }
        answer = (int)__atomic_load_n(&shared[1], __ATOMIC_SEQ_CST);
        if (every > 0 && (__atomic_add_fetch(&shared[2], 1, __ATOMIC_SEQ_CST) % every) == 0) {
            write_down(trial, shared[2], "FAILED", path);
            answer = 1;
        }
    }
    pthread_mutex_unlock(&guard);
    inside = 0;
    if (answer) errno = EIO;
    return answer;
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return refused(to, 1) ? -1 : real(from, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned int flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned int);
    return refused(to, 1) ? -1 : real(a, from, b, to, flags);
}
int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    return refused(to, 1) ? -1 : real(from, to);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    return refused(to, 1) ? -1 : real(a, from, b, to, flags);
}
int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return refused(path, 0) ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return refused(path, 0) ? -1 : real(path, mode);
}

#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))
#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) {
    REAL(int, "open", const char *, int, ...);
    MODE_OF(flags)
    return WRITES(flags) && refused(path, 0) ? -1 : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    REAL(int, "open64", const char *, int, ...);
    MODE_OF(flags)
    return WRITES(flags) && refused(path, 0) ? -1 : real(path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
    REAL(int, "openat", int, const char *, int, ...);
    MODE_OF(flags)
    return WRITES(flags) && refused(path, 0) ? -1 : real(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    REAL(int, "openat64", int, const char *, int, ...);
    MODE_OF(flags)
    return WRITES(flags) && refused(path, 0) ? -1 : real(folder, path, flags, mode);
}
