/* import_reader.h - the export file, read piece by piece; and the older document.
 *
 * An export is text, one JSON object per line (version 1):
 *
 *     {"format":"tidemark-journal","version":1,"session":S,"epoch":E,"head":H,"exported_at":T,
 *      "task":ID or null,"checkpoints":N}
 *     {"type":{"checkpoint_type":..,"is_resumable":..,"description":..}}         registered ones
 *     {"task":{"task_id":..,"title":..,"status":..,"metadata":..,"created_at":..,"completed_at":..,
 *              "forked_from":..,"fork_point":..,"last_sequence":..}}
 *     {"checkpoint":{"global_sequence":..,"sequence_number":..,"checkpoint_id":..,"task_id":..,
 *                    "work_item_id":..,"checkpoint_type":..,"trigger":..,"created_at":..,"message":..,
 *                    "metadata":..,"tags":[..],"origin":{"session":..,"global_sequence":..,
 *                    "sequence_number":..},"annotations":[..],"checksum":HEX,"snapshot_len":L,
 *                    "snapshot":TEXT or "parts":K}}                               by global_sequence
 *     {"part":TEXT}                                                               K of them
 *     {"end":{"tasks":..,"checkpoints":..,"sha256":HEX of all bytes before this line}}
 *
 * Texts stand as they are, as JSON strings: metadata and snapshot are not parsed. N is what there was when the export
 * began; the counts at the end are what was written. A line is at most TIDE_EXPORT_LINE_MAX long; larger snapshots are
 * split into parts.
 *
 * The older document is one JSON object: {"checkpoints":[{...}, ...], "global_sequence":n, ...}. Its members may have several
 * names (import_legacy.c). It has no checksums; its numbers may overlap between sessions.
 *
 * The reader checks everything that can be checked without a store: grammar, version, order, limits, the checksum of
 * each checkpoint, the counts and the digest at the end. Failures: TIDE_E_DAMAGED (truncated, altered), TIDE_E_INVALID
 * (no export), TIDE_E_NEWER, and what the source says.
 *
 * Memory: one line, and what the arena of the caller holds: a record with its snapshot. Threads: one at a time. */
#pragma once

#include <tidemark/journal.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "journal/check/checksum.h"

#define TIDE_EXPORT_FORMAT "tidemark-journal"

enum {
    TIDE_EXPORT_VERSION = 1,
    TIDE_EXPORT_PART_LEN = 1 << 20,   /* bytes of a snapshot, or of a part of it, on one line */
    TIDE_EXPORT_LINE_MAX = 32 << 20,  /* bytes of a line */
    TIDE_IMPORT_VALUE_MAX = 64 << 20, /* bytes of one checkpoint of the older document */
    TIDE_IMPORT_TAGS_MAX = 1000,      /* tags of one checkpoint */
    TIDE_IMPORT_ROOM_MAX = 192 << 20, /* what an arena needs for one record */
};

typedef enum tide_import_kind {
    TIDE_IMPORT_HEADER,
    TIDE_IMPORT_TYPE,
    TIDE_IMPORT_TASK,
    TIDE_IMPORT_CHECKPOINT,
    TIDE_IMPORT_END,
} tide_import_kind;

typedef struct tide_import_header {
    bool is_legacy;
    const char *session; /* NULL: unknown; lives as long as the reader */
    int64_t head;        /* 0: not known yet; see end */
    int64_t checkpoints; /* about */
} tide_import_header;

typedef struct tide_import_type {
    const char *type;
    bool is_resumable;
    const char *description;
} tide_import_type;

typedef struct tide_import_task {
    const char *task_id;
    const char *title;
    const char *status;
    const char *metadata; /* NULL: none */
    int64_t created_at_us;
    int64_t completed_at_us; /* 0: not */
    const char *forked_from; /* NULL: no fork */
    const char *fork_point;
    int64_t last_sequence;
} tide_import_task;

typedef struct tide_import_checkpoint {
    int64_t global_sequence;
    int64_t sequence_number;
    tide_checksum_fields fields; /* with the whole snapshot; tags in order */
    tide_checksum checksum;
    int64_t created_at_us;      /* 0: unknown */
    const char *origin_session; /* NULL: unknown */
    int64_t origin_global;
    int64_t origin_number;
    const char *annotations; /* a JSON array, checked; NULL: none */
} tide_import_checkpoint;

typedef struct tide_import_end {
    int64_t head;
} tide_import_end;

/* Texts are in the caller's arena. */
typedef struct tide_import_record {
    tide_import_kind kind;
    union {
        tide_import_header header;
        tide_import_type type;
        tide_import_task task;
        tide_import_checkpoint checkpoint;
        tide_import_end end;
    } as;
} tide_import_record;

typedef struct tide_import_reader {
    tide_journal_read_fn *read;
    void *arg;
    char input[65536];
    size_t input_at;
    size_t input_len;
    bool is_drained; /* the source has no more */
    tide_buffer line;
    tide_buffer scratch;
    int64_t line_number;
    tide_sha256 sha; /* of the lines so far */
    tide_import_header header;
    tide_import_kind last; /* of the records so far */
    bool is_begun;
    bool is_ended;
    int64_t tasks;
    int64_t checkpoints;
    int64_t last_global;
    char session[64];
    size_t pushed_at; /* bytes of the beginning that were taken, and belong to the older document */
    size_t pushed_len;
    int legacy_state;
} tide_import_reader;

TIDE_MUST_CHECK tide_status tide_import_reader_init(tide_import_reader *reader,
                                                    tide_journal_read_fn *read, void *arg,
                                                    tide_error *err);
/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_import_reader_done(tide_import_reader *reader);

/* The next record: the header first, the end last, then TIDE_NONE. */
TIDE_MUST_CHECK tide_status tide_import_next(tide_import_reader *reader, tide_import_record *record,
                                             tide_arena *arena, tide_error *err);

/* ---- between the two formats ---- */

/* The next byte without taking it: 0..255, or -1 at the end. */
TIDE_MUST_CHECK tide_status tide_import_peek(tide_import_reader *reader, int *byte,
                                             tide_error *err);
void tide_import_take(tide_import_reader *reader);
/* The next record of the older document. */
TIDE_MUST_CHECK tide_status tide_import_next_legacy(tide_import_reader *reader,
                                                    tide_import_record *record, tide_arena *arena,
                                                    tide_error *err);
/* Fail with TIDE_E_DAMAGED and the line; err may hold the cause already. */
TIDE_MUST_CHECK tide_status tide_import_damaged(const tide_import_reader *reader, tide_error *err,
                                                const char *format, ...) TIDE_PRINTF(3, 4);
