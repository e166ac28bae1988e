/* streams_service.c - which streams there are, and waiting for news of any of them.
 *
 * A reader of many streams waits with one call, whose question is what it has seen: heads by name. It is looked at when something
 * was committed, and answered with all streams as soon as anything differs. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

#include "agent/query.h"
#include "base/cleanup.h"
#include "rpc/messages.h"

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
    const tide_feed_request request = {
        .stream = stream->name, .start_seq = stream->head_seq, .max_records = 1};
    tide_feed_answer state = {0};
    TIDE_TRY(tide_feed_read(list->services->feed, &request, &state, err));
    memcpy(list->session, state.session, sizeof list->session);
    const tide_status status =
        tide_query_put_state(list->services, &list->out, 1, stream->name, &state, err);
    tide_feed_answer_done(&state);
    return status;
}

static tide_status answer_all(tide_call *call, const tide_agent_services *services, tide_error *err)
{
    TIDE_CLEANUP(list_done) stream_list list = {.services = services};
    tide_buffer_init(&list.out, TIDE_RPC_ANSWER_MAX);
    TIDE_TRY(tide_feed_list(services->feed, put_stream, &list, err));
    AGENT(ListStreamsResponse) rest = AGENT_INIT(LIST_STREAMS_RESPONSE);
    rest.session_id = list.session;
    rest.agent = tide_rpc_borrow(services->name);
    TIDE_TRY(tide_rpc_pack(&list.out, &rest.base, err));
    tide_call_reply(call, tide_buffer_view(&list.out));
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

/* ---- waiting ---- */

/* Parked with its call; whose memory holds the request. */
typedef struct watching {
    const tide_agent_services *services;
    const AGENT(WatchStreamsRequest) * request;
} watching;

static const AGENT(StreamHead) *
    find_seen(const AGENT(WatchStreamsRequest) * request, const char *stream)
{
    for (size_t i = 0; i < request->n_seen; i++)
        if (strcmp(request->seen[i]->stream, stream) == 0)
            return request->seen[i];
    return NULL;
}

typedef struct comparison {
    const AGENT(WatchStreamsRequest) * request;
    bool is_news;
} comparison;

static tide_status compare_stream(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    (void)err;
    comparison *c = arg;
    const AGENT(StreamHead) *seen = find_seen(c->request, stream->name);
    c->is_news = c->is_news || !seen || seen->head_seq_id != (uint64_t)stream->head_seq;
    return TIDE_OK;
}

/* TIDE_NONE: nothing is new. */
static tide_status look(tide_call *call, const watching *w, bool is_last, tide_error *err)
{
    tide_identity identity;
    tide_store_identity(tide_feed_store(w->services->feed), &identity);
    const char *session = tide_rpc_text(w->request->session_id);
    comparison c = {.request = w->request,
                    .is_news = is_last || (session && strcmp(session, identity.session_id) != 0)};
    if (!c.is_news)
        TIDE_TRY(tide_feed_list(w->services->feed, compare_stream, &c, err));
    return c.is_news ? answer_all(call, w->services, err) : TIDE_NONE;
}

static int64_t step_watch(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    (void)store;
    tide_error err = {0};
    const tide_status status = look(call, arg, is_over, &err);
    if (status == TIDE_NONE)
        return INT64_MAX;
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    return -1;
}

static tide_status start_watch(tide_call *call, tide_view message,
                               const tide_agent_services *services, tide_error *err)
{
    ProtobufCMessage *request = NULL;
    TIDE_TRY(tide_call_decode(call, message, &request, err));
    watching w = {.services = services, .request = (const AGENT(WatchStreamsRequest) *)request};
    if (w.request->n_seen > TIDE_FEED_STREAMS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu streams were seen, at most %d can be",
                         w.request->n_seen, TIDE_FEED_STREAMS_MAX);
    if (w.request->wait_ms > TIDE_QUERY_WAIT_MAX_MS)
        return tide_fail(err, TIDE_E_INVALID, "wait_ms is %u, at most %d", w.request->wait_ms,
                         TIDE_QUERY_WAIT_MAX_MS);
    const tide_status status = look(call, &w, w.request->wait_ms == 0, err);
    if (status != TIDE_NONE)
        return status;
    watching *parked = malloc(sizeof *parked);
    if (!parked)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a call that waits");
    *parked = w;
    return tide_waiter_park(services->waiter, call, step_watch, parked,
                            (int64_t)w.request->wait_ms * 1000, err);
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
