/* Running another program: bytes, codes, ends. Real processes; nothing here waits by the clock to be right. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/child.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum { KIB = 1024, MIB = 1024 * 1024 };
#define SECOND_US INT64_C(1000000)

static tide_child_spec shell(char *const argv[4])
{
    return (tide_child_spec){.argv = argv,
                             .stdin_kind = TIDE_CHILD_STDIN_NONE,
                             .is_captured = true,
                             .stdout_max = 8 * MIB,
                             .tee_fd = -1};
}

#define SHELL(script) ((char *[]){(char *)"/bin/sh", (char *)"-c", (char *)(script), NULL})

static tide_child_result run(const tide_child_spec *spec)
{
    tide_child_result result;
    tide_error err;
    assert_ok_err(tide_child_run(spec, &result, &err), &err);
    return result;
}

static tide_child_result run_shell(char *const argv[4])
{
    const tide_child_spec spec = shell(argv);
    return run(&spec);
}

/* A root directory without devices. */
static bool has_no_devices;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    if (has_no_devices && strncmp(path, "/dev/", 5) == 0) {
        errno = ENOENT;
        return -1;
    }
    return __real_open64(path, flags, mode);
}

static void nothing_to_read_needs_no_device(void **state)
{
    (void)state;
    has_no_devices = true;
    tide_child_result result = run_shell(SHELL("cat; echo end"));
    has_no_devices = false;
    assert_int_equal(0, result.exit_code);
    assert_string_equal("end\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
}

static void exit_codes_come_through(void **state)
{
    (void)state;
    tide_child_result result = run_shell(SHELL("exit 0"));
    assert_int_equal(0, result.exit_code);
    assert_int_equal(0, result.signal);
    tide_child_result_done(&result);
    result = run_shell(SHELL("exit 255"));
    assert_int_equal(255, result.exit_code);
    tide_child_result_done(&result);
    result = run_shell(SHELL("kill -9 $$"));
    assert_int_equal(-1, result.exit_code);
    assert_int_equal(SIGKILL, result.signal);
    assert_int_equal(0, result.reason);
    tide_child_result_done(&result);
}

static char *make_bytes(size_t len)
{
    char *bytes = malloc(len);
    assert_non_null(bytes);
    uint32_t x = 2463534242;
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        bytes[i] = (char)x;
    }
    return bytes;
}

/* More than every pipe holds, both ways at once, all 256 values. */
static void bytes_of_any_kind_pass_unchanged(void **state)
{
    (void)state;
    const size_t len = 3 * MIB + 17;
    TIDE_CLEANUP(tide_freep) char *bytes = make_bytes(len);
    tide_child_spec spec = shell(SHELL("exec cat"));
    spec.stdin_kind = TIDE_CHILD_STDIN_BYTES;
    spec.stdin_bytes = tide_view_bytes(bytes, len);
    tide_child_result result = run(&spec);
    assert_int_equal(len, result.out.len);
    assert_true(result.out_len == len);
    assert_memory_equal(bytes, result.out.ptr, len);
    tide_child_result_done(&result);
}

/* A program that does not read its stdin ends it; that must not end us. */
static void a_program_that_reads_nothing_does_no_harm(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) char *bytes = make_bytes(MIB);
    tide_child_spec spec = shell(SHELL("exec 0<&-; echo done"));
    spec.stdin_kind = TIDE_CHILD_STDIN_BYTES;
    spec.stdin_bytes = tide_view_bytes(bytes, MIB);
    tide_child_result result = run(&spec);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("done\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
}

/* What is too much is not kept, but the program goes on to its end. */
static void output_over_the_limit_is_not_kept_and_does_not_stop_it(void **state)
{
    (void)state;
    tide_child_spec spec = shell(SHELL("head -c 300000 /dev/zero; exit 7"));
    spec.stdout_max = 299999;
    tide_child_result result = run(&spec);
    assert_int_equal(7, result.exit_code);
    assert_true(result.is_out_over);
    assert_int_equal(0, result.out.len);
    assert_true(result.out_len == 300000);
    tide_child_result_done(&result);
    spec.stdout_max = 300000;
    result = run(&spec);
    assert_false(result.is_out_over);
    assert_int_equal(300000, result.out.len);
    tide_child_result_done(&result);
}

