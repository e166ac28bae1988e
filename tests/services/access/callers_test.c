/* Real daemons, and callers on loopback that show nothing: the kernel says who they are. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "services/agent/running_agent.h"
#include "support/check.h"
#include "support/tempdir.h"

enum { URL_SIZE = 256, LIMIT_MS = 60000, NOBODY = 65534 };

typedef struct callers_case {
    tempdir dir;
    char store[TEMPDIR_PATH_MAX];
    running_agent daemon;
    tide_error err;
} callers_case;

static int set_up(void **state)
{
    callers_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_ok_err(tempdir_make(&c->dir, &c->err), &c->err);
    tempdir_join(&c->dir, "store.db", c->store);
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    callers_case *c = *state;
    running_agent_kill(&c->daemon);
    assert_ok_err(tempdir_remove(&c->dir, &c->err), &c->err);
    free(c);
    return 0;
}

static void start(callers_case *c, const char *verb, const char *const *more)
{
    running_agent_kill(&c->daemon);
    assert_ok_err(running_agent_start(&c->daemon, verb, c->store, more, &c->err), &c->err);
}

/* POST of {} as another user of this machine, or GET where is_get; the code, and the body in *said (freed by the caller). */
static int ask_as_other(const callers_case *c, const char *path, bool is_get, char **said)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "http://%s%s", c->daemon.http, path);
    const char *argv[] = {"setpriv",
                          "--reuid=65534",
                          "--regid=65534",
                          "--clear-groups",
                          "curl",
                          "-sS",
                          "-w",
                          "\n%{http_code}",
                          "-H",
                          "content-type: application/json",
                          url,
                          is_get ? NULL : "-d",
                          "{}",
                          NULL};
    tide_error err = {0};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, LIMIT_MS, &err), &err);
    if (result.exit_code != 0)
        fail_msg("curl ended with %d: %s", result.exit_code, result.err);
    char *line = strrchr(result.out, '\n');
    assert_non_null(line);
    const int code = (int)assert_number(line + 1);
    *line = '\0';
    if (said) {
        *said = result.out;
        result.out = NULL;
    }
    proc_result_done(&result);
    return code;
}

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("only root can call as another user\n");
        skip();
    }
}

static void another_user_may_send_to_an_agent_and_see_its_metrics(void **state)
{
    callers_case *c = *state;
    need_root();
    start(c, "agent", NULL);
    assert_int_equal(200, ask_as_other(c, "/v1/logs", false, NULL));
    assert_int_equal(200, ask_as_other(c, "/v1/traces", false, NULL));
    assert_int_equal(200, ask_as_other(c, "/v1/metrics", false, NULL));
    assert_int_equal(200, ask_as_other(c, "/metrics", true, NULL));
    assert_int_equal(200, ask_as_other(c, "/healthz", true, NULL));
    char *said = NULL;
    assert_int_equal(
        403, ask_as_other(c, "/tidemark.agent.v1.AgentService/QueryTelemetry", false, &said));
    assert_contains(said, "'user 65534' has role ingest");
    assert_contains(said, "--local-role");
    free(said);
    assert_int_equal(403,
                     ask_as_other(c, "/tidemark.agent.v1.AgentService/ListStreams", false, NULL));
    /* the daemon's own user */
    assert_int_equal(200, running_agent_http(&c->daemon, "/v1/logs", "{}"));
    assert_int_equal(
        200, running_agent_http(&c->daemon, "/tidemark.agent.v1.AgentService/ListStreams", "{}"));
}

static void another_user_may_not_query_or_export(void **state)
{
    callers_case *c = *state;
    static const char QUERY[] = "/tidemark.colony.v1.ColonyService/Query";
    need_root();
    start(c, "colony", NULL);
    assert_int_equal(403, ask_as_other(c, QUERY, false, NULL));
    assert_int_equal(403, ask_as_other(c, "/tidemark.colony.v1.ColonyService/Export", false, NULL));
    assert_int_equal(200, ask_as_other(c, "/metrics", true, NULL));
    assert_int_equal(200, running_agent_http(&c->daemon, QUERY, "{\"sql\":\"SELECT 1\"}"));
}

static int export_into(const callers_case *c, const char *directory)
{
    char body[TEMPDIR_PATH_MAX + 32];
    (void)snprintf(body, sizeof body, "{\"directory\":\"%s\"}", directory);
    return running_agent_http(&c->daemon, "/tidemark.colony.v1.ColonyService/Export", body);
}

