/* snapshot_decode.h - what the files that decode snapshots share (snapshot_record.h). */
#pragma once

#include "replica/snapshot_record.h"

/* TIDE_E_DAMAGED, with the kind of the record and its place. */
TIDE_MUST_CHECK tide_status tide_snapshot_fail_record(const tide_snapshot_decoder *d,
                                                      const char *what, tide_error *err);

/* Pieces; false: they do not stand there, or are larger than they may be. */
bool tide_snapshot_get_number(tide_reader *from, int64_t most, int64_t *out);
bool tide_snapshot_get_int(tide_reader *from, int most, int *out);
bool tide_snapshot_get_bytes(tide_reader *from, size_t most, tide_view *out);
bool tide_snapshot_get_node(tide_reader *from, tide_node_id *out);
bool tide_snapshot_get_flag(tide_reader *from, bool *out);

TIDE_MUST_CHECK tide_status tide_snapshot_read_row(tide_snapshot_decoder *d, tide_reader *from,
                                                   tide_snapshot_row *row, tide_error *err);
