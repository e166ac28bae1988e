/* telemetry.c - sends three spans to an agent, then reads what is new there.
 *
 *     telemetry AGENT_URL POSITION_FILE
 *
 *     cc telemetry.c http.c $(pkg-config --cflags --libs libcurl jansson) -o telemetry
 *     tidemark agent --store agent.db &           # ready grpc=127.0.0.1:4317 http=127.0.0.1:4318
 *     ./telemetry http://127.0.0.1:4318 position.json
 *
 * Run it again: it goes on behind the last span that it has read. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "http.h"

enum { SPAN_NS = 12000000, ID_MAX = 16, PATH_SIZE = 4096 };

static json_t *random_hex(size_t len)
{
    unsigned char bytes[ID_MAX];
    char text[2 * ID_MAX + 1];
    if (getrandom(bytes, len, 0) != (ssize_t)len)
        abort();
    for (size_t i = 0; i < len; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static json_t *make_span(json_t *trace_id, const char *name, int64_t start_ns)
{
    return json_pack("{s:O, s:o, s:s, s:i, s:o, s:o}", "traceId", trace_id, "spanId", random_hex(8),
                     "name", name, "kind", 2, "startTimeUnixNano",
                     json_sprintf("%" PRId64, start_ns), "endTimeUnixNano",
                     json_sprintf("%" PRId64, start_ns + SPAN_NS));
}

/* OTLP as JSON. Answered means on disk at the agent. A lost answer is met by sending the same spans again: they may then be there
 * twice, under two numbers, and never be missing. Their span ids are the same, so a reader that must count exactly can tell. */
static void send_spans(const char *url)
{
    static const char *const names[] = {"GET /cart", "POST /order", "GET /receipt"};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    json_t *spans = json_array();
    json_t *trace_id = random_hex(16);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)json_array_append_new(spans, make_span(trace_id, names[i], now_ns));
    json_t *request = json_pack("{s:[{s:{s:[{s:s, s:{s:s}}]}, s:[{s:o}]}]}", "resourceSpans",
                                "resource", "attributes", "key", "service.name", "value",
                                "stringValue", "checkout", "scopeSpans", "spans", spans);
    json_decref(trace_id);
    json_t *answer = http_call(url, "v1/traces", request);
    if (!answer)
        http_give_up();
    json_decref(answer);
}

/* ---- reading ---- */

static json_t *load(const char *path)
{
    json_t *position = json_load_file(path, 0, NULL);
    return position ? position
                    : json_pack("{s:s, s:s, s:s, s:s}", "session", "", "epoch", "0", "epochId", "",
                                "seq", "0");
}

/* The old one or the new one is there, never half of it. */
static void save(const char *path, const json_t *position)
{
    char made[PATH_SIZE];
    (void)snprintf(made, sizeof made, "%s.new", path);
    FILE *file = fopen(made, "w");
    if (!file || json_dumpf(position, file, 0) != 0 || fflush(file) != 0 ||
        fsync(fileno(file)) != 0 || fclose(file) != 0 || rename(made, path) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

static bool is_other_history(const json_t *position, const json_t *page)
{
    const char *session = http_text(position, "session");
    return (*session && strcmp(session, http_text(page, "sessionId")) != 0) ||
           strcmp(http_text(json_object_get(page, "state"), "standing"), "STANDING_DIVERGED") == 0;
}

static void say_page(const json_t *page)
{
    size_t i;
    json_t *one;
    /* Numbers that will never come, and why: a fact, not a guess. */
    json_array_foreach(json_object_get(json_object_get(page, "state"), "holes"), i, one)(void)
        fprintf(stderr, "lost %s..%s: %s\n", http_text(one, "firstSeqId"),
                http_text(one, "lastSeqId"), http_text(one, "reason"));
    json_array_foreach(json_object_get(page, "spans"), i, one)
        printf("span %s %s %s %g ms\n", http_text(one, "seqId"), http_text(one, "serviceName"),
               http_text(one, "spanName"), json_number_value(json_object_get(one, "durationMs")));
}

/* One page; false: it was the last. */
static bool read_page(const char *url, const char *path, json_t **position)
{
    /* A reader with a name keeps what it has not read from being dropped. Epoch and session say whose numbers ours are. */
    json_t *request =
        json_pack("{s:s, s:{s:s, s:s, s:s}}", "startSeqId", http_text(*position, "seq"), "position",
                  "reader", "example-c", "epoch", http_text(*position, "epoch"), "epochId",
                  http_text(*position, "epochId"));
    json_t *page = http_call(url, "tidemark.agent.v1.AgentService/QueryTelemetry", request);
    if (!page)
        http_give_up();
    const json_t *state = json_object_get(page, "state");
    bool has_more = true;
    if (is_other_history(*position, page)) {
        (void)fputs("another history: reading from its beginning\n", stderr);
        json_decref(*position);
        *position = load("");
    } else {
        say_page(page);
        /* scannedThrough and not the last span's number: it is right also when the page is empty. */
        json_decref(*position);
        *position =
            json_pack("{s:s, s:s, s:s, s:s}", "session", http_text(page, "sessionId"), "epoch",
                      http_text(state, "epoch"), "epochId", http_text(state, "epochId"), "seq",
                      http_text(state, "scannedThroughSeqId"));
        save(path, *position); /* behind the work: a crash repeats a page and skips nothing */
        has_more = json_is_true(json_object_get(state, "more"));
    }
    json_decref(page);
    return has_more;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fputs("telemetry AGENT_URL POSITION_FILE\n", stderr);
        return EXIT_FAILURE;
    }
    send_spans(argv[1]);
    json_t *position = load(argv[2]);
    while (read_page(argv[1], argv[2], &position)) {
    }
    json_decref(position);
    return EXIT_SUCCESS;
}
