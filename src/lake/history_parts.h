/* history_parts.h - what the files of the history checker share. See history.h. */
#pragma once

#include "lake/history.h"
#include "lake/state.h"

/* A commit of the catalog that is looked at. */
typedef struct tide_line_point {
    int64_t snapshot_id;
    int64_t parent_id;
    tide_lake_digest recorded;
    tide_lake_digest begun; /* of rows that begin here, less those that end here */
    bool has_state;         /* not expired */
    int64_t next_object;    /* as its snapshot says */
    int64_t next_file;
    int64_t object_max; /* of rows that begin here */
    int64_t file_max;
} tide_line_point;

typedef struct tide_history {
    tide_tx *tx;
    tide_lake_finding_fn *fn;
    void *arg;
    tide_lake_checked checked;

    /* The catalog under way. */
    int64_t catalog_id;
    int64_t parent_id;
    int64_t fork_snapshot;
    int64_t created_snapshot;
    bool is_dropped;
    bool has_head;
    int64_t head;
    int64_t head_parent;
    tide_lake_digest head_digest;

    tide_line_point *points; /* ascending */
    int64_t count;
} tide_history;

/* history.c */
void tide_history_tell(tide_history *h, const char *rule, int64_t snapshot, const char *format, ...)
    TIDE_PRINTF(4, 5);

/* history_line.c: reads the commits into points; rules order, linear. */
tide_status tide_history_read_line(tide_history *h, tide_error *err);
/* The first point at or behind the snapshot; count: none. */
int64_t tide_history_find(const tide_history *h, int64_t snapshot);

/* history_deeds.c: rule conflict. */
tide_status tide_history_check_deeds(tide_history *h, tide_error *err);

/* A row with a life, as tide_history_each_row gives it. */
typedef struct tide_history_row {
    tide_lake_kind kind;
    int64_t id;
    int64_t begin;
    int64_t end; /* 0: alive */
    tide_lake_digest digest;
} tide_history_row;
typedef tide_status tide_history_row_fn(void *arg, const tide_history_row *row, tide_error *err);
