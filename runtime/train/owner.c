#include "runtime/train/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "runtime/train/checkpoint_folder.h"
#include "schemas/base/clock.h"

enum { TEXT_BYTES = 512, NAME_BYTES = 128, LINE_BYTES = 1024, POLL_MILLISECONDS = 100, START_FIELD = 22 };

struct gal_owner {
    char path[GAL_PATH_BYTES];
    int folder, file; /* descriptors */
    bool renewing, ending;
    pthread_t thread;
    pthread_mutex_t mutex; /* over ending */
    pthread_cond_t wake;
};

/* Who a process is, as the file says it. */
typedef struct identity {
    char host[NAME_BYTES], boot[NAME_BYTES], processes[NAME_BYTES]; /* processes: the namespace of their numbers */
    long process;
    unsigned long long started; /* ticks since the host's start */
} identity;

/* ---- identities ---- */

/* The first word of a file; the word stays as it is if there is none. */
static void read_word(const char *path, char word[NAME_BYTES])
{
    char found[NAME_BYTES];
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%127s", found) == 1) {
            memcpy(word, found, sizeof found);
        }
        (void)fclose(file);
    }
}

/* Ticks since the host's start at which the process began; 0: there is none, or it has ended and its parent has not
 * asked. The name of the program, field 2, may hold blanks and brackets: fields are counted from the last bracket on.
 */
static unsigned long long start_of(long process)
{
    char path[NAME_BYTES], line[LINE_BYTES];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    const size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    line[length] = '\0';
    char *at = strrchr(line, ')');
    if (at != NULL && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)) {
        return 0;
    }
    for (int field = 2; at != NULL && field < START_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        ticks = strtoull(at + 1, NULL, 10);
    }
    return ticks;
}

static identity identity_of_this(void)
{
    identity this = {.host = "-", .boot = "-", .processes = "-", .process = (long)getpid()};
    struct utsname names;
    if (uname(&names) == 0) {
        snprintf(this.host, sizeof this.host, "%.*s", NAME_BYTES - 1, names.nodename);
    }
    read_word("/proc/sys/kernel/random/boot_id", this.boot);
    const ssize_t length = readlink("/proc/self/ns/pid", this.processes, sizeof this.processes - 1);
    if (length > 0) {
        this.processes[length] = '\0';
    }
    this.started = start_of(this.process);
    return this;
}

static int print_identity(const identity *who, char text[TEXT_BYTES])
{
    return snprintf(text, TEXT_BYTES, "host %s\nboot %s\nprocesses %s\nprocess %ld\nstarted %llu\n", who->host,
                    who->boot, who->processes, who->process, who->started);
}

static bool scan_identity(const char *text, identity *out)
{
    return sscanf(text, "host %127s boot %127s processes %127s process %ld started %llu", out->host, out->boot,
                  out->processes, &out->process, &out->started) == 5;
}

/* ---- the file ---- */

/* What a taker sees of the file. */
typedef struct sighting {
    bool there;
    char text[TEXT_BYTES];
    struct timespec renewed;
} sighting;

static sighting look(const gal_owner *owner)
{
    sighting seen = {.there = false};
    struct stat status;
    const int file = openat(owner->folder, "owner", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        seen.there = errno != ENOENT;
        return seen;
    }
    const ssize_t length = read(file, seen.text, sizeof seen.text - 1);
    seen.text[length > 0 ? length : 0] = '\0';
    seen.renewed = fstat(file, &status) == 0 ? status.st_mtim : (struct timespec){0};
    seen.there = true;
    close(file);
    return seen;
}

static bool is_same(const sighting *a, const sighting *b)
{
    return strcmp(a->text, b->text) == 0 && a->renewed.tv_sec == b->renewed.tv_sec &&
           a->renewed.tv_nsec == b->renewed.tv_nsec;
}

/* Removes a stale file, unless another taker has replaced it meanwhile. File systems without locks have a moment
 * between the look and the removal. */
static void remove_stale(const gal_owner *owner, const sighting *stale)
{
    const bool locked = flock(owner->folder, LOCK_EX) == 0;
    const sighting now = look(owner);
    if (now.there && is_same(&now, stale)) {
        (void)unlinkat(owner->folder, "owner", 0);
    }
    if (locked) {
        (void)flock(owner->folder, LOCK_UN);
    }
}

