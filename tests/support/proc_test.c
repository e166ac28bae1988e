/* Child processes, temporary directories, and the kill -9 loop. The program starts itself again
 * as the toy writer that gets killed: proc_test write|lie FILE WRITER. */
#include "support/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/journal.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum {
    TIMEOUT_MS = 20000,
    WRITERS = 3,
    LIE_BATCH = 16,
    FILE_MAX = 16 * 1024 * 1024,
};

static proc_options shell(const char *argv[4], const char *script)
{
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = script;
    argv[3] = NULL;
    return (proc_options){.argv = argv};
}

static void run_shell(proc_result *result, const char *script, const char *const *env)
{
    const char *argv[4];
    tide_error err;
    proc_options options = shell(argv, script);
    options.env = env;
    assert_ok_err(proc_run(result, &options, TIMEOUT_MS, &err), &err);
}

/* Both streams arrive apart and whole, with the exit code. */
static void a_run_collects_output_and_exit_code(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "echo out; echo err >&2; exit 7", NULL);
    assert_int_equal(7, result.exit_code);
    assert_int_equal(0, result.signal);
    assert_string_equal("out\n", result.out);
    assert_string_equal("err\n", result.err);
}

/* More than a pipe holds, on both streams at once, must not block either side. */
static void large_output_on_both_streams_does_not_block(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "head -c 500000 /dev/zero >&2; head -c 700000 /dev/zero", NULL);
    assert_int_equal(700000, result.out_len);
    assert_int_equal(500000, result.err_len);
}

static void a_signal_is_told_from_an_exit(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "kill -9 $$", NULL);
    assert_int_equal(-1, result.exit_code);
    assert_int_equal(SIGKILL, result.signal);
}

/* The failure is the start's, with its reason: nobody has to read exit code 127. */
static void a_program_that_is_not_there_fails_the_start(void **state)
{
    (void)state;
    const char *const argv[] = {"/nowhere/at-all", NULL};
    tide_error err;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_status_err(TIDE_E_NOT_FOUND,
                      proc_run(&result, &(proc_options){.argv = argv}, TIMEOUT_MS, &err), &err);
    assert_contains(err.text, "/nowhere/at-all");

    const char *const directory[] = {"/tmp", NULL};
    assert_status_err(TIDE_E_DENIED,
                      proc_run(&result, &(proc_options){.argv = directory}, TIMEOUT_MS, &err),
                      &err);
}

static void the_environment_is_changed_for_the_child_only(void **state)
{
    (void)state;
    setenv("TIDEMARK_PROC_A", "old", 1);
    setenv("TIDEMARK_PROC_B", "kept", 1);
    const char *const env[] = {"TIDEMARK_PROC_A=new", "TIDEMARK_PROC_C=more", "HOME", NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "echo $TIDEMARK_PROC_A $TIDEMARK_PROC_B $TIDEMARK_PROC_C ${HOME-none}", env);
    assert_string_equal("new kept more none\n", result.out);
    assert_string_equal("old", getenv("TIDEMARK_PROC_A"));
}

/* A wait ends at its deadline, the process lives on; a run kills what it started. */
static void a_deadline_ends_the_wait_not_the_process(void **state)
{
    (void)state;
    const char *argv[4];
    tide_error err;
    proc_options options = shell(argv, "echo $$; exec sleep 1000");
    options.out = PROC_NULL;
    TIDE_CLEANUP(proc_done) proc child;
    assert_ok_err(proc_start(&child, &options, &err), &err);
    assert_status(TIDE_E_TIMEOUT, proc_wait(&child, 20, &err));
    assert_false(proc_poll(&child));
    assert_ok_err(proc_kill(&child, SIGTERM, &err), &err);
    assert_ok_err(proc_wait(&child, TIMEOUT_MS, &err), &err);
    assert_int_equal(SIGTERM, child.signal);
    assert_ok_err(proc_kill(&child, SIGTERM, &err), &err); /* gone already: fine */

    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_status(TIDE_E_TIMEOUT, proc_run(&result, &options, 300, &err));
    const pid_t pid = result.out != NULL ? atoi(result.out) : 0;
    assert_true(pid > 0);
    assert_true(proc_is_gone(pid));
}

