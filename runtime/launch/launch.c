#include "runtime/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/launch/launch_folder.h"
#include "runtime/launch/launch_record.h"
#include "runtime/launch/launch_watch.h"
#include "runtime/launch/signals.h"

enum {
    PROGRAM_BYTES = 4096,
    NUMBER_BYTES = 16,
    RANK_BYTES = 32,
    LIST_BYTES = 256,
    NOT_STARTED = 127,
    SIGNAL_BASE = 128,
    END_MILLISECONDS = 1000
};

/* mpirun looks up names and loads libraries before it starts the first rank; nobody waits for another rank then. */
static const double start_seconds_min = 30.0;

/* Ranks may be more than cores: no binding, and a waiting rank gives its core away. Copies between processes by the
 * kernel (CMA) are refused in many containers. Messages then go through shared memory in pieces, three under way, which
 * move on when a rank looks, and beside kernels it looks every 50 to 200 us (courier.c): in pieces of 128 KiB an
 * all-reduce of 1 MiB takes 9 looks, in those of 32 KiB, the default, 23 to 100. Free lists grow by 8 pieces at a time:
 * the default 64 would be more than the 4 MiB that a rank shares. */
static const char *const launcher[] = {"mpirun",
                                       "-q",
                                       "--oversubscribe",
                                       "--bind-to",
                                       "none",
                                       "--mca",
                                       "btl_vader_single_copy_mechanism",
                                       "none",
                                       "--mca",
                                       "btl_vader_max_send_size",
                                       "131072",
                                       "--mca",
                                       "btl_vader_free_list_inc",
                                       "8",
                                       "--mca",
                                       "mpi_yield_when_idle",
                                       "1"};

static gal_code own_path(char *path, gal_error *err)
{
    const ssize_t length = readlink("/proc/self/exe", path, PROGRAM_BYTES - 1);
    if (length <= 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "/proc/self/exe: %s", strerror(errno));
    }
    path[length] = '\0';
    return GAL_OK;
}

/* The parameters of Open MPI that name where its shared memory and its session files lie. */
static const char *const folder_parameters[] = {"btl_vader_backing_directory", "orte_tmpdir_base"};
enum { FOLDER_PARAMETERS = sizeof folder_parameters / sizeof folder_parameters[0] };

/* mpirun's arguments, NULL at the end; the texts are the caller's. folder "": none. NULL without memory. */
static char **launcher_arguments(char *program, char *ranks, char *folder, char *const *arguments)
{
    const size_t fixed = sizeof launcher / sizeof launcher[0];
    size_t count = 0, used = 0;
    while (arguments[count] != NULL) {
        count++;
    }
    char **argv = calloc(fixed + 5 + 3 * FOLDER_PARAMETERS + count, sizeof *argv);
    if (argv == NULL) {
        return NULL;
    }
    for (; used < fixed; used++) {
        argv[used] = (char *)(uintptr_t)launcher[used];
    }
    for (size_t i = 0; i < FOLDER_PARAMETERS && folder[0] != '\0'; i++) {
        argv[used++] = (char *)(uintptr_t) "--mca";
        argv[used++] = (char *)(uintptr_t)folder_parameters[i];
        argv[used++] = folder;
    }
    if (geteuid() == 0) {
        argv[used++] = (char *)(uintptr_t) "--allow-run-as-root";
    }
    argv[used++] = (char *)(uintptr_t) "-n";
    argv[used++] = ranks;
    argv[used++] = program;
    for (size_t i = 1; i < count; i++) {
        argv[used++] = arguments[i];
    }
    return argv;
}

/* Never returns. The child is a process group of its own, so that Ctrl-C reaches the parent alone, which forwards it.
 */
static _Noreturn void become(char **argv, const char *threads, bool terminal)
{
    const int nothing = open("/dev/null", O_RDONLY);
    gal_signals_restore();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
    }
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("OMP_NUM_THREADS", threads, 1);
    if (terminal) {
        setenv(GAL_LAUNCH_TERMINAL_VARIABLE, "1", 1);
    } else {
        unsetenv(GAL_LAUNCH_TERMINAL_VARIABLE);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s (package openmpi-bin)\n", argv[0], strerror(errno));
    _exit(NOT_STARTED);
}

/* Of its own accord mpirun ends the ranks that are not known here when one has died, and then itself. (Signals beside
 * that can make it crash while it cleans up.) Without a rank it is asked to. */
static void end_launcher(pid_t child, const gal_launch_watch *watch)
{
    struct pollfd ended = {.fd = pidfd_open(child, 0), .events = POLLIN};
    if (!gal_launch_watch_kill(watch)) {
        kill(child, SIGTERM);
    }
    while (poll(&ended, 1, END_MILLISECONDS) < 0 && errno == EINTR) {
    }
    kill(-child, SIGKILL);
    if (ended.fd >= 0) {
        close(ended.fd);
    }
}

