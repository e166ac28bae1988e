/* work_calls.h - tidemark task, work, checkpoint and schedule, called as a script calls them; and what the tables hold.
 *
 *     tide_json_node *item = work_object(t, "$T work show %s --json", id);
 *     work_refuses(t, 4, "lease", "$T work finish %s --token %lld", id, token);
 *
 * A script runs in the case's directory, with $T the program. WORK_EVERY_ENGINE lists a case for both engines; the store is
 * there already, with the task "t".
 *
 * Texts live until the end of the case. Threads: one. */
#pragma once

#include "cli/cli_run.h"

int work_setup(void **state);
int work_teardown(void **state);

#define WORK_TEST(function, engine)                                                                \
    {                                                                                              \
#function " (" engine ")", function, work_setup, work_teardown, (void *)(engine)           \
    }
#define WORK_TEST_SQLITE(function) WORK_TEST(function, "sqlite")
#define WORK_EVERY_ENGINE(function) WORK_TEST(function, "sqlite"), WORK_TEST(function, "postgres")

#define WORK_FORMAT(at) __attribute__((format(printf, (at), (at) + 1)))

/* Run a script; any end. */
cli_result work_run(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* It ends with 0; what it printed. */
const char *work_ok(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* ... without the line break at its end. */
const char *work_line(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* It ends with 0 and prints exactly one JSON object; to be given back (json_decref). */
tide_json_node *work_object(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* One object per line, as an array; any number; to be given back. */
tide_json_node *work_objects(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* It is refused: this exit code, nothing on stdout, words on stderr that hold `part`, and no table has changed. */
void work_refuses(cli_fixture *t, int exit_code, const char *part, const char *format, ...)
    WORK_FORMAT(4);

/* In the background; stdout is a pipe (child->out_fd), stderr goes to the file "err". */
void work_start(cli_fixture *t, proc *child, const char *format, ...) WORK_FORMAT(3);
/* The next line it prints, without the break; "" at its end. */
const char *work_read_line(cli_fixture *t, proc *child);
/* It ends with this code; everything else it printed. */
const char *work_finish(cli_fixture *t, proc *child, int exit_code);

/* Everything in the tables, as text. */
const char *work_dump(cli_fixture *t);
/* The rows of a query, one per line, columns parted by '|'; and the first row alone. */
const char *work_rows(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
const char *work_query(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
/* Change something behind the program's back. */
void work_sql(cli_fixture *t, const char *sql);

/* An item of task "t"; options as they follow. Its id. */
const char *work_add(cli_fixture *t, const char *options);

typedef struct work_held {
    const char *id;
    long long token;
    long long attempt;
} work_held;
/* Claim one; it is there. */
work_held work_claim(cli_fixture *t, const char *options);

/* A member of `work show ID --json`; numbers as text, null as "null". */
const char *work_member(cli_fixture *t, const char *id, const char *key);
#define assert_member(t, id, key, want) assert_string_equal((want), work_member((t), (id), (key)))

/* The member of an object as text: a text itself, everything else as compact JSON. */
const char *work_value(cli_fixture *t, const tide_json_node *object, const char *key);

/* Formatted, kept until the end of the case. */
const char *work_text(cli_fixture *t, const char *format, ...) WORK_FORMAT(2);