/* The pipes of one child are not held open by another. */
static void a_pipe_ends_with_its_child(void **state)
{
    (void)state;
    const char *argv[2][4];
    tide_error err;
    proc_options reading = shell(argv[0], "cat; echo end");
    reading.in = PROC_PIPE;
    reading.out = PROC_PIPE;
    const proc_options lasting = shell(argv[1], "exec sleep 1000");
    TIDE_CLEANUP(proc_done) proc first;
    TIDE_CLEANUP(proc_done) proc second;
    assert_ok_err(proc_start(&first, &reading, &err), &err);
    assert_ok_err(proc_start(&second, &lasting, &err), &err);
    assert_int_equal(3, write(first.in_fd, "hi\n", 3));
    close(first.in_fd);
    first.in_fd = -1;
    assert_ok_err(proc_wait(&first, TIMEOUT_MS, &err), &err);
    char text[16] = "";
    assert_int_equal(7, read(first.out_fd, text, sizeof(text)));
    assert_memory_equal("hi\nend\n", text, 7);
}

/* None of a family gets to see another's end: this parent would start a new child for each that
 * dies. */
static void a_family_dies_as_one(void **state)
{
    (void)state;
    const char *argv[4];
    tide_error err;
    proc_options options =
        shell(argv, "sleep 1000 & echo $!; sleep 1000 & echo $!; "
                    "while :; do wait -n 2>/dev/null || wait; sleep 1000 & done");
    options.out = PROC_PIPE;
    TIDE_CLEANUP(proc_done) proc parent;
    assert_ok_err(proc_start(&parent, &options, &err), &err);
    FILE *out = fdopen(dup(parent.out_fd), "r");
    int pids[2];
    assert_int_equal(2, fscanf(out, "%d %d", &pids[0], &pids[1]));
    fclose(out);
    assert_false(proc_is_gone(pids[0]));
    assert_false(proc_is_gone(pids[1]));
    assert_ok_err(proc_kill_family(&parent, TIMEOUT_MS, &err), &err);
    assert_int_equal(SIGKILL, parent.signal);
    assert_true(proc_is_gone(pids[0]));
    assert_true(proc_is_gone(pids[1]));
}

/* Programs beside the test or above it are found; TIDEMARK_BIN decides for the program under
 * test. */
static void programs_are_found_beside_the_test(void **state)
{
    (void)state;
    char self[PATH_MAX];
    char found[PATH_MAX];
    tide_error err;
    proc_self_path(self);
    assert_ok_err(proc_find(strrchr(self, '/') + 1, found, &err), &err);
    assert_string_equal(self, found);
    assert_status(TIDE_E_NOT_FOUND, proc_find("no-such-program", found, &err));

    const char *given = getenv("TIDEMARK_BIN");
    TIDE_CLEANUP(tide_freep) char *kept = given != NULL ? strdup(given) : NULL;
    setenv("TIDEMARK_BIN", "/bin/sh", 1);
    assert_ok_err(proc_find("tidemark", found, &err), &err);
    assert_string_equal("/bin/sh", found);
    setenv("TIDEMARK_BIN", "/nowhere", 1);
    assert_status(TIDE_E_NOT_FOUND, proc_find("tidemark", found, &err));
    if (kept != NULL)
        setenv("TIDEMARK_BIN", kept, 1);
    else
        unsetenv("TIDEMARK_BIN");
}

/* ---- temporary directories ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A link inside is removed, what it points to stays. */
static void a_directory_goes_with_its_content_and_no_more(void **state)
{
    (void)state;
    tempdir kept;
    tempdir removed;
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    char precious[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&kept, &err), &err);
    assert_ok_err(tempdir_make(&removed, &err), &err);
    tempdir_join(&kept, "precious", precious);
    write_file(precious, "x");
    tempdir_join(&removed, "sub", path);
    assert_int_equal(0, mkdir(path, 0700));
    tempdir_join(&removed, "sub/file", path);
    write_file(path, "y");
    tempdir_join(&removed, "sub/link", path);
    assert_int_equal(0, symlink(kept.path, path));

    char old[TEMPDIR_PATH_MAX];
    strcpy(old, removed.path);
    assert_ok_err(tempdir_remove(&removed, &err), &err);
    assert_int_equal(-1, access(old, F_OK));
    assert_int_equal(0, access(precious, F_OK));
    assert_ok_err(tempdir_remove(&removed, &err), &err); /* none any more: fine */
    assert_ok_err(tempdir_remove(&kept, &err), &err);
}

