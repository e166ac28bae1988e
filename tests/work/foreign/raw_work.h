/* raw_work.h - plain SQL on tasks and work items: see raw_sql.h.
 *
 * A claim "by the library" is what the library's statement looks like to the database: revision and token rise. On
 * PostgreSQL it also changes the entries of its items; on SQLite triggers open the attempt. */
#pragma once

#include "work/foreign/raw_sql.h"

/* A case of its own: a store with the task "t", running, and a raw connection that ends with the case. */
typedef struct schema_case {
    store_test *t;
    raw_sql raw;
} schema_case;

raw_sql *raw_work_begin(schema_case *c, void **state);
void raw_work_end(schema_case *c);

/* Of task "t" and type "job". */
void add_plainly(raw_sql *raw, const char *id);
void claim_plainly(raw_sql *raw, const char *id, const char *holder);
void claim_by_library(raw_sql *raw, const char *id, int seconds);
/* A pending item, by plain SQL. */
void bring_to(raw_sql *raw, const char *id, const char *status);

int64_t token_of(raw_sql *raw, const char *id);
/* Valid until the next call on raw. */
const char *status_of(raw_sql *raw, const char *id);
