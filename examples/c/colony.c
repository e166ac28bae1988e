/* colony.c - what a colony has collected, what is missing, and whether its ledger balances.
 *
 *     colony COLONY_URL
 *
 *     cc colony.c http.c $(pkg-config --cflags --libs libcurl jansson) -o colony
 *     tidemark colony --store colony.db --agent web-1=127.0.0.1:4317 &      # ready http=127.0.0.1:4320
 *     ./colony http://127.0.0.1:4320
 *
 * Ends with 1 when a number is unexplained: that must not happen, and somebody should look. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "http.h"

enum { PATH_SIZE = 128 };

static json_t *ask(const char *url, const char *method, json_t *request)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "tidemark.colony.v1.ColonyService/%s", method);
    json_t *answer = http_call(url, path, request);
    if (!answer)
        http_give_up();
    return answer;
}

static void say_rows(const char *url)
{
    size_t i;
    json_t *row;
    json_t *answer = ask(url, "Query",
                         json_pack("{s:s, s:i}", "sql",
                                   "SELECT service_name, count(*) FROM spans"
                                   " GROUP BY service_name ORDER BY 1",
                                   "max_rows", 1000));
    if (json_is_true(json_object_get(answer, "cut")))
        (void)fputs("only the first 1000 rows\n", stderr);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
        printf("%s: %lld spans\n", json_string_value(json_array_get(row, 0)),
               (long long)json_integer_value(json_array_get(row, 1)));
    json_decref(answer);
}

/* All of them, page by page: behind the last id, so that none is missed or told twice while others come. */
static void say_gaps(const char *url)
{
    long long after = 0;
    for (bool has_more = true; has_more;) {
        size_t i;
        json_t *gap;
        json_t *page = ask(url, "ListGaps",
                           json_pack("{s:I, s:i}", "after_id", (json_int_t)after, "limit", 100));
        json_array_foreach(json_object_get(page, "gaps"), i, gap)
        {
            printf("gap %s %s %lld..%lld %s (%s)\n", http_text(gap, "agent_id"),
                   http_text(gap, "data_type"), http_number(gap, "start_seq_id"),
                   http_number(gap, "end_seq_id"), http_text(gap, "status"),
                   http_text(gap, "reason"));
            after = http_number(gap, "id");
        }
        has_more = json_is_true(json_object_get(page, "more"));
        json_decref(page);
    }
}

static bool print_ledger(const char *url)
{
    size_t i;
    json_t *line;
    json_t *audit = ask(url, "Audit", json_object());
    json_array_foreach(json_object_get(audit, "lines"), i, line)
    {
        const json_t *ledger = json_object_get(line, "ledger");
        if (http_number(ledger, "head") != 0)
            printf("ledger %s %s: head %lld stored %lld lost %lld\n", http_text(line, "agent_id"),
                   http_text(line, "data_type"), http_number(ledger, "head"),
                   http_number(ledger, "stored"), http_number(ledger, "lost"));
    }
    const bool is_balanced = json_is_true(json_object_get(audit, "balanced"));
    puts(is_balanced ? "the ledger balances" : "THE LEDGER DOES NOT BALANCE");
    json_decref(audit);
    return is_balanced;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fputs("colony COLONY_URL\n", stderr);
        return EXIT_FAILURE;
    }
    /* What agents have now is here when this is answered. */
    json_t *polled = ask(argv[1], "Poll", json_pack("{s:i}", "wait_ms", 10000));
    printf("%lld of %lld agents caught up\n", http_number(polled, "caught_up"),
           http_number(polled, "agents"));
    if (http_number(polled, "failed") != 0)
        (void)fprintf(stderr, "not all: %s\n", http_text(polled, "failure"));
    json_decref(polled);
    say_rows(argv[1]);
    say_gaps(argv[1]);
    return print_ledger(argv[1]) ? EXIT_SUCCESS : EXIT_FAILURE;
}