/* Whatever a test got wrong, nothing outside is removed. */
static void removing_refuses_what_is_not_ours(void **state)
{
    (void)state;
    tempdir ours;
    tide_error err;
    assert_ok_err(tempdir_make(&ours, &err), &err);
    const char *const forms[] = {"/",
                                 "/tmp",
                                 "/tmp/other",
                                 "%s/sub",
                                 "%s/..",
                                 "%s/../x",
                                 "sub/%s",
                                 "/home/tidemark-test-abc",
                                 "/tmp/tidemark-test-",
                                 "%s/"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        tempdir other = {""};
        const char *mark = strstr(forms[i], "%s");
        const int before = mark != NULL ? (int)(mark - forms[i]) : (int)strlen(forms[i]);
        const int len = snprintf(other.path, sizeof(other.path), "%.*s%s%s", before, forms[i],
                                 mark != NULL ? ours.path : "", mark != NULL ? mark + 2 : "");
        assert_true(len > 0 && len < TEMPDIR_PATH_MAX);
        assert_status(TIDE_E_INVALID, tempdir_remove(&other, &err));
    }
    assert_int_equal(0, access(ours.path, F_OK));

    char link_path[TEMPDIR_PATH_MAX + 8];
    snprintf(link_path, sizeof(link_path), "%s-link", ours.path);
    assert_int_equal(0, symlink("/etc", link_path));
    tempdir link_dir;
    memcpy(link_dir.path, link_path, TEMPDIR_PATH_MAX);
    assert_status(TIDE_E_INVALID, tempdir_remove(&link_dir, &err));
    assert_int_equal(0, unlink(link_path));
    assert_ok_err(tempdir_remove(&ours, &err), &err);
}

/* ---- the kill -9 loop ---- */

typedef struct toy {
    const char *mode;
    char file[TEMPDIR_PATH_MAX];
    uint32_t checks;
} toy;

static void append_line(int fd, const char *writer, int n)
{
    char line[64];
    const int len = snprintf(line, sizeof(line), "%s %d %d\n", writer, (int)getpid(), n);
    if (write(fd, line, (size_t)len) != len)
        _exit(1);
}

/* The child: write a line, sync, acknowledge. The liar acknowledges a batch ahead of its writes. */
static int write_for_ever(const char *mode, const char *path, const char *writer)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return 1;
    const int ahead = strcmp(mode, "lie") == 0 ? LIE_BATCH : 0;
    for (int n = 0;; n++) {
        if (n >= ahead) {
            append_line(fd, writer, n - ahead);
            if (fdatasync(fd) != 0)
                return 1;
        }
        printf("ack %s %d %d\n", writer, (int)getpid(), n);
        fflush(stdout);
    }
}

static tide_status start_writer(proc *child, uint32_t cycle, uint32_t index, void *arg,
                                tide_error *err)
{
    const toy *t = arg;
    char self[PATH_MAX];
    char writer[32];
    proc_self_path(self);
    snprintf(writer, sizeof(writer), "%u", cycle * WRITERS + index);
    const char *const argv[] = {self, t->mode, t->file, writer, NULL};
    return proc_start(child, &(proc_options){.argv = argv, .in = PROC_NULL, .out = PROC_PIPE}, err);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The independent checker: it knows the file and the journal, and nothing of who wrote when. */
static tide_status check_file(const ack_journal *journal, uint32_t cycle, void *arg,
                              tide_error *err)
{
    toy *t = arg;
    (void)cycle;
    t->checks++;
    TIDE_CLEANUP(tide_freep) char *text = calloc(1, FILE_MAX);
    TIDE_CLEANUP(tide_freep) char **lines = calloc(FILE_MAX / 4, sizeof(*lines));
    FILE *file = fopen(t->file, "r");
    if (file == NULL || text == NULL || lines == NULL)
        return tide_fail(err, TIDE_E_IO, "cannot read '%s'", t->file);
    const size_t len = fread(text, 1, FILE_MAX - 1, file);
    fclose(file);
    if (len == FILE_MAX - 1)
        return tide_fail(err, TIDE_E_LIMIT, "'%s' is too large to check", t->file);

    size_t count = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        lines[count++] = line;
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < journal->len; i++) {
        const char *wanted = journal->acks[i].text;
        if (bsearch(&wanted, lines, count, sizeof(*lines), compare_lines) == NULL)
            return tide_fail(err, TIDE_E_DAMAGED, "acknowledged but not there: %s", wanted);
    }
    return TIDE_OK;
}

