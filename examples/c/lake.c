/* lake.c - loads the orders of a day into a table, corrects one, and asks before and after.
 *
 *     lake URL CATALOG DAY
 *
 *     cc lake.c http.c $(pkg-config --cflags --libs libcurl jansson) -o lake
 *     tidemark lake serve --store lake.db --data lake-data &          # ready listen=127.0.0.1:4322
 *     ./lake http://127.0.0.1:4322 shop 2026-01-29
 *
 * Run it again for the same day: nothing is loaded twice. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"

enum { PATH_SIZE = 128, TEXT_SIZE = 1024, ID_SIZE = 32, TRIES = 5 };

typedef struct lake {
    const char *url;
    const char *catalog;
    const char *day;
} lake;

/* NULL: refused, see http_reason. */
static json_t *ask(const lake *l, const char *method, json_t *request)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "tidemark.lake.v1.LakeService/%s", method);
    return http_call(l->url, path, request);
}

static json_t *need(json_t *answer)
{
    if (!answer)
        http_give_up();
    return answer;
}

static void prepare(const lake *l)
{
    json_decref(
        need(ask(l, "CreateCatalog", json_pack("{s:s, s:b}", "name", l->catalog, "may_exist", 1))));
    json_t *made = ask(l, "CreateTable",
                       json_pack("{s:s, s:{s:s, s:s, s:s, s:b}}", "catalog", l->catalog,
                                 "operation", "schema", "sales", "table", "orders", "columns",
                                 "id BIGINT, day DATE, amount DECIMAL(18,2)", "create_schema", 1));
    /* CONFLICT: somebody makes it at this moment. */
    if (!made && strcmp(http_reason(), "EXISTS") != 0 && strcmp(http_reason(), "CONFLICT") != 0)
        http_give_up();
    json_decref(made);
}

/* The key makes a day's load one snapshot, whatever happens: after a lost answer the second one is the first's. */
static void load(const lake *l, char snapshot[ID_SIZE])
{
    char rows[TEXT_SIZE] = "id,day,amount\n";
    size_t len = strlen(rows);
    for (int id = 1; id <= 5; id++)
        len += (size_t)snprintf(rows + len, sizeof rows - len, "%d,%s,%d.50\n", id, l->day, id);
    json_t *done = need(
        ask(l, "Append",
            json_pack("{s:s, s:{s:s, s:s, s:s, s:s}, s:{s:o, s:s, s:o}}", "catalog", l->catalog,
                      "operation", "schema", "sales", "table", "orders", "format", "csv", "text",
                      rows, "commit", "request_key", json_sprintf("orders-%s", l->day), "author",
                      "lake.c", "message", json_sprintf("orders of %s", l->day))));
    (void)snprintf(snapshot, ID_SIZE, "%lld", http_number(done, "snapshot_id"));
    if (json_is_true(json_object_get(done, "replayed")))
        printf("snapshot %s (was there)\n", snapshot);
    else
        printf("snapshot %s: %lld rows\n", snapshot, http_number(done, "rows"));
    json_decref(done);
}

/* Delete and append as one snapshot, made from what has been seen. */
static json_t *correction(const lake *l, long long seen)
{
    json_t *operations =
        json_pack("[{s:{s:s, s:s, s:o}}, {s:{s:s, s:s, s:s, s:o}}]", "delete", "schema", "sales",
                  "table", "orders", "where", json_sprintf("id = 3 AND day = '%s'", l->day),
                  "append", "schema", "sales", "table", "orders", "format", "csv", "text",
                  json_sprintf("id,day,amount\n3,%s,100\n", l->day));
    return json_pack("{s:s, s:o, s:{s:o, s:I, s:s}}", "catalog", l->catalog, "operations",
                     operations, "commit", "request_key",
                     json_sprintf("correct-%s-%lld", l->day, seen), "base_snapshot_id",
                     (json_int_t)seen, "message", "order 3");
}

/* Who changed these rows since we looked makes it a conflict: nothing was changed, and we look again. */
static void correct(const lake *l, char snapshot[ID_SIZE])
{
    for (int i = 0; i < TRIES; i++) {
        json_t *tables = need(ask(l, "ListTables",
                                  json_pack("{s:s, s:s, s:b}", "catalog", l->catalog, "schema",
                                            "sales", "without_columns", 1)));
        json_t *done = ask(l, "Commit", correction(l, http_number(tables, "snapshot_id")));
        json_decref(tables);
        if (done) {
            (void)snprintf(snapshot, ID_SIZE, "%lld", http_number(done, "snapshot_id"));
            json_decref(done);
            return;
        }
        if (strcmp(http_reason(), "CONFLICT") != 0)
            break;
        (void)fprintf(stderr, "again: %s\n", http_message());
    }
    http_give_up();
}

static void say_total(const lake *l, const char *what, const char *at)
{
    json_t *answer = need(ask(l, "Query",
                              json_pack("{s:s, s:s, s:s}", "sql",
                                        "SELECT CAST(count(*) AS VARCHAR),"
                                        " CAST(sum(amount) AS VARCHAR) FROM sales.orders",
                                        "catalog", l->catalog, "at", at)));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    printf("%s: %s orders, %s\n", what, json_string_value(json_array_get(row, 0)),
           json_string_value(json_array_get(row, 1)));
    json_decref(answer);
}

int main(int argc, char **argv)
{
    char loaded[ID_SIZE];
    char corrected[ID_SIZE];
    if (argc != 4) {
        (void)fputs("lake URL CATALOG DAY\n", stderr);
        return EXIT_FAILURE;
    }
    const lake l = {.url = argv[1], .catalog = argv[2], .day = argv[3]};
    prepare(&l);
    load(&l, loaded);
    correct(&l, corrected);
    say_total(&l, "loaded", loaded); /* a snapshot never changes */
    say_total(&l, "corrected", corrected);
    return EXIT_SUCCESS;
}
