/* snapshot_writing.h - a snapshot being written, as the files that write it see it (snapshot_record.h). */
#pragma once

#include "replica/snapshot_parts.h"

typedef struct tide_snapshot_writing {
    tide_foreign_tx *tx;
    tide_snapshot_writer *to;
    const tide_snapshot_maker *maker;
    tide_table *tables;
    int table_count;
    tide_buffer record;
    tide_origin_mark *origins;
    int origin_count;
    bool has_conflicts;
    int64_t rows_total;
    tide_snapshot_end counted;
} tide_snapshot_writing;

/* Write the record that was put into w->record. */
TIDE_MUST_CHECK tide_status tide_snapshot_write_record(tide_snapshot_writing *w, tide_status put,
                                                       tide_error *err);
/* False: no node's id. */
bool tide_snapshot_write_node(tide_node_id *out, tide_view bytes);
/* A table's rows and their sum. */
TIDE_MUST_CHECK tide_status tide_snapshot_write_rows(tide_snapshot_writing *w, int index,
                                                     tide_error *err);