static tide_status run_toy(toy *t, ack_journal *journal, kill_loop_result *result, tide_error *err)
{
    const kill_loop loop = {.seed = prng_seed_from_env(11),
                            .cycles = 12,
                            .children = WRITERS,
                            .acks_min = 1,
                            .acks_max = 60,
                            .all_at_once_percent = 40,
                            .jitter_us = 500,
                            .arg = t,
                            .start = start_writer,
                            .check = check_file};
    return kill_loop_run(&loop, journal, result, err);
}

/* Who syncs before it acknowledges keeps every promise, however often it is killed. */
static void acknowledged_writes_survive_kill_9(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    kill_loop_result result;
    TIDE_CLEANUP(ack_journal_done) ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(tempdir_make(&dir, &err), &err);
    toy t = {.mode = "write"};
    tempdir_join(&dir, "log", t.file);
    assert_ok_err(run_toy(&t, &journal, &result, &err), &err);
    assert_int_equal(12 * WRITERS, result.kills);
    assert_int_equal(0, result.finished);
    assert_int_equal(12, t.checks);
    assert_true(journal.len >= 12);

    int64_t numbers[3];
    assert_ok_err(ack_numbers(&journal.acks[0], numbers, 3, &err), &err);
    assert_int_equal(0, numbers[2]);
    assert_status(TIDE_E_INVALID, ack_numbers(&journal.acks[0], numbers, 2, &err));
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

/* Who acknowledges first is found out: the loop and its checker can fail. */
static void a_promise_made_too_early_is_found(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    kill_loop_result result;
    TIDE_CLEANUP(ack_journal_done) ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(tempdir_make(&dir, &err), &err);
    toy t = {.mode = "lie"};
    tempdir_join(&dir, "log", t.file);
    assert_status_err(TIDE_E_DAMAGED, run_toy(&t, &journal, &result, &err), &err);
    assert_contains(err.text, "acknowledged but not there");
    assert_contains(err.text, "seed ");
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

static tide_status start_script(proc *child, uint32_t cycle, uint32_t index, void *arg,
                                tide_error *err)
{
    const char *argv[4];
    (void)cycle;
    (void)index;
    proc_options options = shell(argv, arg);
    options.out = PROC_PIPE;
    return proc_start(child, &options, err);
}

static tide_status run_script(const char *script, ack_journal *journal, kill_loop_result *result,
                              tide_error *err)
{
    const kill_loop loop = {.seed = 1,
                            .cycles = 1,
                            .children = 1,
                            .acks_min = 100,
                            .acks_max = 100,
                            .silence_ms = 200,
                            .arg = (void *)(uintptr_t)script,
                            .start = start_script};
    return kill_loop_run(&loop, journal, result, err);
}

/* Only whole lines are promises; a child may end by itself, but not in failure or silence. */
static void the_loop_judges_how_children_end(void **state)
{
    (void)state;
    tide_error err;
    kill_loop_result result;
    TIDE_CLEANUP(ack_journal_done) ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(run_script("echo ack 1; echo ack 2; printf 'ack 3'", &journal, &result, &err),
                  &err);
    assert_int_equal(1, result.finished);
    assert_int_equal(2, journal.len);
    assert_string_equal("2", journal.acks[1].text);
    assert_status(TIDE_E_FAILED, run_script("echo ack 4; exit 3", &journal, &result, &err));
    assert_contains(err.text, "exit code 3");
    assert_status(TIDE_E_TIMEOUT, run_script("exec sleep 1000", &journal, &result, &err));
    assert_status(TIDE_E_LIMIT, run_script("head -c 5000 /dev/zero", &journal, &result, &err));
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return write_for_ever(argv[1], argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_collects_output_and_exit_code),
        cmocka_unit_test(large_output_on_both_streams_does_not_block),
        cmocka_unit_test(a_signal_is_told_from_an_exit),
        cmocka_unit_test(a_program_that_is_not_there_fails_the_start),
        cmocka_unit_test(the_environment_is_changed_for_the_child_only),
        cmocka_unit_test(a_deadline_ends_the_wait_not_the_process),
        cmocka_unit_test(a_pipe_ends_with_its_child),
        cmocka_unit_test(a_family_dies_as_one),
        cmocka_unit_test(programs_are_found_beside_the_test),
        cmocka_unit_test(a_directory_goes_with_its_content_and_no_more),
        cmocka_unit_test(removing_refuses_what_is_not_ours),
        cmocka_unit_test(acknowledged_writes_survive_kill_9),
        cmocka_unit_test(a_promise_made_too_early_is_found),
        cmocka_unit_test(the_loop_judges_how_children_end),
    };
    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
