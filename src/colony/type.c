#include "colony/type.h"

#include <assert.h>

#define SERVICES "/tidemark.agent.v1."
#define HOUR_US INT64_C(3600000000)
#define SECOND_US INT64_C(1000000)

#define TYPE_ROW(kind, of_table, method, start, max, position, max_seq, session, state, metric,    \
                 hours, seconds, order)                                                            \
    [TIDE_STREAM_##kind] = {                                                                       \
        .table = (of_table),                                                                       \
        .path = SERVICES method,                                                                   \
        .start_field = (start),                                                                    \
        .max_field = (max),                                                                        \
        .position_field = (position),                                                              \
        .max_seq_field = (max_seq),                                                                \
        .session_field = (session),                                                                \
        .state_field = (state),                                                                    \
        .metric_type = (metric),                                                                   \
        .keep_us = (hours)*HOUR_US,                                                                \
        .interval_us = (seconds)*SECOND_US,                                                        \
        .priority = (order),                                                                       \
    },
static tide_colony_type ROWS[TIDE_STREAM_COUNT] = {TIDE_COLONY_TYPES(TYPE_ROW)};
#undef TYPE_ROW

#define ROW_IS_THERE(kind, table, method, ...)                                                     \
    static_assert(sizeof(table) > 1 && sizeof(method) > 1, "a row of " table);
TIDE_COLONY_TYPES(ROW_IS_THERE)
#undef ROW_IS_THERE

/* The streams' table is another file's: its addresses are no constants. Done before anybody can ask. */
__attribute__((constructor)) static void join_streams(void)
{
    for (int i = 0; i < TIDE_STREAM_COUNT; i++)
        ROWS[i].stream = tide_stream_type_of((tide_stream_kind)i);
}

const tide_colony_type *tide_colony_type_of(tide_stream_kind kind)
{
    assert((int)kind >= 0 && kind < TIDE_STREAM_COUNT);
    return &ROWS[kind];
}

const tide_colony_type *tide_colony_type_find(const char *data_type)
{
    const tide_stream_type *stream = tide_stream_type_find(data_type);
    return &ROWS[stream ? stream->kind : TIDE_STREAM_OPAQUE];
}
