/* demo_sim.h - simulated agent of the demonstration: its records as a function of its clock.
 *
 * Time passes in ticks. With each tick every stream gets a few records, whose contents follow from
 * agent, stream and number: nothing is stored, and a repeated request gets the same records. It
 * responds as a real agent (tidemark.agent.v1 with states), without digests.
 *
 *     numbers    1 .. stable (readable) .. head (assigned); stable < head only before a wipe
 *     oldest     the last TIDE_SIM_KEEP_TICKS ticks are readable
 *     late       spans of some ticks are left out for a while: the reader finds a gap, requests it
 *                again, and is refused until then
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "colony/type.h"

enum {
    TIDE_SIM_STREAMS = TIDE_STREAM_MEMORY_PROFILE + 1, /* the first kinds of tide_stream_kind */
    TIDE_SIM_NAME_SIZE = 32,
    TIDE_SIM_KEEP_TICKS = 600,
    TIDE_SIM_PAGE = 1000, /* records of an answer at most */
};

typedef struct tide_sim {
    char name[TIDE_SIM_NAME_SIZE];
    char session[37];
    int number;    /* of the fleet: varies what is sent */
    int64_t tick;  /* that have passed */
    int64_t ahead; /* ticks whose numbers were assigned and whose records are not readable yet */
    bool is_late;  /* spans of these ticks are not to be had: */
    int64_t late_first;
    int64_t late_last;
} tide_sim;

/* What is asked of a stream. */
typedef struct tide_sim_question {
    tide_stream_kind kind;
    int64_t start_seq; /* behind this number */
    int64_t last_seq;  /* up to this one; 0: no bound */
    int64_t max_records;
} tide_sim_question;

/* The clock that goes with it. */
typedef struct tide_sim_time {
    int64_t now_ms;
    int64_t tick_us; /* length of a tick */
} tide_sim_time;

int64_t tide_sim_head(const tide_sim *sim, tide_stream_kind kind);

/* The request of a query method, as it came. TIDE_E_INVALID: it is none, or of a stream that it
 * does not have. */
TIDE_MUST_CHECK tide_status tide_sim_read_question(tide_sim_question *out, const char *path,
                                                   tide_view request, tide_error *err);
/* The whole answer to it. TIDE_E_UNAVAILABLE: what it begins with is late. */
TIDE_MUST_CHECK tide_status tide_sim_respond(const tide_sim *sim, const tide_sim_question *question,
                                             const tide_sim_time *time, tide_buffer *out,
                                             tide_error *err);
/* ListStreamsResponse. */
TIDE_MUST_CHECK tide_status tide_sim_list(const tide_sim *sim, const tide_sim_time *time,
                                          tide_buffer *out, tide_error *err);

/* A record of a stream into a batch; demo_sim_record.c. */
TIDE_MUST_CHECK tide_status tide_sim_put_record(tide_record_batch *batch, const tide_sim *sim,
                                                int64_t seq, int64_t at_ms);
/* The names of the frames of its profiles; of other streams nothing. */
TIDE_MUST_CHECK tide_status tide_sim_put_frames(tide_stream_kind kind, tide_buffer *out,
                                                tide_error *err);
