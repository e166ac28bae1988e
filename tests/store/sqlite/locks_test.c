/* The library beside another SQLite in one process, on one file. The program is linked with libtidemark.so
 * and the system's SQLite. A second process (this program with arguments) asks for the write lock. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tidemark/replica.h>
#include <tidemark/sequence.h>
#include <tidemark/store.h>

enum {
    WROTE = 0,
    LOCKED = 5, /* SQLITE_BUSY */
    ROUNDS = 4,
    WAIT_US = 1000,
};

static char directory[256];
static char path[300];
static tide_error err;

#define assert_ok(call) assert_status(TIDE_OK, call)
#define assert_status(want, call)                                                                  \
    do {                                                                                           \
        const tide_status got_ = (call);                                                           \
        if (got_ != (want))                                                                        \
            print_error("%s: %d %s\n", #call, (int)got_, err.text);                                \
        assert_int_equal((want), got_);                                                            \
    } while (0)

/* ---- the second process ---- */

static int run_sql(const char *text)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open(path, &db);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, text, NULL, NULL, NULL);
    (void)sqlite3_close(db);
    return code & 0xff;
}

static const char write_text[] = "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS other (n);"
                                 "INSERT INTO other VALUES (1); COMMIT";

static int ask_other(const char *text)
{
    char *arguments[] = {"store-sqlite-locks", "--run", path, (char *)text, NULL};
    pid_t pid = 0;
    int status = 0;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static int other_writes(void)
{
    return ask_other(write_text);
}

/* ---- this process ---- */

static tide_store *open_store(void)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .wait_us = WAIT_US};
    tide_store *store = NULL;
    assert_ok(tide_store_open(&store, path, &options, &err));
    return store;
}

static sqlite3 *open_own(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    return db;
}

static int exec(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static int open_and_close_own(void)
{
    return run_sql("SELECT count(*) FROM sqlite_master");
}

static tide_status take_number(tide_tx *tx, void *arg, tide_error *out)
{
    static tide_sequence_range range;
    (void)arg;
    return tide_sequence_declare(tx, "orders", 1, &range, out);
}

typedef struct inside {
    int (*run)(void);
    int answer;
} inside;

static tide_status run_inside(tide_tx *tx, void *arg, tide_error *out)
{
    inside *at = arg;
    TIDE_TRY(take_number(tx, NULL, out));
    at->answer = at->run();
    return TIDE_OK;
}

/* What fn returns inside a write transaction, on the store's writer thread. */
static int answer_inside(tide_store *store, int (*fn)(void))
{
    inside at = {.run = fn};
    assert_ok(tide_store_write(store, run_inside, &at, &err));
    return at.answer;
}

static void check_sound(void)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(own, "PRAGMA integrity_check", -1, &statement, NULL));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    assert_string_equal("ok", sqlite3_column_text(statement, 0));
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(own);
}

/* ---- either side closes first ---- */

static int close_own_and_ask(void)
{
    return open_and_close_own() == SQLITE_OK ? other_writes() : -1;
}

static void the_application_closes_inside_our_write_transaction(void **state)
{
    (void)state;
    tide_store *store = open_store();
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(LOCKED, answer_inside(store, close_own_and_ask));
        assert_int_equal(WROTE, other_writes());
    }
    tide_store_close(store);
    check_sound();
}

static void we_close_inside_the_applications_write_transaction(void **state)
{
    (void)state;
    tide_store_close(open_store());
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK, exec(own, "CREATE TABLE own (n)"));
    for (int i = 0; i < ROUNDS; i++) {
        tide_store *store = open_store();
        assert_int_equal(SQLITE_OK, exec(own, "BEGIN IMMEDIATE; INSERT INTO own VALUES (1)"));
        tide_store_close(store);
        assert_int_equal(LOCKED, other_writes());
        assert_int_equal(SQLITE_OK, exec(own, "COMMIT"));
        assert_int_equal(WROTE, other_writes());
    }
    (void)sqlite3_close(own);
    check_sound();
}

/* A store that is opened and closed while the application writes, with no other connection of ours. */
static void we_open_and_close_inside_the_applications_write_transaction(void **state)
{
    (void)state;
    tide_store_close(open_store());
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK, exec(own, "CREATE TABLE own (n); BEGIN IMMEDIATE"));
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .mode = TIDE_STORE_AS_IS};
    tide_store *store = NULL;
    assert_ok(tide_store_open(&store, path, &options, &err));
    tide_store_close(store);
    assert_int_equal(LOCKED, other_writes());
    assert_int_equal(SQLITE_OK, exec(own, "COMMIT"));
    (void)sqlite3_close(own);
    check_sound();
}

