/* duckdb_rig.h - a DuckDB sink with its SQLite store on a virtual clock, fed with answers as agents give them. */
#pragma once

#include <tidemark/tidemark.h>

#include "colony/settle_fixture.h"
#include "colony/sink.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/tempdir.h"

typedef struct duckdb_rig {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX]; /* of the DuckDB file */
    virtual_env clock;
    tide_store *store;
    tide_sink *sink;
    tide_position at; /* as a poller keeps it: held holes age in it */
    bool has_at;
    tide_error err;
} duckdb_rig;

int duckdb_rig_setup(void **state);
int duckdb_rig_teardown(void **state);
/* Close the sink and open it again: what a new process would see. */
void duckdb_rig_reopen(duckdb_rig *r);
/* Where libduckdb.so lies: into the environment, unless it is there already. */
void duckdb_rig_place(void);
tide_store *duckdb_rig_open_store(const char *path, tide_env *env, tide_error *err);

/* Settle an answer to what was asked above start, and apply it; the change is the caller's (tide_change_done). TIDE_NONE: nothing to apply. */
tide_status duckdb_rig_settle(duckdb_rig *r, const char *agent, const char *data_type,
                              int64_t start, const tide_reply *reply, tide_change *out);
tide_status duckdb_rig_poll_bytes(duckdb_rig *r, const char *agent, const char *data_type,
                                  int64_t start, tide_view bytes);
/* Spans; ends the answer. */
tide_status duckdb_rig_poll(duckdb_rig *r, const char *agent, int64_t start, answer *a);
/* first..last of a session, as a foreign agent tells them. */
void duckdb_rig_page(duckdb_rig *r, const char *agent, const char *session, int64_t first,
                     int64_t last);
/* Something else moved it: load it again for the next page. */
void duckdb_rig_forget(duckdb_rig *r);
void duckdb_rig_load(duckdb_rig *r, const char *agent, const char *data_type, tide_position *out);
/* The first column of the first row of a query, as a number. */
int64_t duckdb_rig_number(duckdb_rig *r, const char *sql);
/* All cells, `|` behind each. */
void duckdb_rig_text(duckdb_rig *r, const char *sql, char *out, size_t size);
/* Ledgers balance, rows are as many as are counted, and none is there twice, for every position of every agent. */
void duckdb_rig_check(duckdb_rig *r);
