/* export_row.h - a checkpoint as it goes into an export: text made valid, sealed.
 *
 * Rows of plain SQL have no checksum and may hold broken UTF-8. In an export they get a checksum over what is written,
 * and what is written is valid: broken characters are replaced, as everywhere (utf8.h). Sealed rows go as they are. */
#pragma once

#include "journal/check/checksum.h"
#include "journal/page.h"

typedef struct tide_export_row {
    tide_checksum_fields fields;
    tide_checksum checksum;
} tide_export_row;

/* The row was read with its snapshot and is not damaged. Texts are borrowed from the row or put into the arena. */
TIDE_MUST_CHECK tide_status tide_export_row_make(tide_export_row *out, const tide_journal_row *row,
                                                 tide_arena *arena, tide_error *err);