/* The log holds what the snapshot reads: another process cannot start it anew, or end it. */
static tide_status ask_inside_read(tide_tx *tx, void *arg, tide_error *out)
{
    static const tide_sql sql = {TIDE_SQL_INIT, .name = "count",
                                 .engine = {{.text = "SELECT count(*) FROM sqlite_master"}}};
    tide_query *query = NULL;
    int *answers = arg;
    TIDE_TRY(tide_query_begin(&query, tx, &sql, out));
    TIDE_TRY(tide_query_step(query, out));
    answers[0] = open_and_close_own();
    answers[1] = other_writes();
    answers[2] = ask_other("PRAGMA journal_mode=DELETE");
    tide_query_end(query);
    return TIDE_OK;
}

static void the_application_closes_inside_our_snapshot(void **state)
{
    (void)state;
    tide_store *store = open_store();
    assert_ok(tide_store_write(store, take_number, NULL, &err));
    int answers[3] = {-1, -1, -1};
    assert_ok(tide_store_read(store, ask_inside_read, answers, &err));
    assert_int_equal(SQLITE_OK, answers[0]);
    assert_int_equal(WROTE, answers[1]);
    assert_int_equal(LOCKED, answers[2]);
    tide_store_close(store);
    check_sound();
}

/* ---- the two SQLites see each other's locks ---- */

static int write_own(void)
{
    return run_sql(write_text);
}

static void the_application_is_locked_out_while_we_write(void **state)
{
    (void)state;
    tide_store *store = open_store();
    assert_int_equal(SQLITE_BUSY, answer_inside(store, write_own));
    assert_int_equal(SQLITE_OK, write_own());
    tide_store_close(store);
    check_sound();
}

static void we_are_locked_out_while_the_application_writes(void **state)
{
    (void)state;
    tide_store *store = open_store();
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK, exec(own, "BEGIN IMMEDIATE; CREATE TABLE own (n)"));
    assert_status(TIDE_E_BUSY, tide_store_write(store, take_number, NULL, &err));
    assert_int_equal(SQLITE_OK, exec(own, "COMMIT"));
    assert_ok(tide_store_write(store, take_number, NULL, &err));
    (void)sqlite3_close(own);
    tide_store_close(store);
    check_sound();
}

/* ---- files of applications ---- */

static void a_replica_closes_inside_the_applications_write_transaction(void **state)
{
    (void)state;
    const tide_replica_options options = {TIDE_REPLICA_OPTIONS_INIT, .path = path,
                                          .state_dir = directory};
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK, exec(own, "CREATE TABLE notes (id INTEGER PRIMARY KEY, text)"));
    for (int i = 0; i < ROUNDS; i++) {
        tide_replica *replica = NULL;
        int64_t count = 0;
        assert_ok(tide_replica_open(&replica, &options, &err));
        if (i == 0)
            assert_ok(tide_replica_track(replica, "notes", &count, &err));
        assert_ok(tide_replica_fold(replica, &count, &err));
        assert_int_equal(SQLITE_OK,
                         exec(own, "BEGIN IMMEDIATE; INSERT INTO notes (text) VALUES ('draft')"));
        tide_replica_close(replica);
        assert_int_equal(LOCKED, other_writes());
        assert_int_equal(SQLITE_OK, exec(own, "COMMIT"));
        assert_int_equal(WROTE, other_writes());
    }
    (void)sqlite3_close(own);
    check_sound();
}

/* ---- descriptors ---- */

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void descriptors_are_closed_with_the_last_connection(void **state)
{
    (void)state;
    tide_store_close(open_store());
    const int before = count_fds();
    for (int i = 0; i < ROUNDS; i++) {
        tide_store *store = open_store();
        assert_ok(tide_store_write(store, take_number, NULL, &err));
        tide_store_close(store);
        assert_int_equal(before, count_fds());
    }
}

static void descriptors_that_stay_open_are_reused_and_closed_later(void **state)
{
    (void)state;
    tide_store_close(open_store());
    const int before = count_fds();
    sqlite3 *own = open_own();
    assert_int_equal(SQLITE_OK, exec(own, "CREATE TABLE own (n); BEGIN; SELECT * FROM own"));
    int most = 0;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        tide_store_close(open_store());
        if (i < ROUNDS)
            most = count_fds() > most ? count_fds() : most;
        assert_true(count_fds() <= most);
    }
    assert_true(most > before);
    (void)sqlite3_close(own);
    tide_store_close(open_store());
    assert_int_equal(before, count_fds());
}

/* ---- fork ---- */

/* A child opens a store, which starts threads. The thread sanitizer ends a child of a process with threads
 * that does so, unless it is asked not to. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static int run_child(int (*fn)(void))
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(fn());
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}

/* The child opens the file anew and is another process for its locks. */
static int write_in_child(void)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .wait_us = WAIT_US};
    tide_store *store = NULL;
    tide_status status = tide_store_open(&store, path, &options, &err);
    if (status == TIDE_OK)
        status = tide_store_write(store, take_number, NULL, &err);
    tide_store_close(store);
    return -status;
}

