/* The agent is killed with kill -9 while clients send it records: whatever it acknowledged is served after the restart under
 * the same number, no number is given twice, no record is there twice, and the chain verifies. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "services/agent/running_agent.h"
#include "support/check.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum {
    CYCLES = 100,
    SOAK_FACTOR = 10,
    CLIENTS = 4,
    BATCH_MAX = 8,
    ACKS_MAX = 25, /* acknowledged calls before a kill, at most */
    TEXT = 48,
    PAGE = 10000,
};

static uint64_t seed;

#define AGENT(type_) Tidemark__Agent__V1__##type_

/* ---- what was acknowledged ---- */

typedef struct progress {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    int history; /* of all clients, for tests/check/sequences.py */
    int acks;    /* calls of this cycle */
    int running;
} progress;

/* ---- those who send ---- */

typedef struct sender {
    progress *progress;
    const running_agent *agent;
    pthread_t thread;
    int cycle;
    int index;
} sender;

typedef struct acknowledged {
    uint64_t first;
    uint64_t epoch;
    char session[64];
} acknowledged;

static tide_status send_batch(tide_client *client, char texts[BATCH_MAX][TEXT], int count,
                              acknowledged *out, tide_error *err)
{
    AGENT(Record) records[BATCH_MAX];
    AGENT(Record) * list[BATCH_MAX];
    for (int i = 0; i < count; i++) {
        tidemark__agent__v1__record__init(&records[i]);
        records[i].data.data = (uint8_t *)texts[i];
        records[i].data.len = strlen(texts[i]);
        list[i] = &records[i];
    }
    AGENT(IngestRecordsRequest) request = TIDEMARK__AGENT__V1__INGEST_RECORDS_REQUEST__INIT;
    request.stream = (char *)"load";
    request.records = list;
    request.n_records = (size_t)count;
    ProtobufCMessage *response = NULL;
    TIDE_TRY(running_agent_call(client, "AgentService/IngestRecords", &request.base,
                                &tidemark__agent__v1__ingest_response__descriptor, &response, err));
    const AGENT(IngestResponse) *answer = (const AGENT(IngestResponse) *)response;
    out->first = answer->first_seq_id;
    out->epoch = answer->epoch;
    (void)snprintf(out->session, sizeof out->session, "%s", answer->session_id);
    const bool is_whole = answer->last_seq_id - answer->first_seq_id + 1 == (uint64_t)count;
    protobuf_c_message_free_unpacked(response, NULL);
    return is_whole ? TIDE_OK : tide_fail(err, TIDE_E_DAMAGED, "numbers do not fit the records");
}

/* Each record is a take. A call that failed may have been stored. */
static void write_takes(const sender *s, char texts[BATCH_MAX][TEXT], int count, int64_t begin_ns,
                        const acknowledged *answer)
{
    const int64_t end_ns = history_now_ns();
    char process[32];
    (void)snprintf(process, sizeof process, "client-%d.%d", s->cycle, s->index);
    for (int i = 0; i < count; i++) {
        history_line line;
        history_begin_at(&line, process, "take", begin_ns);
        history_text(&line, "sequence", "load");
        history_text(&line, "value", texts[i]);
        if (answer) {
            history_text(&line, "session", answer->session);
            history_number(&line, "epoch", (int64_t)answer->epoch);
            history_number(&line, "number", (int64_t)answer->first + i);
        }
        history_end_at(&line, s->progress->history, answer ? HISTORY_OK : HISTORY_UNKNOWN, end_ns);
    }
}

/* Until the agent is gone. Nothing is sent twice, so nothing may be there twice. */
static void *run_sender(void *arg)
{
    sender *s = arg;
    progress *p = s->progress;
    prng chance;
    prng_init(&chance, seed * 31 + (uint64_t)(s->cycle * 100 + s->index));
    tide_client *client = NULL;
    tide_error err;
    tide_status status = running_agent_client(s->agent, &client, &err);
    for (int n = 0; status >= TIDE_OK;) {
        char texts[BATCH_MAX][TEXT];
        const int count = 1 + (int)prng_below(&chance, BATCH_MAX);
        for (int i = 0; i < count; i++)
            (void)snprintf(texts[i], TEXT, "%d.%d.%d", s->cycle, s->index, n++);
        acknowledged answer;
        const int64_t begin_ns = history_now_ns();
        status = send_batch(client, texts, count, &answer, &err);
        write_takes(s, texts, count, begin_ns, status >= TIDE_OK ? &answer : NULL);
        (void)pthread_mutex_lock(&p->lock);
        p->acks += status >= TIDE_OK;
        (void)pthread_cond_signal(&p->grown);
        (void)pthread_mutex_unlock(&p->lock);
    }
    (void)pthread_mutex_lock(&p->lock);
    p->running--;
    (void)pthread_cond_signal(&p->grown);
    (void)pthread_mutex_unlock(&p->lock);
    tide_client_close(client);
    return NULL;
}