static void output_is_passed_on_as_it_comes(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, pipe2(ends, O_CLOEXEC));
    tide_child_spec spec = shell(SHELL("printf 'a\\0b'"));
    spec.tee_fd = ends[1];
    tide_child_result result = run(&spec);
    char heard[8];
    assert_int_equal(3, read(ends[0], heard, sizeof heard));
    assert_memory_equal("a\0b", heard, 3);
    assert_int_equal(3, result.out.len);
    tide_child_result_done(&result);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* A reader that leaves is nobody's death, and costs nothing of what is kept. */
static void a_reader_that_leaves_does_not_end_anybody(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, pipe2(ends, O_CLOEXEC));
    (void)close(ends[0]);
    tide_child_spec spec = shell(SHELL("head -c 200000 /dev/zero"));
    spec.tee_fd = ends[1];
    tide_child_result result = run(&spec);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(200000, result.out.len);
    tide_child_result_done(&result);
    (void)close(ends[1]);
    sigset_t pending;
    assert_int_equal(0, sigpending(&pending));
    assert_int_equal(0, sigismember(&pending, SIGPIPE));
}

static void the_environment_has_additions_in_place_of_ours(void **state)
{
    (void)state;
    assert_int_equal(0, setenv("CHILD_TEST_A", "ours", 1));
    assert_int_equal(0, setenv("CHILD_TEST_AB", "stays", 1));
    tide_child_spec spec =
        shell(SHELL("echo $CHILD_TEST_A $CHILD_TEST_AB $CHILD_TEST_C; env | grep -c "
                    "^CHILD_TEST_"));
    spec.env = (const char *const[]){"CHILD_TEST_A=theirs", "CHILD_TEST_C=new", NULL};
    tide_child_result result = run(&spec);
    assert_string_equal("theirs stays new\n3\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
}

static void what_cannot_be_started_says_why(void **state)
{
    (void)state;
    tide_error err;
    tide_child_result result;
    tide_child_spec spec = shell((char *[]){(char *)"/nonexistent/program", NULL, NULL, NULL});
    assert_status(TIDE_E_NOT_FOUND, tide_child_run(&spec, &result, &err));
    assert_contains(err.text, "/nonexistent/program");
    tide_child_result_done(&result);
    spec = shell((char *[]){(char *)"no-such-program-in-the-path", NULL, NULL, NULL});
    assert_status(TIDE_E_NOT_FOUND, tide_child_run(&spec, &result, &err));
    tide_child_result_done(&result);
    spec = shell((char *[]){(char *)"/etc", NULL, NULL, NULL});
    assert_status(TIDE_E_DENIED, tide_child_run(&spec, &result, &err));
    tide_child_result_done(&result);
    assert_int_equal(-1, waitpid(-1, NULL, WNOHANG));
    assert_int_equal(ECHILD, errno);
}

/* ---- ending it ---- */

typedef struct ending {
    int64_t grace_us;
    const char *wait_for; /* in the output, before it is ended */
    int calls;
} ending;

/* Ask often enough until the program has said that it is ready; then end it. */
static int64_t end_when_ready(void *arg, tide_child *child, int64_t boot_us)
{
    ending *e = arg;
    e->calls++;
    if (access(e->wait_for, F_OK) != 0)
        return boot_us + 1000;
    tide_child_terminate(child, 42, e->grace_us);
    return INT64_MAX;
}

typedef struct place {
    tempdir dir;
    char ready[TEMPDIR_PATH_MAX];
    char script[TEMPDIR_PATH_MAX * 2 + 256];
} place;

/* %s in the script becomes the file that says "ready". */
static void make_place(place *p, const char *before, const char *after)
{
    tide_error err;
    assert_ok_err(tempdir_make(&p->dir, &err), &err);
    tempdir_join(&p->dir, "ready", p->ready);
    snprintf(p->script, sizeof p->script, "%s : > '%s'; %s", before, p->ready, after);
}

static tide_child_result run_and_end(place *p, int64_t grace_us)
{
    ending e = {.grace_us = grace_us, .wait_for = p->ready};
    tide_child_spec spec = shell(SHELL(p->script));
    spec.tick = end_when_ready;
    spec.tick_arg = &e;
    tide_child_result result = run(&spec);
    assert_true(e.calls > 0);
    assert_int_equal(42, result.reason);
    TIDE_IGNORE(tempdir_remove(&p->dir, NULL));
    return result;
}

static void one_that_is_asked_to_end_ends_by_sigterm(void **state)
{
    (void)state;
    place p;
    make_place(&p, "", "exec sleep 1000");
    tide_child_result result = run_and_end(&p, 1000 * SECOND_US);
    assert_int_equal(SIGTERM, result.signal);
    tide_child_result_done(&result);
}

static void one_that_does_not_listen_is_killed_after_the_grace(void **state)
{
    (void)state;
    place p;
    make_place(&p, "trap '' TERM;", "while :; do sleep 1000; done");
    tide_child_result result = run_and_end(&p, 50000);
    assert_int_equal(SIGKILL, result.signal);
    tide_child_result_done(&result);
}

static void one_that_is_stopped_can_be_ended(void **state)
{
    (void)state;
    place p;
    make_place(&p, "", "kill -STOP $$; sleep 1000");
    tide_child_result result = run_and_end(&p, 1000 * SECOND_US);
    assert_int_equal(SIGTERM, result.signal);
    tide_child_result_done(&result);
}

static void one_that_clears_up_keeps_its_own_exit_code(void **state)
{
    (void)state;
    place p;
    make_place(&p, "trap 'exit 9' TERM;", "while :; do sleep 0.01; done");
    tide_child_result result = run_and_end(&p, 1000 * SECOND_US);
    assert_int_equal(9, result.exit_code);
    tide_child_result_done(&result);
}

/* Ending it ends what it has started: the pipe that a grandchild holds comes to its end. */
static void what_it_has_started_ends_with_it(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, pipe2(ends, O_CLOEXEC));
    place p;
    make_place(&p, "sh -c 'trap \"\" TERM; sleep 1000' & ", "wait");
    ending e = {.grace_us = 50000, .wait_for = p.ready};
    tide_child_spec spec = shell(SHELL(p.script));
    spec.tick = end_when_ready;
    spec.tick_arg = &e;
    spec.pass[0] = (tide_child_pass){.ours = ends[1], .theirs = 7};
    spec.pass_count = 1;
    tide_child_result result = run(&spec);
    (void)close(ends[1]);
    char byte;
    assert_int_equal(0, read(ends[0], &byte, 1)); /* would wait for 1000 s otherwise */
    (void)close(ends[0]);
    tide_child_result_done(&result);
    TIDE_IGNORE(tempdir_remove(&p.dir, NULL));
}