static int fork_and_ask(void)
{
    return run_child(write_in_child) == -TIDE_E_BUSY ? other_writes() : -1;
}

static void a_forked_child_neither_shares_nor_drops_our_locks(void **state)
{
    (void)state;
    tide_store *store = open_store();
    assert_int_equal(LOCKED, answer_inside(store, fork_and_ask));
    assert_int_equal(-TIDE_OK, run_child(write_in_child));
    assert_ok(tide_store_write(store, take_number, NULL, &err));
    tide_store_close(store);
    check_sound();
}

static int test_pipe[2]; /* its end is the end of the test */

static int fork_and_die(void)
{
    int child_pipe[2];
    char byte = 0;
    if (pipe(child_pipe) != 0)
        return -1;
    if (fork() == 0) { /* outlives its parent */
        (void)!write(child_pipe[1], "", 1);
        (void)close(test_pipe[1]);
        (void)!read(test_pipe[0], &byte, 1);
        _exit(0);
    }
    if (read(child_pipe[0], &byte, 1) != 1) /* the child has begun: fork() has ended in it */
        return -1;
    return raise(SIGKILL);
}

static int write_and_die(void)
{
    return answer_inside(open_store(), fork_and_die);
}

static void no_lock_outlives_a_killed_parent_in_its_child(void **state)
{
    (void)state;
    int status = 0;
    assert_int_equal(0, pipe(test_pipe));
    tide_store_close(open_store());
    const pid_t pid = fork();
    if (pid == 0)
        _exit(write_and_die());
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(WROTE, other_writes());
    (void)close(test_pipe[0]);
    (void)close(test_pipe[1]);
    check_sound();
}

/* ---- a file system without these locks ---- */

/* From here on fcntl(F_OFD_SETLK) and fcntl(F_OFD_GETLK) of this process fail as on such a file system. */
static int refuse_ofd_locks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_GETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static int open_refused(void)
{
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = ""};
    if (refuse_ofd_locks() != 0)
        return 1;
    if (tide_store_open(&store, path, &options, &err) != TIDE_E_UNSUPPORTED)
        return 2;
    return strstr(err.text, "F_OFD_SETLK") && strstr(err.text, "store.db") ? 0 : 3;
}

static int open_replica_refused(void)
{
    tide_replica *replica = NULL;
    const tide_replica_options options = {TIDE_REPLICA_OPTIONS_INIT, .path = path,
                                          .state_dir = directory};
    if (refuse_ofd_locks() != 0)
        return 1;
    if (tide_replica_open(&replica, &options, &err) != TIDE_E_UNSUPPORTED)
        return 2;
    return strstr(err.text, "F_OFD_SETLK") && strstr(err.text, "store.db") ? 0 : 3;
}

static void a_file_system_without_ofd_locks_is_refused_with_the_reason(void **state)
{
    (void)state;
    assert_int_equal(0, run_child(open_refused)); /* creating */
    tide_store_close(open_store());
    assert_int_equal(0, run_child(open_refused));
}

static void a_file_of_an_application_is_refused_there_too(void **state)
{
    (void)state;
    assert_int_equal(SQLITE_OK, run_sql(write_text));
    assert_int_equal(0, run_child(open_replica_refused));
}

/* ---- fixture ---- */

static int make_directory(void **state)
{
    (void)state;
    const char *root = getenv("TMPDIR");
    (void)snprintf(directory, sizeof directory, "%s/beside-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(directory))
        return 1;
    (void)snprintf(path, sizeof path, "%s/store.db", directory);
    return 0;
}

static int delete_directory(void **state)
{
    (void)state;
    char *arguments[] = {"rm", "-rf", directory, NULL};
    pid_t pid = 0;
    int status = 0;
    if (posix_spawnp(&pid, "rm", NULL, NULL, arguments, environ) != 0)
        return 1;
    return waitpid(pid, &status, 0) != pid || status != 0;
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_directory, delete_directory)

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--run") == 0) {
        (void)snprintf(path, sizeof path, "%s", argv[2]);
        return run_sql(argv[3]);
    }
    const struct CMUnitTest tests[] = {
        CASE(the_application_closes_inside_our_write_transaction),
        CASE(we_close_inside_the_applications_write_transaction),
        CASE(we_open_and_close_inside_the_applications_write_transaction),
        CASE(the_application_closes_inside_our_snapshot),
        CASE(the_application_is_locked_out_while_we_write),
        CASE(we_are_locked_out_while_the_application_writes),
        CASE(a_replica_closes_inside_the_applications_write_transaction),
        CASE(descriptors_are_closed_with_the_last_connection),
        CASE(descriptors_that_stay_open_are_reused_and_closed_later),
        CASE(a_forked_child_neither_shares_nor_drops_our_locks),
        CASE(no_lock_outlives_a_killed_parent_in_its_child),
        CASE(a_file_system_without_ofd_locks_is_refused_with_the_reason),
        CASE(a_file_of_an_application_is_refused_there_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
