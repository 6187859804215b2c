/* A disk that is watched, copied at its publishing steps, or fails, preloaded into a process under trial.
 *
 * Steps are what makes a file visible under its final name below a folder: rename and link. The settings
 * stand in the file that WATCHED_DISK names, read anew at each call, as "TRIAL WHAT EVERY FOLDER":
 *
 *   watch  each step is written to WATCHED_DISK.log
 *   copy   and before each EVERY-th the folder is copied to WATCHED_DISK.copies/STEP: what a process that
 *          died there would have left. Whoever else makes a step or a change waits for it, so that a copy
 *          holds nothing that came after what it lacks.
 *   fail   each EVERY-th step or change fails with EIO, and the others do not
 *
 * Python and Java are two processes on one disk: the guard and the counts lie in WATCHED_DISK.count, mapped
 * by both; whoever writes the settings zeroes it. Failing rename alone would prove nothing: Hadoop falls
 * back to a copy, so opening for writing fails too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static long *shared = 0; /* steps so far, steps and changes so far, and 1 while one is being made */
static __thread int inside = 0;

struct asked {
    long trial, every;
    char what[8], folder[1024];
};

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__) = 0; \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int plain_open(const char *path, int flags, mode_t mode) {
    REAL(int, "open", const char *, int, ...);
    return real(path, flags, mode);
}

static int settings(struct asked *told) {
    const char *file = getenv("WATCHED_DISK");
    char text[1200];
    int fd = file ? plain_open(file, O_RDONLY, 0) : -1;
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    return sscanf(text, "%ld %7s %ld %1000s", &told->trial, told->what, &told->every, told->folder) == 4;
}

static int mapped(void) {
    char name[1024];
    if (shared) return 1;
    snprintf(name, sizeof name, "%s.count", getenv("WATCHED_DISK"));
    int fd = plain_open(name, O_RDWR, 0);
    if (fd < 0) return 0;
    void *place = mmap(0, 3 * sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (place != MAP_FAILED) shared = place;
    return shared != 0;
}

static void write_down(long trial, long step, const char *word, const char *path) {
    char name[1024], line[1400];
    snprintf(name, sizeof name, "%s.log", getenv("WATCHED_DISK"));
    int fd = plain_open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int length = snprintf(line, sizeof line, "%ld %ld %s %s\n", trial, step, word, path);
    if (fd < 0) return;
    if (write(fd, line, length) < 0) errno = 0;
    close(fd);
}

static void copy(const char *folder, long step) {
    char to[1024];
    char *command[] = {"cp", "-a", (char *)folder, to, 0};
    char *plain[] = {"PATH=/usr/bin:/bin", 0}; /* not preloaded into the copying process */
    pid_t child;
    snprintf(to, sizeof to, "%s.copies/%ld", getenv("WATCHED_DISK"), step);
    if (posix_spawnp(&child, "cp", 0, 0, command, plain) == 0) waitpid(child, 0, 0);
}

static int failed_or_copied(const struct asked *told, const char *path, int is_step) {
    long step = is_step ? shared[0]++ : -1, change = ++shared[1];
    int fails = !strcmp(told->what, "fail") && change % told->every == 0;
    if (is_step && !strcmp(told->what, "copy") && step % told->every == 0) copy(told->folder, step);
    if (is_step || fails) write_down(told->trial, step, fails ? "FAILED" : "ok", path);
    return fails;
}

/* True where a call on this path must fail. */
static int refused(const char *path, int is_step) {
    struct asked told;
    int answer = 0;
    if (!path || inside) return 0;
    inside = 1;
    if (settings(&told) && strncmp(path, told.folder, strlen(told.folder)) == 0 && mapped()) {
        while (__atomic_exchange_n(&shared[2], 1, __ATOMIC_ACQUIRE)) sched_yield();
        answer = failed_or_copied(&told, path, is_step);
        __atomic_store_n(&shared[2], 0, __ATOMIC_RELEASE);
    }
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
