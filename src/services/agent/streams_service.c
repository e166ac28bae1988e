/* streams_service.c - which streams there are, and waiting for news of any of them.
 *
 * A reader of many streams waits with one call, whose question is what it has seen: heads by name. It is looked at when something
 * was committed, and answered with all streams as soon as anything differs. However many wait: each round of looks reads the heads once, and
 * encodes the answer once. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "services/agent/query.h"
#include "services/api/messages.h"

#define SERVICE "/tidemark.agent.v1.AgentService"

/* ---- all of them ---- */

typedef struct stream_list {
    const tide_agent_services *services;
    tide_buffer out;
    char session[37];
} stream_list;

static void list_done(stream_list *list)
{
    tide_buffer_done(&list->out);
}

static tide_status put_stream(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    stream_list *list = arg;
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = stream->name,
                                       .start_seq = stream->head_seq, .max_records = 1};
    tide_feed_answer state = {0};
    TIDE_TRY(tide_feed_read(list->services->feed, &request, &state, err));
    memcpy(list->session, state.session, sizeof list->session);
    const tide_status status =
        tide_query_put_state(list->services, &list->out, 1, stream->name, &state, err);
    tide_feed_answer_done(&state);
    return status;
}

static tide_status encode_all(const tide_agent_services *services, tide_buffer *out,
                              tide_error *err)
{
    TIDE_CLEANUP(list_done) stream_list list = {.services = services};
    tide_buffer_init(&list.out, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_feed_list(services->feed, put_stream, &list, err));
    AGENT(ListStreamsResponse) rest = AGENT_INIT(LIST_STREAMS_RESPONSE);
    rest.session_id = list.session;
    rest.agent = tide_rpc_borrow(services->name);
    TIDE_TRY(tide_rpc_pack(&list.out, &rest.base, err));
    const tide_buffer spare = *out;
    *out = list.out;
    list.out = spare;
    return TIDE_OK;
}

static tide_status answer_all(tide_call *call, const tide_agent_services *services, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(encode_all(services, &out, err));
    tide_call_respond(call, tide_buffer_view(&out));
    return TIDE_OK;
}