/* GAL_NO: there is one. */
static gal_code create_file(gal_owner *owner, const identity *this, gal_error *err)
{
    char text[TEXT_BYTES];
    const int length = print_identity(this, text);
    owner->file = openat(owner->folder, "owner", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (owner->file < 0) {
        return errno == EEXIST ? GAL_NO
                               : gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", owner->path, strerror(errno));
    }
    if (write(owner->file, text, (size_t)length) != length || fsync(owner->file) != 0) {
        const int cause = errno;
        (void)unlinkat(owner->folder, "owner", 0);
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s: %s", owner->path, strerror(cause));
    }
    return GAL_OK;
}

/* ---- taking ---- */

typedef enum verdict { OWNER_ALIVE, OWNER_UNKNOWN, OWNER_STALE } verdict;

/* UNKNOWN: of another host or namespace, or not yet written whole; only renewals show that it lives. */
static verdict judge(const sighting *seen, const identity *this)
{
    identity other;
    if (!scan_identity(seen->text, &other) || strcmp(other.boot, this->boot) != 0 ||
        strcmp(other.processes, this->processes) != 0 || strcmp(other.host, this->host) != 0) {
        return OWNER_UNKNOWN;
    }
    return start_of(other.process) == other.started ? OWNER_ALIVE : OWNER_STALE;
}

static gal_code owned_by(const gal_owner *owner, const sighting *seen, gal_error *err)
{
    identity other;
    if (!scan_identity(seen->text, &other)) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: another run writes there; if none does, remove that file",
                        owner->path);
    }
    return gal_fail(
        err, GAL_ERR_SYSTEM,
        "%s: another run writes there: process %ld on %s; wait for its end, or give this run a folder of its "
        "own",
        owner->path, other.process, other.host);
}

static gal_code create_or_wait(gal_owner *owner, double wait_seconds, const volatile sig_atomic_t *stop, gal_error *err)
{
    const identity this = identity_of_this();
    const double begin_seconds = gal_now_seconds();
    double same_since_seconds = begin_seconds;
    sighting last = {.there = false};
    for (;;) {
        const gal_code code = create_file(owner, &this, err);
        if (code != GAL_NO) {
            return code;
        }
        const sighting seen = look(owner);
        const double now_seconds = gal_now_seconds();
        if (!last.there || !is_same(&seen, &last)) {
            same_since_seconds = now_seconds;
        }
        last = seen;
        const verdict is = judge(&seen, &this);
        if (is == OWNER_STALE ||
            (is == OWNER_UNKNOWN && now_seconds - same_since_seconds > (double)GAL_OWNER_STALE_SECONDS)) {
            remove_stale(owner, &seen);
            continue;
        }
        const bool renewed = is == OWNER_UNKNOWN && same_since_seconds > begin_seconds;
        const double allowed = is == OWNER_UNKNOWN && !renewed ? GAL_OWNER_STALE_SECONDS + 1.0 : wait_seconds;
        if (now_seconds - begin_seconds > allowed || (stop != NULL && *stop != 0)) {
            return owned_by(owner, &seen, err);
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MILLISECONDS * 1000000L}, NULL);
    }
}

/* ---- renewal ---- */

static void *renew(void *context)
{
    gal_owner *owner = context;
    pthread_mutex_lock(&owner->mutex);
    while (!owner->ending) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += GAL_OWNER_RENEW_SECONDS;
        (void)pthread_cond_timedwait(&owner->wake, &owner->mutex, &until);
        (void)futimens(owner->file, NULL);
    }
    pthread_mutex_unlock(&owner->mutex);
    return NULL;
}

/* Signals are the training's: the thread takes none. */
static void start_renewal(gal_owner *owner)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    owner->renewing = pthread_create(&owner->thread, NULL, renew, owner) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_renewal(gal_owner *owner)
{
    if (!owner->renewing) {
        return;
    }
    pthread_mutex_lock(&owner->mutex);
    owner->ending = true;
    pthread_cond_signal(&owner->wake);
    pthread_mutex_unlock(&owner->mutex);
    pthread_join(owner->thread, NULL);
}

static void free_owner(gal_owner *owner)
{
    if (owner->file >= 0) {
        close(owner->file);
    }
    if (owner->folder >= 0) {
        close(owner->folder);
    }
    pthread_cond_destroy(&owner->wake);
    pthread_mutex_destroy(&owner->mutex);
    free(owner);
}

gal_code gal_owner_take(const char *directory, double wait_seconds, const volatile sig_atomic_t *stop, gal_owner **out,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    gal_owner *owner = calloc(1, sizeof *owner);
    if (owner == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", directory);
    }
    owner->file = -1;
    pthread_mutex_init(&owner->mutex, NULL);
    pthread_cond_init(&owner->wake, NULL);
    owner->folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (owner->folder < 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", directory, strerror(errno)));
    }
    GAL_TRY(gal_checkpoint_join(directory, "owner", owner->path, err));
    GAL_TRY(create_or_wait(owner, wait_seconds, stop, err));
    start_renewal(owner);
    *out = owner;
    owner = NULL;
cleanup:
    if (owner != NULL) {
        free_owner(owner);
    }
    return code;
}

gal_code gal_owner_check(const gal_owner *owner, gal_error *err)
{
    struct stat mine, there;
    if (fstat(owner->file, &mine) == 0 && fstatat(owner->folder, "owner", &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
        return GAL_OK;
    }
    return gal_fail(err, GAL_ERR_SYSTEM, "%s: removed or taken by another run: nothing more is written there",
                    owner->path);
}

void gal_owner_release(gal_owner *owner)
{
    if (owner == NULL) {
        return;
    }
    stop_renewal(owner);
    if (gal_owner_check(owner, NULL) == GAL_OK) {
        (void)unlinkat(owner->folder, "owner", 0);
    }
    free_owner(owner);
}