static void callers_export_below_one_directory_only(void **state)
{
    callers_case *c = *state;
    char root[TEMPDIR_PATH_MAX];
    char inside[TEMPDIR_PATH_MAX];
    char link[TEMPDIR_PATH_MAX];
    char outside[TEMPDIR_PATH_MAX];
    char sibling[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "out", root);
    tempdir_join(&c->dir, "out/inside", inside);
    tempdir_join(&c->dir, "out/link", link);
    tempdir_join(&c->dir, "outside", outside);
    tempdir_join(&c->dir, "outer", sibling);
    assert_int_equal(0, mkdir(root, 0700));
    assert_int_equal(0, mkdir(outside, 0700));
    assert_int_equal(0, symlink(outside, link));
    start(c, "colony", NULL);
    assert_int_equal(403, export_into(c, inside));
    start(c, "colony", (const char *[]){"--export-dir", root, NULL});
    static const char *const refused[] = {"..",   "../outside", "inside/../../outside",
                                          "link", "link/deep",  "/tmp"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(403, export_into(c, refused[i]));
    assert_int_equal(403, export_into(c, link));
    assert_int_equal(403, export_into(c, outside));
    assert_int_equal(403, export_into(c, sibling));
    assert_int_not_equal(0, access(sibling, F_OK));
    assert_int_equal(-1, rmdir(root));
    assert_int_equal(0, rmdir(outside)); /* empty */
    assert_int_equal(200, export_into(c, inside));
    assert_int_equal(200, export_into(c, "relative/deep"));
    assert_int_equal(200, export_into(c, ""));
    tempdir_join(&c->dir, "out/relative/deep/manifest.tsv", inside);
    assert_int_equal(0, access(inside, F_OK));
}

/* They could put a link there between the look and the writing. */
static void directories_that_others_can_change_take_no_exports(void **state)
{
    callers_case *c = *state;
    char root[TEMPDIR_PATH_MAX];
    char shared[TEMPDIR_PATH_MAX];
    char foreign[TEMPDIR_PATH_MAX];
    need_root();
    tempdir_join(&c->dir, "out", root);
    tempdir_join(&c->dir, "out/shared", shared);
    tempdir_join(&c->dir, "out/foreign", foreign);
    assert_int_equal(0, mkdir(root, 0700));
    assert_int_equal(0, mkdir(shared, 0700));
    assert_int_equal(0, chmod(shared, 0777));
    assert_int_equal(0, mkdir(foreign, 0700));
    assert_int_equal(0, chown(foreign, NOBODY, NOBODY));
    start(c, "colony", (const char *[]){"--export-dir", root, NULL});
    assert_int_equal(200, export_into(c, ""));
    assert_int_equal(403, export_into(c, "shared"));
    assert_int_equal(403, export_into(c, "shared/deep"));
    assert_int_equal(403, export_into(c, "foreign"));
    assert_int_equal(0, chmod(shared, 01777));
    assert_int_equal(200, export_into(c, "shared/deep"));
    assert_int_equal(0, chmod(root, 0777));
    assert_int_equal(403, export_into(c, "deep"));
}

static void local_role_says_what_other_users_may_do(void **state)
{
    callers_case *c = *state;
    static const char LIST[] = "/tidemark.agent.v1.AgentService/ListStreams";
    static const struct {
        const char *role;
        int logs;
        int list;
    } rows[] = {{"none", 401, 401}, {"read", 403, 200}, {"write", 200, 200}, {"admin", 200, 200}};
    need_root();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(c, "agent", (const char *[]){"--local-role", rows[i].role, NULL});
        assert_int_equal(rows[i].logs, ask_as_other(c, "/v1/logs", false, NULL));
        assert_int_equal(rows[i].list, ask_as_other(c, LIST, false, NULL));
    }
}

/* --require-token wins over everything else. */
static void a_token_is_required_of_everybody(void **state)
{
    callers_case *c = *state;
    start(c, "agent",
          (const char *[]){"--require-token", "--insecure", "--local-role", "admin", NULL});
    assert_int_equal(401, running_agent_http(&c->daemon, "/v1/logs", "{}"));
    assert_int_equal(401, running_agent_http(&c->daemon, "/metrics", NULL));
    if (geteuid() == 0)
        assert_int_equal(401, ask_as_other(c, "/v1/logs", false, NULL));
}

