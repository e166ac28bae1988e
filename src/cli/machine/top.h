/* top.h - what `tidemark top` shows, apart from how it comes onto a screen.
 *
 *     source      where figures come from: the store that is opened here, or a service that is asked
 *     snapshot    all of them at one moment: fleet, gaps, work, store
 *     frame       a snapshot as lines of text, as many as there is room for
 *
 * Threads: a source belongs to one thread; a snapshot may be handed over. */
#pragma once

#include <limits.h>

#include "cli/colony/colony_store.h"

enum {
    TIDE_TOP_WORK_MAX = 200, /* rows of work: type and status */
    TIDE_TOP_GAPS_MAX = 500, /* gaps that are shown */
    TIDE_TOP_NAME_MAX = 128,
    TIDE_TOP_LINES_MAX = 100000,
};

/* ---- source ---- */

typedef struct tide_top_source {
    tide_cli *cli;
    tide_env *env;
    tide_cli_colony colony;
    bool is_open;
} tide_top_source;

/* ---- snapshot ---- */

typedef struct tide_top_work {
    char work_type[TIDE_TOP_NAME_MAX];
    char status[16];
    int64_t count;
    double mean_age_s;
} tide_top_work;

typedef struct tide_top_snapshot {
    int64_t taken_us; /* wall clock */
    int64_t took_us;
    COLONY(FleetResponse) * fleet;
    COLONY(ListGapsResponse) * gaps; /* open ones */
    tide_top_work work[TIDE_TOP_WORK_MAX];
    int work_count;
    int64_t active_leases;
    int64_t stale_leases;
    bool has_work;       /* it is known */
    char place[256];     /* which store or service, without passwords */
    int64_t store_bytes; /* -1: not known, as those below */
    int64_t log_bytes;
    int64_t free_bytes;
} tide_top_snapshot;

/* ---- frame ---- */

typedef enum tide_top_sort { /* as --sort lists them */
                             TIDE_TOP_BY_AGENT,
                             TIDE_TOP_BY_BEHIND,
                             TIDE_TOP_BY_LAG,
                             TIDE_TOP_BY_LOSS,
                             TIDE_TOP_BY_GAPS,
                             TIDE_TOP_SORTS,
} tide_top_sort;

typedef enum tide_top_pane {
    TIDE_TOP_ALL,
    TIDE_TOP_FLEET,
    TIDE_TOP_GAPS,
    TIDE_TOP_WORK,
    TIDE_TOP_STORE,
} tide_top_pane;

typedef struct tide_top_view {
    tide_top_sort sort;
    bool is_reversed;
    tide_top_pane pane;
    int rows;  /* INT_MAX: as many as there are */
    int first; /* rows of the pane (of the fleet where all are shown) that are above the screen */
} tide_top_view;

/* Lines of text, each with a style. Texts are clean: no control characters. */
typedef struct tide_top_frame {
    char *text; /* lines end with \n */
    size_t len;
    tide_cli_style *styles;
    int count;
    int capacity;
    int more; /* rows below the screen: how far first may still rise */
    FILE *file;
} tide_top_frame;

/* TIDE_E_NOMEM. To be given back in any case. */
TIDE_MUST_CHECK tide_status tide_top_draw(tide_top_frame *out, const tide_top_snapshot *snapshot,
                                          const tide_top_view *view, tide_error *err);
void tide_top_frame_done(tide_top_frame *frame);
