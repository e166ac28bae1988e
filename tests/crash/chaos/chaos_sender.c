#include "crash/chaos/chaos_sender.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "services/agent/running_agent.h"
#include "support/history.h"

enum {
    BATCH_MAX = 8,
    TEXT = 48,
    PAUSE_MS = 40, /* between two calls, at least */
    PAUSE_MORE_MS = 120,
    BODY_MAX = 8192,
};

#define CALL_US INT64_C(2500000)
#define AGENT(type_) Tidemark__Agent__V1__##type_

typedef struct batch {
    char texts[BATCH_MAX][TEXT];
    int64_t first;
    int64_t begin_ns;
    int count;
    bool is_spans;
} batch;

/* ---- calls ---- */

static tide_status send_records(chaos_sender *s, const batch *b, AGENT(IngestResponse) * *out,
                                tide_error *err)
{
    AGENT(Record) records[BATCH_MAX];
    AGENT(Record) * list[BATCH_MAX];
    for (int i = 0; i < b->count; i++) {
        tidemark__agent__v1__record__init(&records[i]);
        records[i].data.data = (uint8_t *)b->texts[i];
        records[i].data.len = strlen(b->texts[i]);
        list[i] = &records[i];
    }
    AGENT(IngestRecordsRequest) request = TIDEMARK__AGENT__V1__INGEST_RECORDS_REQUEST__INIT;
    request.stream = (char *)CHAOS_STREAM;
    request.records = list;
    request.n_records = (size_t)b->count;
    return running_agent_call(s->client, "AgentService/IngestRecords", &request.base,
                              &tidemark__agent__v1__ingest_response__descriptor,
                              (ProtobufCMessage **)out, err);
}

static tide_status send_spans(chaos_sender *s, const batch *b, tide_error *err)
{
    char body[BODY_MAX];
    size_t len = (size_t)snprintf(
        body, sizeof body,
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"chaos\"}}]},\"scopeSpans\":[{\"spans\":[");
    for (int i = 0; i < b->count; i++)
        len += (size_t)snprintf(body + len, sizeof body - len,
                                "%s{\"traceId\":\"%s%s\",\"spanId\":\"%s\",\"name\":\"n\","
                                "\"startTimeUnixNano\":\"1700000000000000000\","
                                "\"endTimeUnixNano\":\"1700000000001000000\"}",
                                i > 0 ? "," : "", b->texts[i], b->texts[i], b->texts[i]);
    len += (size_t)snprintf(body + len, sizeof body - len, "]}]}]}");
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    TIDE_TRY(tide_client_post(
        s->client,
        &(tide_client_request){.path = "/v1/traces", .message = tide_view_bytes(body, len)}, &reply,
        err));
    if (reply.http_code != 200 || strstr(tide_buffer_text(&reply.message), "rejected"))
        return tide_fail(err, TIDE_E_FAILED, "answered with %d", reply.http_code);
    return TIDE_OK;
}

/* ---- the history ---- */

static void make_batch(chaos_sender *s, batch *b)
{
    b->first = s->next;
    b->count = 1 + (int)prng_below(&s->chance, BATCH_MAX);
    b->is_spans = prng_chance(&s->chance, 1, 3);
    s->next += b->count;
    for (int i = 0; i < b->count; i++) {
        /* A span's id is 8 bytes in hexadecimal, and not 0. */
        if (b->is_spans)
            (void)snprintf(b->texts[i], TEXT, "%02x%014" PRIx64, 0x10 + s->index, b->first + i);
        else
            (void)snprintf(b->texts[i], TEXT, "%s.%" PRId64, s->node->name, b->first + i);
    }
}

/* What failed may have been stored: nobody knows. */
static void write_sends(const chaos_sender *s, const batch *b, history_result result,
                        const AGENT(IngestResponse) * answer)
{
    const int64_t end_ns = history_now_ns();
    for (int i = 0; i < b->count; i++) {
        history_line line;
        history_begin_at(&line, s->node->name, "send", b->begin_ns);
        history_text(&line, "source", s->node->name);
        history_text(&line, "stream", b->is_spans ? "telemetry" : CHAOS_STREAM);
        history_text(&line, "value", b->texts[i]);
        if (answer) {
            history_text(&line, "session", answer->session_id);
            history_number(&line, "epoch", (int64_t)answer->epoch);
            history_number(&line, "number", (int64_t)answer->first_seq_id + i);
        }
        history_end_at(&line, s->history, result, end_ns);
    }
}

