/* The requests of hostile_requests.txt: each is answered as its row says, and in every cut of its bytes alike. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "net/http/http1_rig.h"
#include "support/check.h"

enum { FILE_MAX = 1 << 20, BYTES_MAX = 1 << 17, CODES_MAX = 64, LEAST_ROWS = 120 };

static const char POST[] = "POST /echo HTTP/1.1\r\nHost: a\r\n";
static const char TAIL[] = "GET /files/tail HTTP/1.1\r\nHost: a\r\n\r\n";

typedef struct hostile_row {
    char *name;
    char *answers;
    tide_buffer bytes;
} hostile_row;

/* One escape, or a plain character. Returns what follows it. */
static const char *decode_char(tide_buffer *out, const char *at)
{
    static const char names[] = "rnt0\\\"";
    static const char values[] = "\r\n\t\0\\\"";
    char byte = *at++;
    if (byte == '\\' && *at == 'x') {
        const char digits[] = {at[1], at[2], '\0'};
        byte = (char)strtoul(digits, NULL, 16);
        at += 3;
    } else if (byte == '\\') {
        const char *found = strchr(names, *at++);
        assert_non_null(found);
        byte = values[found - names];
    }
    assert_ok(tide_buffer_append(out, &byte, 1));
    return at;
}

/* Behind "{": "post}", "tail}" or "N*BYTES}". */
static const char *decode_brace(tide_buffer *out, const char *at)
{
    const char *end = strchr(at, '}');
    assert_non_null(end);
    if (!isdigit((unsigned char)*at)) {
        assert_ok(tide_buffer_append_text(out, strncmp(at, "post", 4) == 0 ? POST : TAIL));
        return end + 1;
    }
    char *first = NULL;
    const long count = strtol(at, &first, 10);
    for (long i = 0; i < count; i++)
        for (const char *next = first + 1; next < end;)
            next = decode_char(out, next);
    return end + 1;
}

static void decode_row(hostile_row *out, char *line)
{
    char *rest = NULL;
    out->name = strtok_r(line, " ", &rest);
    out->answers = strtok_r(NULL, " ", &rest);
    assert_non_null(out->answers);
    tide_buffer_init(&out->bytes, BYTES_MAX);
    for (const char *at = rest; *at != '\0';)
        at = *at == '{' ? decode_brace(&out->bytes, at + 1) : decode_char(&out->bytes, at);
}

/* "200,400!": the codes of what was answered, in the form of the file. */
static void write_answers(char out[CODES_MAX], const tide_buffer *answered, bool is_over)
{
    size_t len = 0;
    out[0] = '\0';
    const char *end = answered->ptr + answered->len;
    for (const char *at = answered->ptr; at && at < end && len < CODES_MAX - 8; at++) {
        at = memmem(at, (size_t)(end - at), "HTTP/1.1 ", 9);
        if (!at)
            break;
        if (end - at > 12 && isdigit((unsigned char)at[9]))
            len +=
                (size_t)snprintf(out + len, CODES_MAX - len, "%s%.3s", len > 0 ? "," : "", at + 9);
    }
    (void)snprintf(out + len, CODES_MAX - len, "%s", is_over ? "!" : "");
}

/* All answers to the bytes, sent as one piece of cut bytes and the rest; 0: byte by byte. */
static void answer(http1_rig *rig, const hostile_row *row, size_t cut, tide_buffer *out)
{
    const tide_view bytes = tide_buffer_view(&row->bytes);
    http1_rig_reopen(rig, "192.0.2.1:5");
    tide_buffer_clear(out);
    for (size_t at = 0; at < bytes.len;) {
        const size_t len = cut == 0 ? 1 : at == 0 ? cut : bytes.len - at;
        (void)http1_rig_ask_bytes(rig, tide_view_bytes(bytes.ptr + at, len));
        assert_ok(tide_buffer_append_view(out, tide_buffer_view(&rig->output)));
        at += len;
    }
}

static void check_row(http1_rig *rig, const hostile_row *row)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole = tide_buffer_of(BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer cut = tide_buffer_of(BYTES_MAX);
    char answers[CODES_MAX];
    const size_t len = row->bytes.len;
    answer(rig, row, len, &whole);
    write_answers(answers, &whole, http1_rig_is_over(rig));
    if (strcmp(answers, row->answers) != 0)
        fail_msg("%s: want %s, got %s: %.300s", row->name, row->answers, answers,
                 tide_buffer_text(&whole));
    /* Long rows are long by repetition: cuts inside it are alike. */
    const size_t step = len > 2000 ? 101 : 1;
    for (size_t at = 0; at < len; at += at < 200 || len - at < 200 ? 1 : step) {
        answer(rig, row, at, &cut);
        if (!tide_view_equal(tide_buffer_view(&whole), tide_buffer_view(&cut)))
            fail_msg("%s, cut at %zu of %zu: '%.300s' instead of '%.300s'", row->name, at, len,
                     tide_buffer_text(&cut), tide_buffer_text(&whole));
    }
}

static void hostile_requests_are_answered_alike_in_every_cut(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(FILE_MAX);
    char path[4096];
    tide_error err = {0};
    http1_rig rig;
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/tests/net/http/hostile_requests.txt",
                   getenv("TIDEMARK_SOURCE_DIR"));
    assert_ok_err(tide_file_read(&text, path, &err), &err);
    http1_rig_init(&rig);
    http1_rig_open(&rig, false);
    char *rest = NULL;
    for (char *line = strtok_r(text.ptr, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        hostile_row row;
        if (line[0] == '#')
            continue;
        decode_row(&row, line);
        check_row(&rig, &row);
        tide_buffer_done(&row.bytes);
        count++;
    }
    print_message("%d requests\n", count);
    assert_true(count >= LEAST_ROWS);
    http1_rig_done(&rig);
}

/* A body whose last bytes are refused ends the connection, as one does whose first bytes are. */
static void a_refused_body_closes_in_every_cut(void **state)
{
    (void)state;
    char text[2000];
    char name[] = "refused";
    char answers[] = "413!";
    http1_rig rig;
    http1_rig_init(&rig);
    rig.limits.message_len = 1024;
    http1_rig_open(&rig, false);
    (void)snprintf(text, sizeof text,
                   "%sTransfer-Encoding: chunked\r\n\r\n401\r\n%01025d\r\n0\r\n\r\n%s", POST, 1,
                   TAIL);
    hostile_row row = {.name = name, .answers = answers};
    tide_buffer_init(&row.bytes, BYTES_MAX);
    assert_ok(tide_buffer_append_text(&row.bytes, text));
    check_row(&rig, &row);
    tide_buffer_done(&row.bytes);
    http1_rig_done(&rig);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_requests_are_answered_alike_in_every_cut),
        cmocka_unit_test(a_refused_body_closes_in_every_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