static void run_cycle(progress *p, const char *store, int cycle, prng *chance)
{
    static const char *const quietly[] = {"--log-level", "error", "--collect", "0s", NULL};
    tide_error err;
    running_agent agent;
    sender senders[CLIENTS];
    assert_ok_err(running_agent_start(&agent, "agent", store, quietly, &err), &err);
    p->acks = 0;
    p->running = CLIENTS;
    for (int i = 0; i < CLIENTS; i++) {
        senders[i] = (sender){.progress = p, .agent = &agent, .cycle = cycle, .index = i};
        assert_int_equal(0, pthread_create(&senders[i].thread, NULL, run_sender, &senders[i]));
    }
    const int due = 1 + (int)prng_below(chance, ACKS_MAX);
    (void)pthread_mutex_lock(&p->lock);
    while (p->acks < due && p->running > 0)
        (void)pthread_cond_wait(&p->grown, &p->lock);
    const int running = p->running;
    (void)pthread_mutex_unlock(&p->lock);
    running_agent_kill(&agent);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(senders[i].thread, NULL);
    if (running == 0)
        fail_msg("seed %" PRIu64 ", cycle %d: every client was refused", seed, cycle);
}

/* ---- what is there ---- */

/* One page of rows; *after moves behind it. */
static tide_status write_page(tide_client *client, int history, uint64_t *after, bool *has_more,
                              tide_error *err)
{
    AGENT(QueryRecordsRequest) request = TIDEMARK__AGENT__V1__QUERY_RECORDS_REQUEST__INIT;
    request.stream = (char *)"load";
    request.start_seq_id = *after;
    request.max_records = PAGE;
    ProtobufCMessage *response = NULL;
    TIDE_TRY(running_agent_call(client, "AgentService/QueryRecords", &request.base,
                                &tidemark__agent__v1__query_records_response__descriptor, &response,
                                err));
    const AGENT(QueryRecordsResponse) *answer = (const AGENT(QueryRecordsResponse) *)response;
    for (size_t i = 0; i < answer->n_records; i++) {
        const AGENT(Record) *r = answer->records[i];
        char text[TEXT];
        history_line line;
        (void)snprintf(text, sizeof text, "%.*s", (int)r->data.len, (const char *)r->data.data);
        history_begin(&line, "end", "row");
        history_text(&line, "sequence", "load");
        history_text(&line, "session", answer->session_id);
        history_text(&line, "value", text);
        history_number(&line, "number", (int64_t)r->seq_id);
        history_end(&line, history, HISTORY_OK);
        *after = r->seq_id;
    }
    *has_more = answer->state->more;
    tide_status status = TIDE_OK;
    if (!*has_more && answer->state->head_seq_id != *after)
        status = tide_fail(err, TIDE_E_DAMAGED, "the head is %" PRIu64 ", the last record %" PRIu64,
                           answer->state->head_seq_id, *after);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static void check_verify(const char *store)
{
    char program[PATH_MAX];
    tide_error err;
    assert_ok_err(proc_find("tidemark", program, &err), &err);
    const char *const argv[] = {program, "feed", "verify", "--store", store, NULL};
    proc_result result;
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, 60000, &err), &err);
    if (result.exit_code != 0)
        print_error("%s%s", result.out, result.err);
    assert_int_equal(0, result.exit_code);
    proc_result_done(&result);
}

static void write_rows(const char *store, int history)
{
    tide_error err;
    running_agent agent;
    tide_client *client = NULL;
    uint64_t after = 0;
    assert_ok_err(running_agent_start(&agent, "agent", store, NULL, &err), &err);
    assert_ok_err(running_agent_client(&agent, &client, &err), &err);
    for (bool has_more = true; has_more;)
        assert_ok_err(write_page(client, history, &after, &has_more, &err), &err);
    tide_client_close(client);
    assert_ok_err(running_agent_stop(&agent, &err), &err);
}

static void what_a_killed_agent_acknowledged_is_served_under_its_number(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    char store[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    char verdict[HISTORY_VERDICT_MAX];
    prng chance;
    prng_init(&chance, seed);
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "agent.db", store);
    tempdir_join(&dir, "history.jsonl", path);
    progress p = {.lock = PTHREAD_MUTEX_INITIALIZER,
                  .grown = PTHREAD_COND_INITIALIZER,
                  .history = history_open(path)};
    const int cycles = is_soak() ? CYCLES * SOAK_FACTOR : CYCLES;
    for (int cycle = 0; cycle < cycles; cycle++)
        run_cycle(&p, store, cycle, &chance);
    write_rows(store, p.history);
    (void)close(p.history);
    if (history_judge("sequences.py", (const char *const[]){path, NULL}, verdict, &err) != TIDE_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, err.text);
    print_message("%d kills; %s\n", cycles, verdict);
    check_verify(store);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

TEST_FILE()
{
    seed = prng_seed_from_env(20261116);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_agent_acknowledged_is_served_under_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
