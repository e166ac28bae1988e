#include "support/history.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/process/proc.h"

enum { JUDGE_MS = 300000, UNREADABLE = 2, VIOLATED = 8 };

int64_t history_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int history_open(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        abort();
    }
    return fd;
}

/* ---- building ---- */

static void append(history_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(history_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int len =
        vsnprintf(line->text + line->len, sizeof line->text - line->len, format, arguments);
    va_end(arguments);
    assert(len >= 0 && line->len + (size_t)len < sizeof line->text);
    line->len += (size_t)len;
}

static void append_text(history_line *line, const char *text)
{
    append(line, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            append(line, "\\%c", *at);
        else if (*at < ' ')
            append(line, "\\u%04x", *at);
        else
            append(line, "%c", *at);
    }
    append(line, "\"");
}

void history_begin_at(history_line *line, const char *process, const char *operation,
                      int64_t begin_ns)
{
    line->len = 0;
    append(line, "{\"process\":");
    append_text(line, process);
    append(line, ",\"operation\":");
    append_text(line, operation);
    append(line, ",\"begin\":%" PRId64, begin_ns);
}

void history_begin(history_line *line, const char *process, const char *operation)
{
    history_begin_at(line, process, operation, history_now_ns());
}

void history_text(history_line *line, const char *name, const char *value)
{
    append(line, ",\"%s\":", name);
    append_text(line, value);
}

void history_number(history_line *line, const char *name, int64_t value)
{
    append(line, ",\"%s\":%" PRId64, name, value);
}

void history_texts(history_line *line, const char *name, const char *const *values, size_t count)
{
    append(line, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        append(line, i > 0 ? "," : "");
        append_text(line, values[i]);
    }
    append(line, "]");
}

void history_numbers(history_line *line, const char *name, const int64_t *values, size_t count)
{
    append(line, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        append(line, "%s%" PRId64, i > 0 ? "," : "", values[i]);
    append(line, "]");
}

void history_flag(history_line *line, const char *name, bool value)
{
    append(line, ",\"%s\":%s", name, value ? "true" : "false");
}

/* ---- writing ---- */

static void write_line(const history_line *line, int fd)
{
    ssize_t done = -1;
    while ((done = write(fd, line->text, line->len)) < 0 && errno == EINTR)
        continue;
    if (done < 0 && errno == EPIPE)
        _exit(0); /* the reader of a child's lines is gone: the test has ended */
    if (done != (ssize_t)line->len) {
        perror("a line of a history was not written");
        abort();
    }
}

void history_announce(const history_line *line, int fd)
{
    history_line whole = {.len = line->len};
    memcpy(whole.text, line->text, line->len);
    append(&whole, ",\"end\":null,\"result\":\"unknown\"}\n");
    write_line(&whole, fd);
}

void history_end_at(history_line *line, int fd, history_result result, int64_t end_ns)
{
    static const char *const names[] = {"ok", "fail", "unknown"};
    append(line, ",\"end\":%" PRId64 ",\"result\":\"%s\"}\n", end_ns, names[result]);
    write_line(line, fd);
}

void history_end(history_line *line, int fd, history_result result)
{
    history_end_at(line, fd, result, history_now_ns());
}

history_result history_result_of(tide_status status)
{
    if (status >= TIDE_OK)
        return HISTORY_OK;
    if (status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_TIMEOUT ||
        status == TIDE_E_UNAVAILABLE)
        return HISTORY_UNKNOWN;
    return HISTORY_FAIL;
}

/* ---- judging ---- */

static void copy_line(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
}

tide_status history_judge(const char *checker, const char *const *paths,
                          char verdict[HISTORY_VERDICT_MAX], tide_error *err)
{
    enum { PATHS_MAX = 1024 };
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    char script[PATH_MAX];
    const char *argv[PATHS_MAX + 3] = {"python3", script};
    (void)snprintf(script, sizeof script, "%s/tests/check/%s", source ? source : ".", checker);
    size_t count = 2;
    for (; *paths; paths++) {
        assert(count < PATHS_MAX + 2);
        argv[count++] = *paths;
    }
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    TIDE_TRY(proc_run(&result, &(proc_options){.argv = argv, .in = PROC_NULL}, JUDGE_MS, err));
    if (result.exit_code == VIOLATED)
        return tide_fail(err, TIDE_E_DAMAGED, "%s: %.*s", checker, (int)strcspn(result.out, "\n"),
                         result.out);
    if (result.exit_code != 0)
        return tide_fail(err, TIDE_E_FAILED, "%s ended with %d: %.300s", checker, result.exit_code,
                         result.err);
    copy_line(verdict, HISTORY_VERDICT_MAX, result.out);
    return TIDE_OK;
}
