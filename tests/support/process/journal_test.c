/* The kill -9 loop. The program starts itself again as the toy writer that gets killed:
 * journal_test write|lie FILE WRITER. */
#include "support/process/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum {
    WRITERS = 3,
    LIE_BATCH = 16,
    FILE_MAX = 16 * 1024 * 1024,
};

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
    const char *const argv[] = {self, test_file_name(), "--", t->mode, t->file, writer, NULL};
    return proc_start(child, &(proc_options){.argv = argv, .in = PROC_NULL, .out = PROC_PIPE}, err);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The independent checker: it knows the file and the journal, and not which child wrote when. */
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

/* A writer that syncs before it acknowledges loses nothing, however often it is killed. */
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

/* A writer that acknowledges before it syncs is found: the loop and its checker can fail. */
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
    const char *const argv[] = {"sh", "-c", arg, NULL};
    (void)cycle;
    (void)index;
    return proc_start(child, &(proc_options){.argv = argv, .out = PROC_PIPE}, err);
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
                            .arg = (void *)script,
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

TEST_FILE()
{
    if (test_file_argument(2) != NULL)
        return write_for_ever(test_file_argument(0), test_file_argument(1), test_file_argument(2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_writes_survive_kill_9),
        cmocka_unit_test(a_promise_made_too_early_is_found),
        cmocka_unit_test(the_loop_judges_how_children_end),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
