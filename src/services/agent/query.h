/* query.h - one page of one stream, as a part of an answer.
 *
 * The query methods differ in their messages and are alike in what they do: read a position and filters, ask the feed, copy the
 * records' bytes, say how the stream stands. A tide_query_part is what they have in common; eBPF's method has four of them.
 *
 * Sequence form: a start number above 0, or no times. Time form: otherwise; position.after_seq_id goes on with it. Times of requests are Unix
 * seconds. */
#pragma once

#include "services/agent/services.h"
#include "services/api/rpc.h"
#include "tidemark_agent_v1_agent.pb-c.h"

#define AGENT(type_) Tidemark__Agent__V1__##type_
#define AGENT_INIT(type_) TIDEMARK__AGENT__V1__##type_##__INIT

enum { TIDE_QUERY_WAIT_MAX_MS = 60000 };

typedef struct tide_query_part {
    const char *stream;
    uint64_t start_seq_id;
    int64_t start_time; /* Unix seconds */
    int64_t end_time;
    int32_t max_records;
    char **services;
    size_t service_count;
    const AGENT(Position) * position; /* NULL: none */
    const char *trace_id;             /* only records of this trace; NULL: all */
    int64_t room_len; /* bytes of records that there is room for; 0: as many as asked for */
    bool is_left_out; /* not asked for: nothing is read, and nothing is said of it */
} tide_query_part;

/* How many bytes of records this part asks for at most. */
int64_t tide_query_page_len(const tide_query_part *part);

/* TIDE_OK: *answer is to be freed with tide_feed_answer_done. */
TIDE_MUST_CHECK tide_status tide_query_read(const tide_agent_services *services,
                                            const tide_query_part *part, tide_feed_answer *answer,
                                            tide_error *err);

/* The state of a stream behind an answer, as a field of the response. */
TIDE_MUST_CHECK tide_status tide_query_put_state(const tide_agent_services *services,
                                                 tide_buffer *out, uint32_t field,
                                                 const char *stream, const tide_feed_answer *answer,
                                                 tide_error *err);

/* How long this request wants to wait for a first record; 0: not at all. TIDE_E_INVALID: too long. */
TIDE_MUST_CHECK tide_status tide_query_wait(const tide_query_part *part, int64_t *wait_us,
                                            tide_error *err);
