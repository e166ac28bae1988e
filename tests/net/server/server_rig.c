#include "net/server/server_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/program/sanitized.h"

enum { RUN_MS = 120000, WORD_MAX = 1024 };

static void read_line(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && read(fd, out + len, 1) == 1 && out[len] != '\n')
        len++;
    out[len] = '\0';
}

void server_rig_start(server_rig *rig, const char *const *words)
{
    *rig = (server_rig){0};
    tide_error err = {0};
    char path[PATH_MAX];
    assert_ok_err(proc_find("net-test-server", path, &err), &err);
    const char *argv[SERVER_RIG_WORDS_MAX + 2] = {path};
    for (size_t i = 0; words[i]; i++) {
        assert_true(i < SERVER_RIG_WORDS_MAX);
        argv[i + 1] = words[i];
    }
    const proc_options options = {.argv = argv, .in = PROC_PIPE, .out = PROC_PIPE};
    assert_ok_err(proc_start(&rig->child, &options, &err), &err);
    read_line(rig->child.out_fd, rig->ready, sizeof rig->ready);
    if (strncmp(rig->ready, "ready ", 6) != 0)
        fail_msg("the server said '%s'", rig->ready);
    char *save = NULL;
    size_t count = 0;
    for (char *word = strtok_r(rig->ready + 6, " ", &save);
         word && count < SERVER_RIG_ADDRESSES_MAX; word = strtok_r(NULL, " ", &save))
        rig->addresses[count++] = word;
    (void)snprintf(rig->url, sizeof rig->url, "http://%s", rig->addresses[0]);
}

int server_rig_stop(server_rig *rig)
{
    tide_error err = {0};
    assert_ok_err(proc_kill(&rig->child, SIGTERM, &err), &err);
    assert_ok_err(proc_wait(&rig->child, 60000, &err), &err);
    return rig->child.exit_code;
}

void server_rig_done(server_rig *rig)
{
    proc_done(&rig->child);
}

static void expand(const server_rig *rig, char out[WORD_MAX], const char *word)
{
    const char *at = strstr(word, "@/");
    if (at)
        (void)snprintf(out, WORD_MAX, "%.*s%s%s", (int)(at - word), word, rig->url, at + 1);
    else
        (void)snprintf(out, WORD_MAX, "%s", word);
}

char *server_rig_run(const server_rig *rig, int *exit_code, const char *const *argv)
{
    char words[SERVER_RIG_WORDS_MAX][WORD_MAX];
    const char *expanded[SERVER_RIG_WORDS_MAX + 1] = {0};
    for (size_t i = 0; argv[i]; i++) {
        assert_true(i < SERVER_RIG_WORDS_MAX);
        expand(rig, words[i], argv[i]);
        expanded[i] = words[i];
    }
    tide_error err = {0};
    proc_result result = {0};
    const proc_options options = {.argv = expanded};
    assert_ok_err(proc_run(&result, &options, RUN_MS, &err), &err);
    if (exit_code)
        *exit_code = result.exit_code;
    else if (result.exit_code != 0)
        fail_msg("%s ended with %d: %s %s", argv[0], result.exit_code, result.out, result.err);
    char *out = result.out;
    result.out = NULL;
    proc_result_done(&result);
    return out;
}

char *server_rig_client(const server_rig *rig, const char *name, const char *const *arguments)
{
    char script[PATH_MAX];
    (void)snprintf(script, sizeof script, "%s/tests/net/server/%s", getenv("TIDEMARK_SOURCE_DIR"),
                   name);
    const char *argv[SERVER_RIG_WORDS_MAX + 1] = {"/usr/bin/python3", script, rig->addresses[0]};
    for (size_t i = 0; arguments && arguments[i]; i++) {
        assert_true(i + 3 < SERVER_RIG_WORDS_MAX);
        argv[i + 3] = arguments[i];
    }
    return server_rig_run(rig, NULL, argv);
}

int64_t server_rig_number(const server_rig *rig, const char *name)
{
    const char *argv[] = {"curl", "-sS", "-m", "10", "@/numbers", NULL};
    char *text = server_rig_run(rig, NULL, argv);
    const size_t len = strlen(name);
    int64_t number = -1;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, name, len) == 0 && line[len] == ' ')
            number = strtoll(line + len + 1, NULL, 10);
    }
    free(text);
    return number;
}

/* A row of /proc/PID/status. */
static int64_t read_status(const server_rig *rig, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)rig->child.pid);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    char line[256];
    long number = -1;
    const size_t len = strlen(name);
    while (fgets(line, sizeof line, in)) {
        if (strncmp(line, name, len) == 0)
            number = strtol(line + len, NULL, 10);
    }
    (void)fclose(in);
    assert_true(number > 0);
    return number;
}

int64_t server_rig_peak_mib(const server_rig *rig)
{
    return read_status(rig, "VmHWM:") / 1024;
}

int64_t server_rig_resident_mib(const server_rig *rig)
{
    return read_status(rig, "VmRSS:") / 1024;
}

int64_t server_rig_threads(const server_rig *rig)
{
    return read_status(rig, "Threads:");
}

bool server_rig_is_sanitized(void)
{
    return IS_SANITIZED;
}
