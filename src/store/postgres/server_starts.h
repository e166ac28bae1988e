/* server_starts.h - starts of the server of a PostgreSQL store (sql/server_start_schema.sql).
 *
 * The first process that writes behind a start adds a row with a random id, before anything else.
 * What was seen of them is kept outside of the store (identity_marker.h), and compared: a history
 * without the newest start that was seen is an older copy of the server's files. The starts that
 * both have tell where the two histories parted.
 *
 * Threads: pure, or those of the transaction. */
#pragma once

#include "store/engine.h"

/* What a history has, beside what was seen. */
typedef struct tide_starts_check {
    tide_server_starts starts; /* its newest */
    char started[TIDE_HOST_STARTED_SIZE];
    bool is_missing; /* it lacks the newest that was seen */
    int64_t parting; /* ... and parted from the other history with its start of this number */
    /* The start behind the newest that was seen, in the same epoch, and the WAL that it found. */
    int64_t next_number;
    uint64_t next_wal;
} tide_starts_check;

static inline const tide_server_start *tide_server_starts_newest(const tide_server_starts *starts)
{
    return &starts->list[0];
}

/* known: seen in this epoch; is_comparable: and this history should have them. */
TIDE_MUST_CHECK tide_status tide_server_starts_check(tide_tx *tx, const tide_server_starts *known,
                                                     bool is_comparable, int64_t epoch,
                                                     tide_starts_check *out, tide_error *err);

/* The server that answers was started anew. Under the lock of identity_lock. */
TIDE_MUST_CHECK tide_status tide_server_starts_add(tide_tx *tx, const tide_host *host,
                                                   int64_t epoch, tide_starts_check *found,
                                                   tide_error *err);

/* For the evidence of an epoch. The first start that is named is where the histories parted; that
 * of the missing id is named so that other processes which have seen it know what the epoch stands
 * for. */
void tide_server_starts_describe(const tide_server_starts *known, const tide_starts_check *found,
                                 char *out, size_t size);

/* `NUMBER ID NUMBER ID ...`, the newest first; what is malformed ends it. */
void tide_server_starts_parse(tide_server_starts *out, const char *text);