static void run_streams(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_error err = {0};
    const tide_status status = answer_all(call, arg, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}

/* ---- heads ---- */

typedef struct stream_head {
    char name[TIDE_FEED_NAME_MAX + 1];
    uint64_t seq;
} stream_head;

typedef struct stream_heads {
    stream_head list[TIDE_FEED_STREAMS_MAX];
    size_t count;
} stream_heads;

static tide_status keep_head(void *arg, tide_view stream, int64_t head_seq, tide_error *err)
{
    stream_heads *heads = arg;
    if (heads->count == TIDE_FEED_STREAMS_MAX || stream.len > TIDE_FEED_NAME_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d streams", TIDE_FEED_STREAMS_MAX);
    stream_head *to = &heads->list[heads->count++];
    memcpy(to->name, stream.ptr, stream.len);
    to->name[stream.len] = '\0';
    to->seq = (uint64_t)head_seq;
    return TIDE_OK;
}

static tide_status look_at_heads(const tide_agent_services *services, stream_heads *heads,
                                 tide_error *err)
{
    heads->count = 0;
    return tide_feed_heads(services->feed, keep_head, heads, err);
}

static bool was_seen(const AGENT(WatchStreamsRequest) * request, const stream_head *head,
                     size_t likely_at)
{
    /* Readers repeat the list in its own order. */
    if (likely_at < request->n_seen && strcmp(request->seen[likely_at]->stream, head->name) == 0)
        return request->seen[likely_at]->head_seq_id == head->seq;
    for (size_t i = 0; i < request->n_seen; i++)
        if (strcmp(request->seen[i]->stream, head->name) == 0)
            return request->seen[i]->head_seq_id == head->seq;
    return false;
}

static bool has_news(const tide_agent_services *services,
                     const AGENT(WatchStreamsRequest) * request, const stream_heads *heads)
{
    tide_identity identity;
    const char *session = tide_rpc_text(request->session_id);
    tide_store_identity(tide_feed_store(services->feed), &identity);
    if (session && strcmp(session, identity.session_id) != 0)
        return true;
    for (size_t i = 0; i < heads->count; i++)
        if (!was_seen(request, &heads->list[i], i))
            return true;
    return false;
}

/* ---- the board ---- */

struct tide_streams_board {
    uint64_t heads_round; /* of the waiter, in which they were looked at */
    stream_heads heads;
    uint64_t answer_round;
    tide_buffer answer;
};

tide_status tide_streams_board_new(tide_streams_board **out, tide_error *err)
{
    TIDE_NEW(tide_streams_board, board, err);
    tide_buffer_init(&board->answer, TIDE_RPC_RESPONSE_MAX);
    *out = board;
    return TIDE_OK;
}

void tide_streams_board_free(tide_streams_board *board)
{
    if (!board)
        return;
    tide_buffer_done(&board->answer);
    free(board);
}

/* ---- waiting ---- */

/* Parked with its call, whose memory holds the request. */
typedef struct watching {
    const tide_agent_services *services;
    const AGENT(WatchStreamsRequest) * request;
} watching;

/* TIDE_NONE: nothing is new. */
static tide_status look_again(tide_call *call, const watching *w, bool is_over, tide_error *err)
{
    tide_streams_board *board = w->services->board;
    const uint64_t round = tide_long_poll_round(w->services->waiter);
    if (board->heads_round != round) {
        TIDE_TRY(look_at_heads(w->services, &board->heads, err));
        board->heads_round = round;
    }
    if (!is_over && !has_news(w->services, w->request, &board->heads))
        return TIDE_NONE;
    if (board->answer_round != round) {
        TIDE_TRY(encode_all(w->services, &board->answer, err));
        board->answer_round = round;
    }
    tide_call_respond(call, tide_buffer_view(&board->answer));
    return TIDE_OK;
}

static int64_t step_watch(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    (void)store;
    tide_error err = {0};
    const tide_status status = look_again(call, arg, is_over, &err);
    if (status == TIDE_NONE)
        return INT64_MAX;
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    return -1;
}

static tide_status check_watch(const AGENT(WatchStreamsRequest) * request, tide_error *err)
{
    if (request->n_seen > TIDE_FEED_STREAMS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu streams were seen, at most %d can be",
                         request->n_seen, TIDE_FEED_STREAMS_MAX);
    if (request->wait_ms > TIDE_QUERY_WAIT_MAX_MS)
        return tide_fail(err, TIDE_E_INVALID, "wait_ms is %u, at most %d", request->wait_ms,
                         TIDE_QUERY_WAIT_MAX_MS);
    return TIDE_OK;
}

static tide_status start_watch(tide_call *call, tide_view message,
                               const tide_agent_services *services, tide_error *err)
{
    ProtobufCMessage *decoded = NULL;
    TIDE_TRY(tide_call_decode(call, message, &decoded, err));
    const AGENT(WatchStreamsRequest) *request = (const AGENT(WatchStreamsRequest) *)decoded;
    TIDE_TRY(check_watch(request, err));
    TIDE_CLEANUP(tide_freep) stream_heads *heads = malloc(sizeof *heads);
    watching *parked = malloc(sizeof *parked);
    if (!heads || !parked) {
        free(parked);
        return tide_no_memory(err);
    }
    *parked = (watching){.services = services, .request = request};
    const tide_status status = look_at_heads(services, heads, err);
    if (status >= TIDE_OK && request->wait_ms > 0 && !has_news(services, request, heads))
        return tide_long_poll_park(services->waiter, call, step_watch, parked,
                                   (int64_t)request->wait_ms * 1000, err);
    free(parked);
    return status < TIDE_OK ? status : answer_all(call, services, err);
}

static void run_watch(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    const tide_status status = start_watch(call, message, arg, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}

/* ---- tables ---- */

#define ROW(method_, request_, fn_)                                                                \
    {                                                                                              \
        .path = SERVICE "/" method_, .kind = TIDE_CALL_UNARY, .role = TIDE_ROLE_READ,              \
        .is_blocking = true, .request = &tidemark__agent__v1__##request_##__descriptor,            \
        .response = &tidemark__agent__v1__list_streams_response__descriptor, .run = run_##fn_      \
    }

const tide_method tide_agent_streams[] = {
    ROW("ListStreams", list_streams_request, streams),
    ROW("WatchStreams", watch_streams_request, watch),
    {.path = NULL},
};