/* "rank 3"; before all have started it may be another. */
static gal_code ended_by(const gal_launch_watch *watch, int signal_number, gal_error *err)
{
    char rank[RANK_BYTES] = "a rank", late[LIST_BYTES];
    if (watch->first_ended != GAL_NO_RANK) {
        snprintf(rank, sizeof rank, "rank %u", watch->first_ended);
    }
    gal_launch_watch_list_late(watch, late, sizeof late);
    if (late[0] == '\0') {
        return gal_fail(err, GAL_ERR_DEVICE, "%s was ended by signal %d (%s)", rank, signal_number,
                        strsignal(signal_number));
    }
    return gal_fail(err, GAL_ERR_DEVICE, "%s, or one that had not started (%s), was ended by signal %d (%s)", rank,
                    late, signal_number, strsignal(signal_number));
}

/* How mpirun has ended when no rank failed first; the ranks have ended too. */
static gal_code read_status(int status, const gal_launch_watch *watch, int *exit_code, gal_error *err)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED) {
        return gal_fail(err, GAL_ERR_SYSTEM, "mpirun could not be started");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) > SIGNAL_BASE) {
        return ended_by(watch, WEXITSTATUS(status) - SIGNAL_BASE, err);
    }
    if (gal_launch_watch_all_done(watch)) { /* a signal to all of a job ends mpirun after the ranks have saved */
        *exit_code = GAL_OK;
        return GAL_OK;
    }
    if (WIFSIGNALED(status)) {
        return gal_fail(err, GAL_ERR_DEVICE, "mpirun was ended by signal %d (%s), and with it the ranks",
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) == GAL_NO) { /* no rank ends so: mpirun itself does, by SIGTERM or SIGINT too */
        return gal_fail(err, GAL_ERR_DEVICE, "mpirun has ended the ranks before their work was done: %s",
                        gal_signals_came() ? "it was told to by a signal" : "it gave no reason (exit code 1)");
    }
    *exit_code = WEXITSTATUS(status);
    return GAL_OK;
}

static gal_code wait_for(pid_t child, gal_launch_watch *watch, double deadline_seconds, int *exit_code, gal_error *err)
{
    int status = 0;
    const double start_seconds = deadline_seconds > start_seconds_min ? deadline_seconds : start_seconds_min;
    /* Ranks that wait in MPI's own calls call the roll: they are let come first to no end. */
    const gal_code code = gal_launch_watch_wait(
        watch, child, deadline_seconds - gal_roll_call_seconds(deadline_seconds), start_seconds, err);
    if (code != GAL_OK) {
        end_launcher(child, watch);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return gal_fail(err, GAL_ERR_SYSTEM, "mpirun: %s", strerror(errno));
        }
    }
    gal_launch_watch_end_ranks(watch); /* a launcher that was killed leaves them running, and saving */
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return code != GAL_OK ? code : read_status(status, watch, exit_code, err);
}

gal_code gal_launch(const gal_launch_options *options, int *exit_code, gal_error *err)
{
    gal_code code = GAL_OK;
    char program[PROGRAM_BYTES], ranks[NUMBER_BYTES], threads[NUMBER_BYTES], folder[GAL_LAUNCH_FOLDER_BYTES];
    gal_launch_watch watch = gal_launch_watch_none;
    gal_error seen = {0};
    gal_launch_folder_make(folder);
    char **argv = launcher_arguments(program, ranks, folder, options->arguments);
    if (argv == NULL) {
        gal_launch_folder_remove(folder);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: mpirun");
    }
    snprintf(ranks, sizeof ranks, "%u", options->rank_count);
    snprintf(threads, sizeof threads, "%u", options->thread_count);
    GAL_TRY(own_path(program, err));
    GAL_TRY(gal_launch_watch_open(&watch, options->rank_count, err));
    gal_signals_forward(0);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* ranks of a launcher that was killed become children of this process */
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const pid_t child = fork();
    if (child == 0) {
        become(argv, threads, terminal);
    }
    if (child < 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "mpirun: %s", strerror(errno));
        goto cleanup;
    }
    gal_signals_forward(child);
    (void)wait_for(child, &watch, options->deadline_seconds, exit_code, &seen);
    gal_launch_watch_hear(&watch);
    const gal_error *first = watch.said.code != GAL_OK ? &watch.said : &seen; /* who is at work knows the cause */
    if (first->code != GAL_OK) {
        code = gal_fail(err, first->code, "%s", first->text);
    }
cleanup:
    gal_signals_forward(0);
    gal_launch_watch_close(&watch);
    gal_launch_folder_remove(folder);
    free(argv);
    return code;
}
