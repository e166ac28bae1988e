/* import_fields.h - the records of an export file, from their JSON. */
#pragma once

#include "journal/transfer/import_reader.h"
#include "journal/transfer/json_fields.h"

/* How a snapshot lies in the file. */
typedef struct tide_import_extent {
    int64_t len;
    int64_t parts; /* 0: it stands in the record */
} tide_import_extent;

/* Each: TIDE_E_INVALID with words. Unknown members are passed over. */
TIDE_MUST_CHECK tide_status tide_import_read_type(tide_import_type *out, tide_view object,
                                                  tide_arena *arena, tide_error *err);
TIDE_MUST_CHECK tide_status tide_import_read_task(tide_import_task *out, tide_view object,
                                                  tide_arena *arena, tide_error *err);
/* The checksum is read, not compared: the snapshot may follow. */
TIDE_MUST_CHECK tide_status tide_import_read_checkpoint(tide_import_checkpoint *out,
                                                        tide_import_extent *extent,
                                                        tide_view object, tide_arena *arena,
                                                        tide_error *err);

/* A text, or NULL for null. */
TIDE_MUST_CHECK tide_status tide_import_text(const tide_json_field *field, tide_arena *arena,
                                             const char **out, tide_error *err);
/* A whole number from `lowest` (0 or 1) to TIDE_JOURNAL_NUMBER_MAX. */
TIDE_MUST_CHECK tide_status tide_import_number(const tide_json_field *field, int64_t lowest,
                                               int64_t *out, tide_error *err);
/* 64 hexadecimal digits. */
TIDE_MUST_CHECK tide_status tide_import_digest(const tide_json_field *field, tide_checksum *out,
                                               tide_error *err);
/* A time as text; 0 for null. */
TIDE_MUST_CHECK tide_status tide_import_time(const tide_json_field *field, int64_t *out,
                                             tide_error *err);
/* An array of texts, put in order; a repeated one counts once. */
TIDE_MUST_CHECK tide_status tide_import_tags(const tide_json_field *field,
                                             tide_checksum_fields *out, tide_arena *arena,
                                             tide_error *err);
/* An id: 1 to TIDE_JOURNAL_ID_MAX bytes. */
TIDE_MUST_CHECK tide_status tide_import_check_id(const char *what, const char *id, tide_error *err);
