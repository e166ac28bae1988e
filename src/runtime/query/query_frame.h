/* query_frame.h - messages between a daemon and its query processes.
 *
 *     frame     length of type and body (4 bytes, little endian), type (1 byte), body
 *     body      numbers as varints, texts as length and bytes; values as kind and value
 *
 *     daemon  --  OPEN      target, path, library, memory, directories       -->  process
 *     daemon  <--  READY or END                                              --   process
 *     daemon  --  QUERY     text, limits, objects, files                     -->  process
 *     daemon  <--  COLUMNS, ROWS ..., END                                    --   process
 *     daemon  --  NAMES     text             ROWS of three texts, END        <--  process
 *     daemon  --  PARSE     text             END                             <--  process
 *
 * Both ends are the same program, of one installation, so there is no version. A process runs texts
 * of callers and is not trusted: the daemon checks every length and every kind.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/error.h>

#include "base/buffer.h"
#include "base/sql_value.h"
#include "lake/query_sandbox.h"

enum {
    TIDE_QUERY_FRAME_HEAD = 5,        /* bytes before the body */
    TIDE_QUERY_FRAME_MAX = 288 << 20, /* bytes: the longest list of files, and a text */
    TIDE_QUERY_COLUMNS_MAX = 1024,
    TIDE_QUERY_DIRECTORIES_MAX = 64,
};

typedef enum tide_query_frame_type {
    TIDE_QUERY_OPEN = 'O',
    TIDE_QUERY_READY = 'r',
    TIDE_QUERY_QUERY = 'Q',
    TIDE_QUERY_NAMES = 'N',
    TIDE_QUERY_PARSE = 'P',
    TIDE_QUERY_COLUMNS = 'c',
    TIDE_QUERY_ROWS = 'd',
    TIDE_QUERY_END = 'e',
} tide_query_frame_type;

typedef enum tide_query_kind {
    TIDE_QUERY_SQLITE, /* path: the file of a store */
    TIDE_QUERY_LAKE,   /* path: a data directory */
} tide_query_kind;

typedef struct tide_query_setup {
    tide_query_kind kind;
    const char *path;
    const char *library; /* of DuckDB; "": where it usually is */
    int64_t memory_len;
    const char *directories[TIDE_QUERY_DIRECTORIES_MAX]; /* besides path */
    int directory_count;
} tide_query_setup;

/* How a query ended. */
typedef struct tide_query_ending {
    tide_status status;
    tide_view text;
    bool is_cut;           /* status TIDE_E_LIMIT: of rows or bytes */
    bool is_out_of_memory; /* status TIDE_E_LIMIT: of memory */
    bool is_statement;     /* of PARSE */
} tide_query_ending;

/* Begin a frame at the end of the buffer; finish it when its body is there. */
TIDE_MUST_CHECK tide_status tide_query_frame_begin(tide_buffer *out, tide_query_frame_type type,
                                                   size_t *at);
void tide_query_frame_finish(tide_buffer *out, size_t at);

/* The first frame of bytes; *used is 0 while it is not whole. TIDE_E_DAMAGED: longer than max. */
TIDE_MUST_CHECK tide_status tide_query_frame_next(tide_view bytes, size_t max,
                                                  tide_query_frame_type *type, tide_view *body,
                                                  size_t *used, tide_error *err);

TIDE_MUST_CHECK tide_status tide_query_put_text(tide_buffer *out, tide_view text);
TIDE_MUST_CHECK tide_status tide_query_put_value(tide_buffer *out, const tide_sql_value *value);
TIDE_MUST_CHECK tide_status tide_query_read_text(tide_reader *reader, tide_view *out);
TIDE_MUST_CHECK tide_status tide_query_read_value(tide_reader *reader, tide_sql_value *out);

/* Whole frames. Failures of encoding are TIDE_E_NOMEM and TIDE_E_LIMIT, of decoding TIDE_E_DAMAGED.
 * Decoded texts are in the arena, since C wants their end. */
TIDE_MUST_CHECK tide_status tide_query_encode_open(tide_buffer *out, const tide_query_setup *setup);
TIDE_MUST_CHECK tide_status tide_query_decode_open(tide_view body, struct tide_arena *arena,
                                                   tide_query_setup *out);
TIDE_MUST_CHECK tide_status tide_query_encode_text(tide_buffer *out, tide_query_frame_type type,
                                                   const char *text);
TIDE_MUST_CHECK tide_status tide_query_encode_query(tide_buffer *out,
                                                    const tide_lake_sandbox_query *query);
TIDE_MUST_CHECK tide_status tide_query_decode_query(tide_view body, struct tide_arena *arena,
                                                    tide_lake_sandbox_query *out);
TIDE_MUST_CHECK tide_status tide_query_encode_end(tide_buffer *out,
                                                  const tide_query_ending *ending);
TIDE_MUST_CHECK tide_status tide_query_decode_end(tide_view body, tide_query_ending *out);