static void assert_mode(const char *path, const char *suffix, mode_t mode)
{
    char name[TEMPDIR_PATH_MAX + 16];
    struct stat info;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    if (stat(name, &info) != 0)
        fail_msg("%s: there is no such file", name);
    if ((info.st_mode & 0777) != mode)
        fail_msg("%s has mode %04o, want %04o", name, info.st_mode & 0777, mode);
}

/* Whatever the umask; and what is looser stays so, with a warning. */
static void what_a_daemon_makes_is_its_users_alone(void **state)
{
    callers_case *c = *state;
    char socket[TEMPDIR_PATH_MAX];
    char listen[TEMPDIR_PATH_MAX + 8];
    tempdir_join(&c->dir, "socket", socket);
    (void)snprintf(listen, sizeof listen, "unix:%s", socket);
    const mode_t before = umask(0);
    start(c, "agent", (const char *[]){"--grpc", listen, NULL});
    (void)umask(before);
    assert_mode(c->store, "", 0600);
    assert_mode(c->store, "-wal", 0600);
    assert_mode(c->store, "-shm", 0600);
    assert_mode(c->store, "-door", 0600);
    assert_mode(socket, "", 0700);
    running_agent_kill(&c->daemon);
    assert_int_equal(0, chmod(c->store, 0640));
    start(c, "agent", NULL);
    assert_mode(c->store, "", 0640);
}

/* Exit 5, before anything is served. */
static void secrets_that_others_can_read_are_refused(void **state)
{
    callers_case *c = *state;
    char tokens[TEMPDIR_PATH_MAX];
    char program[PATH_MAX];
    assert_ok_err(proc_find("tidemark", program, &c->err), &c->err);
    tempdir_join(&c->dir, "tokens", tokens);
    FILE *out = fopen(tokens, "we");
    assert_non_null(out);
    assert_true(fputs("boss admin 0123456789abcdef0123456789abcdef\n", out) >= 0);
    assert_int_equal(0, fchmod(fileno(out), 0644));
    assert_int_equal(0, fclose(out));
    const char *argv[] = {program,        "agent",       "--store", c->store,
                          "--grpc",       "127.0.0.1:0", "--http",  "127.0.0.1:0",
                          "--token-file", tokens,        NULL};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, LIMIT_MS, &c->err), &c->err);
    assert_int_equal(TIDE_EXIT_DENIED, result.exit_code);
    assert_contains(result.err, "chmod 600");
    proc_result_done(&result);
    assert_int_equal(0, chmod(tokens, 0640)); /* a group is the owner's choice */
    start(c, "agent", (const char *[]){"--token-file", tokens, NULL});
}

enum { WAITERS = 40, FEW_FILES = 64 };

static int connect_to(const char *address)
{
    const char *port = strrchr(address, ':');
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)assert_number(port + 1)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, connect(fd, (const struct sockaddr *)&to, sizeof to));
    return fd;
}

/* The limit is this process's, too, from here on: the last case. */
static void with_few_files_connections_wait(void **state)
{
    callers_case *c = *state;
    static const char request[] = "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Type: application/json\r\nContent-Length: 2\r\n"
                                  "Connection: close\r\n\r\n{}";
    const struct rlimit few = {.rlim_cur = FEW_FILES, .rlim_max = FEW_FILES};
    int fds[WAITERS];
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &few));
    start(c, "agent", NULL);
    for (int i = 0; i < WAITERS; i++)
        fds[i] = connect_to(c->daemon.http);
    for (int i = WAITERS - 1; i >= 0; i--)
        assert_int_equal(sizeof request - 1, write(fds[i], request, sizeof request - 1));
    for (int i = 0; i < WAITERS; i++) {
        char answer[16] = "";
        assert_int_equal(12, recv(fds[i], answer, 12, MSG_WAITALL));
        assert_string_equal("HTTP/1.1 200", answer);
        (void)close(fds[i]);
    }
}

#define CALLERS_CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CALLERS_CASE(another_user_may_send_to_an_agent_and_see_its_metrics),
        CALLERS_CASE(another_user_may_not_query_or_export),
        CALLERS_CASE(callers_export_below_one_directory_only),
        CALLERS_CASE(directories_that_others_can_change_take_no_exports),
        CALLERS_CASE(local_role_says_what_other_users_may_do),
        CALLERS_CASE(a_token_is_required_of_everybody),
        CALLERS_CASE(what_a_daemon_makes_is_its_users_alone),
        CALLERS_CASE(secrets_that_others_can_read_are_refused),
        CALLERS_CASE(with_few_files_connections_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