static void send_one(chaos_sender *s)
{
    batch b;
    tide_error err;
    AGENT(IngestResponse) *answer = NULL;
    make_batch(s, &b);
    b.begin_ns = history_now_ns();
    const tide_status status =
        b.is_spans ? send_spans(s, &b, &err) : send_records(s, &b, &answer, &err);
    write_sends(s, &b, status >= TIDE_OK ? HISTORY_OK : HISTORY_UNKNOWN, answer);
    s->acknowledged += status >= TIDE_OK ? b.count : 0;
    s->unknown += status >= TIDE_OK ? 0 : b.count;
    if (answer)
        tidemark__agent__v1__ingest_response__free_unpacked(answer, NULL);
}

static void *run_sender(void *arg)
{
    chaos_sender *s = arg;
    while (!atomic_load(&s->is_over)) {
        (void)pthread_mutex_lock(&s->lock);
        send_one(s);
        const uint64_t pause_ms = PAUSE_MS + prng_below(&s->chance, PAUSE_MORE_MS);
        (void)pthread_mutex_unlock(&s->lock);
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)pause_ms * 1000000}, NULL);
    }
    return NULL;
}

/* ---- open, close ---- */

tide_status chaos_sender_open(chaos_sender *sender, const chaos_fleet *fleet, int index,
                              uint64_t seed, tide_error *err)
{
    char target[64];
    char token[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    sender->node = &fleet->nodes[index];
    sender->index = index;
    sender->next = 1;
    (void)pthread_mutex_init(&sender->lock, NULL);
    prng_init(&sender->chance, seed * 1000 + (uint64_t)index);
    (void)snprintf(target, sizeof target, "http://%s:%d", sender->node->machine.address,
                   CHAOS_GRPC_PORT);
    tempdir_join(&fleet->dir, "token", token);
    const tide_client_options options = {.target = target,
                                         .token_file = token,
                                         .is_insecure = true,
                                         .timeout_us = CALL_US,
                                         .connect_us = CALL_US,
                                         .try_max = 1};
    TIDE_TRY(tide_client_open(&sender->client, &options, err));
    chaos_fleet_path(fleet, sender->node, "history", path);
    sender->history = history_open(path);
    if (sender->node->is_forgetful) {
        history_line line;
        history_begin(&line, sender->node->name, "forget");
        history_text(&line, "source", sender->node->name);
        history_end(&line, sender->history, HISTORY_OK);
    }
    if (pthread_create(&sender->thread, NULL, run_sender, sender) != 0)
        return tide_fail(err, TIDE_E_NOMEM, "no thread");
    return TIDE_OK;
}

void chaos_sender_close(chaos_sender *sender)
{
    if (sender->thread) {
        atomic_store(&sender->is_over, true);
        (void)pthread_join(sender->thread, NULL);
        sender->thread = 0;
    }
    if (sender->history > 0)
        (void)close(sender->history);
    sender->history = 0;
}

void chaos_sender_free(chaos_sender *sender)
{
    chaos_sender_close(sender);
    tide_client_close(sender->client);
    sender->client = NULL;
}

/* ---- from outside ---- */

void chaos_sender_pause(chaos_sender *sender)
{
    (void)pthread_mutex_lock(&sender->lock);
}

void chaos_sender_resume(chaos_sender *sender)
{
    (void)pthread_mutex_unlock(&sender->lock);
}

void chaos_sender_note(chaos_sender *sender, const char *what, uint64_t head)
{
    history_line line;
    const bool is_backup = strcmp(what, "backup") == 0;
    history_begin(&line, sender->node->name, is_backup ? "backup" : "cut");
    history_text(&line, "source", sender->node->name);
    if (is_backup) {
        history_text(&line, "stream", CHAOS_STREAM);
        history_number(&line, "head", (int64_t)head);
    } else {
        history_text(&line, "kind", what);
    }
    history_end(&line, sender->history, HISTORY_OK);
}

tide_status chaos_sender_streams(chaos_sender *sender, chaos_stream_fn *fn, void *arg,
                                 tide_error *err)
{
    AGENT(ListStreamsRequest) request = TIDEMARK__AGENT__V1__LIST_STREAMS_REQUEST__INIT;
    ProtobufCMessage *response = NULL;
    TIDE_TRY(running_agent_call(sender->client, "AgentService/ListStreams", &request.base,
                                &tidemark__agent__v1__list_streams_response__descriptor, &response,
                                err));
    const AGENT(ListStreamsResponse) *answer = (const AGENT(ListStreamsResponse) *)response;
    for (size_t i = 0; i < answer->n_streams; i++)
        fn(arg, answer->session_id, answer->streams[i]->stream, answer->streams[i]->head_seq_id);
    protobuf_c_message_free_unpacked(response, NULL);
    return TIDE_OK;
}
