/* upload_buffer.h - rows that come over the network, in a file until DuckDB has read them.
 *
 *     <data dir>/<uuid>.new/input
 *
 * What a process that died leaves behind is found by cleanup, as other orphans (lake/expire.h).
 *
 * Threads: one at a time. Limits: TIDE_SPOOL_LEN_MAX bytes. */
#pragma once

#include <tidemark/env.h>

#include "lake/data.h"

#define TIDE_SPOOL_LEN_MAX (INT64_C(16) << 30)

enum { TIDE_SPOOL_PATH_SIZE = 4400, TIDE_SPOOL_HEAD = 256 };

typedef struct tide_spool {
    char dir[TIDE_SPOOL_PATH_SIZE]; /* "": none */
    char path[TIDE_SPOOL_PATH_SIZE + 8];
    int fd; /* -1: closed */
    int64_t len;
    char head[TIDE_SPOOL_HEAD]; /* its first bytes: they may say what it is */
    size_t head_len;
} tide_spool;

/* An empty file. */
TIDE_MUST_CHECK tide_status tide_spool_open(tide_spool *out, const char *data_dir, tide_env *env,
                                            tide_error *err);
/* TIDE_E_LIMIT, TIDE_E_FULL, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_spool_write(tide_spool *spool, tide_view bytes, tide_error *err);
/* It is whole: DuckDB may read it. */
TIDE_MUST_CHECK tide_status tide_spool_finish(tide_spool *spool, tide_error *err);
/* Remove it. Fits TIDE_CLEANUP on {.fd = -1}. */
void tide_spool_done(tide_spool *spool);

/* "", "parquet", "csv", "json" of a request, where "" is what the first bytes say. TIDE_E_INVALID: another word. */
TIDE_MUST_CHECK tide_status tide_spool_format(tide_lake_format *out, const tide_spool *spool,
                                              const char *word, tide_error *err);
