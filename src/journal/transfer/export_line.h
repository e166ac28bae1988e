/* export_line.h - an export under way: lines of JSON that are written and counted into the digest. */
#pragma once

#include <tidemark/identity.h>
#include <tidemark/journal.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/digest.h"
#include "base/text/json.h"
#include "journal/check/checksum.h"
#include "journal/checkpoint_iter.h"
#include "journal/page.h"

typedef struct tide_exporter {
    tide_store *store;
    const char *task_id; /* NULL: everything */
    tide_journal_write_fn *write;
    void *arg;
    tide_journal_progress_fn *progress;
    tide_sha256 sha;
    tide_buffer line;
    tide_arena arena; /* of one row */
    tide_journal_transfer counts;
    int64_t total;
    int64_t now_us;
    tide_identity identity;
    tide_lineage lineage; /* of the task */
} tide_exporter;

/* Write the line, which the writer has finished, and, unless it is the last, count it into the digest. */
TIDE_MUST_CHECK tide_status tide_export_send(tide_exporter *e, tide_json *json, bool is_last,
                                             tide_error *err);
tide_status tide_export_fail_line(tide_status status, tide_error *err);

void tide_export_put_text(tide_json *json, const char *key, const char *text);
void tide_export_put_number(tide_json *json, const char *key, int64_t number);
void tide_export_put_time(tide_json *json, const char *key, int64_t us); /* 0 is no time */

/* {"kind":{ ... and }} */
void tide_export_open_record(tide_json *json, tide_buffer *line, const char *kind);
TIDE_MUST_CHECK tide_status tide_export_close_record(tide_exporter *e, tide_json *json,
                                                     bool is_last, tide_error *err);

/* export_tasks.c: registered types; tasks, all or those of the lineage. */
TIDE_MUST_CHECK tide_status tide_export_types(tide_exporter *e, tide_error *err);
TIDE_MUST_CHECK tide_status tide_export_tasks(tide_exporter *e, tide_error *err);

/* A checkpoint as it goes into an export: text made valid, sealed.
 *
 * Rows of plain SQL have no checksum and may hold broken UTF-8. In an export they get a checksum over what is written,
 * and what is written is valid: broken characters are replaced, as everywhere (utf8.h). Sealed rows go as they are. */

typedef struct tide_export_row {
    tide_checksum_fields fields;
    tide_checksum checksum;
} tide_export_row;

/* The row was read with its snapshot and is not damaged. Texts are borrowed from the row or put into the arena. */
TIDE_MUST_CHECK tide_status tide_export_row_make(tide_export_row *out, const tide_journal_row *row,
                                                 tide_arena *arena, tide_error *err);
