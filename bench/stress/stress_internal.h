/* stress_internal.h - a request of a stress run, and how it is asked. See stress.h. */
#pragma once

#include "bench/stress/stress.h"
#include "lake/catalog.h"

typedef enum tide_stress_act {
    TIDE_STRESS_APPEND,
    TIDE_STRESS_CREATE_TABLE,
    TIDE_STRESS_DROP_TABLE,
    TIDE_STRESS_ALTER_TABLE,
    TIDE_STRESS_CREATE_SCHEMA,
    TIDE_STRESS_DROP_SCHEMA,
    TIDE_STRESS_SEVERAL, /* a schema, a table in it, a file, in one change */
    TIDE_STRESS_CREATE_CATALOG,
    TIDE_STRESS_FORK,
    TIDE_STRESS_ACTS,
} tide_stress_act;

/* Everything that is needed to ask again. */
typedef struct tide_stress_request {
    char key[TIDE_STRESS_NAME_MAX];
    tide_stress_act act;
    char catalog[TIDE_STRESS_NAME_MAX]; /* of a fork: its parent */
    char name[TIDE_STRESS_NAME_MAX];    /* table, schema, new catalog */
} tide_stress_request;

typedef struct tide_stress_answer {
    int64_t catalog_id;
    int64_t snapshot_id;
    int tries;
} tide_stress_answer;

/* stress_ask.c: one attempt. is_again: an earlier attempt was not answered. */
TIDE_MUST_CHECK tide_status tide_stress_ask(tide_lake *lake, const tide_stress *run,
                                            const tide_stress_request *request, bool is_again,
                                            tide_stress_answer *out, tide_error *err);

/* The next word of a line, behind blanks; *at moves behind it. False: there is none, or it is too long. */
bool tide_stress_word(const char **at, char out[TIDE_STRESS_NAME_MAX]);
/* The same, a whole number. */
bool tide_stress_number(const char **at, int64_t *out);

/* The line of a request in a log, without its letter, and back. False: not one. */
void tide_stress_line(const tide_stress_request *request, char out[512]);
bool tide_stress_parse(const char *line, tide_stress_request *out);