/* A process left behind holds stdout: the program's end is the end all the same. */
static void a_process_left_behind_does_not_hold_us(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, pipe2(ends, O_CLOEXEC));
    tide_child_spec spec = shell(SHELL("(exec 0<&7; cat; echo late) & echo early; exit 3"));
    spec.pass[0] = (tide_child_pass){.ours = ends[0], .theirs = 7};
    spec.pass_count = 1;
    tide_child_result result = run(&spec);
    assert_int_equal(3, result.exit_code);
    assert_string_equal("early\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
    (void)close(ends[0]);
    (void)close(ends[1]); /* lets it end */
}

/* ... and one that is only slow is heard. */
static void a_process_left_behind_is_heard_for_a_moment(void **state)
{
    (void)state;
    tide_child_result result = run_shell(SHELL("(sleep 0.05; echo late) & echo early"));
    assert_string_equal("early\nlate\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
}

/* ---- descriptors and watches ---- */

typedef struct heard {
    char text[64];
    size_t len;
} heard;

static void hear(void *arg, tide_child *child, tide_child_watch *watch)
{
    (void)child;
    heard *h = arg;
    const ssize_t got = read(watch->fd, h->text + h->len, sizeof h->text - 1 - h->len);
    if (got > 0)
        h->len += (size_t)got;
    else
        watch->fd = -1;
}

static void passed_descriptors_have_the_numbers_asked_for(void **state)
{
    (void)state;
    int one[2];
    int two[2];
    assert_int_equal(0, pipe2(one, O_CLOEXEC));
    assert_int_equal(0, pipe2(two, O_CLOEXEC));
    heard heard_one = {.len = 0};
    tide_child_watch watches[] = {{.fd = one[0], .fn = hear, .arg = &heard_one}};
    /* Each wants a number that another has in us. */
    tide_child_spec spec = shell(SHELL("echo over >&8; read line <&9; echo \"$line\""));
    spec.pass[0] = (tide_child_pass){.ours = one[1], .theirs = 8};
    spec.pass[1] = (tide_child_pass){.ours = two[0], .theirs = 9};
    spec.pass_count = 2;
    spec.watches = watches;
    spec.watch_count = 1;
    assert_int_equal(6, write(two[1], "hello\n", 6));
    tide_child_result result = run(&spec);
    assert_string_equal("hello\n", tide_buffer_text(&result.out));
    (void)close(one[1]);
    while (watches[0].fd >= 0)
        hear(&heard_one, NULL, &watches[0]);
    assert_string_equal("over\n", heard_one.text);
    tide_child_result_done(&result);
    (void)close(one[0]);
    (void)close(two[0]);
    (void)close(two[1]);
}

/* Nothing of ours leaks: 0, 1, 2 and the directory that ls itself opens. */
static void no_descriptor_of_ours_leaks(void **state)
{
    (void)state;
    tide_child_result result = run_shell(SHELL("ls /proc/self/fd"));
    assert_string_equal("0\n1\n2\n3\n", tide_buffer_text(&result.out));
    tide_child_result_done(&result);
}

static void exit_codes_are_known_also_where_sigchld_is_ignored(void **state)
{
    (void)state;
    (void)signal(SIGCHLD, SIG_IGN);
    tide_child_result result = run_shell(SHELL("exit 5"));
    assert_int_equal(5, result.exit_code);
    tide_child_result_done(&result);
    (void)signal(SIGCHLD, SIG_DFL);
}

/* kill -9 of us: the program dies with us, at once. */
static void it_dies_with_us(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, pipe2(ends, O_CLOEXEC));
    const pid_t us = fork();
    assert_true(us >= 0);
    if (us == 0) {
        tide_child_spec spec = shell(SHELL("echo $$ >&7; exec sleep 1000"));
        spec.pass[0] = (tide_child_pass){.ours = ends[1], .theirs = 7};
        spec.pass_count = 1;
        tide_child_result result;
        TIDE_IGNORE(tide_child_run(&spec, &result, NULL));
        _exit(0);
    }
    (void)close(ends[1]);
    char text[32] = "";
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_true(strtol(text, NULL, 10) > 0);
    assert_int_equal(0, kill(us, SIGKILL));
    char byte;
    assert_int_equal(0, read(ends[0], &byte, 1)); /* both have ended: nobody holds the pipe */
    assert_int_equal(us, waitpid(us, NULL, 0));
    (void)close(ends[0]);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_come_through),
        cmocka_unit_test(nothing_to_read_needs_no_device),
        cmocka_unit_test(bytes_of_any_kind_pass_unchanged),
        cmocka_unit_test(a_program_that_reads_nothing_does_no_harm),
        cmocka_unit_test(output_over_the_limit_is_not_kept_and_does_not_stop_it),
        cmocka_unit_test(output_is_passed_on_as_it_comes),
        cmocka_unit_test(a_reader_that_leaves_does_not_end_anybody),
        cmocka_unit_test(the_environment_has_additions_in_place_of_ours),
        cmocka_unit_test(what_cannot_be_started_says_why),
        cmocka_unit_test(one_that_is_asked_to_end_ends_by_sigterm),
        cmocka_unit_test(one_that_does_not_listen_is_killed_after_the_grace),
        cmocka_unit_test(one_that_is_stopped_can_be_ended),
        cmocka_unit_test(one_that_clears_up_keeps_its_own_exit_code),
        cmocka_unit_test(what_it_has_started_ends_with_it),
        cmocka_unit_test(a_process_left_behind_does_not_hold_us),
        cmocka_unit_test(a_process_left_behind_is_heard_for_a_moment),
        cmocka_unit_test(passed_descriptors_have_the_numbers_asked_for),
        cmocka_unit_test(no_descriptor_of_ours_leaks),
        cmocka_unit_test(exit_codes_are_known_also_where_sigchld_is_ignored),
        cmocka_unit_test(it_dies_with_us),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
