/* The agent is killed with kill -9 while clients send it records: whatever it acknowledged is served after the restart under
 * the same number, no number is given twice, no record is there twice, and the chain verifies (FAULTS C22). */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/running_agent.h"
#include "base/cleanup.h"
#include "support/check.h"
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

/* ---- what was promised ---- */

typedef struct promise {
    uint64_t seq;
    char text[TEXT];
} promise;

typedef struct promises {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    promise *all;
    size_t count;
    size_t capacity;
    int acks; /* calls of this cycle */
    int running;
} promises;

static void keep_promise(promises *p, uint64_t seq, const char *text)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity == 0 ? 4096 : 2 * p->capacity;
        p->all = reallocarray(p->all, p->capacity, sizeof *p->all);
        if (!p->all)
            abort();
    }
    p->all[p->count].seq = seq;
    (void)snprintf(p->all[p->count].text, TEXT, "%.*s", TEXT - 1, text);
    p->count++;
}

/* ---- those who send ---- */

typedef struct sender {
    promises *promises;
    const running_agent *agent;
    pthread_t thread;
    int cycle;
    int index;
} sender;

static tide_status send_batch(tide_client *client, char texts[BATCH_MAX][TEXT], int count,
                              uint64_t *first, tide_error *err)
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
    *first = answer->first_seq_id;
    const bool is_whole = answer->last_seq_id - answer->first_seq_id + 1 == (uint64_t)count;
    protobuf_c_message_free_unpacked(response, NULL);
    return is_whole ? TIDE_OK : tide_fail(err, TIDE_E_DAMAGED, "numbers do not fit the records");
}

/* Until the agent is gone. Nothing is sent twice, so nothing may be there twice. */
static void *run_sender(void *arg)
{
    sender *s = arg;
    promises *p = s->promises;
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
        uint64_t first = 0;
        status = send_batch(client, texts, count, &first, &err);
        (void)pthread_mutex_lock(&p->lock);
        for (int i = 0; status >= TIDE_OK && i < count; i++)
            keep_promise(p, first + (uint64_t)i, texts[i]);
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

static void run_cycle(promises *p, const char *store, int cycle, prng *chance)
{
    static const char *const quietly[] = {"--log-level", "error", "--collect", "0s", NULL};
    tide_error err;
    running_agent agent;
    sender senders[CLIENTS];
    assert_ok_err(running_agent_start(&agent, "agent", store, quietly, &err), &err);
    p->acks = 0;
    p->running = CLIENTS;
    for (int i = 0; i < CLIENTS; i++) {
        senders[i] = (sender){.promises = p, .agent = &agent, .cycle = cycle, .index = i};
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

typedef struct found {
    char (*texts)[TEXT]; /* by number, from 1 */
    uint64_t count;
} found;

static tide_status read_page(tide_client *client, found *f, uint64_t start, bool *has_more,
                             tide_error *err)
{
    AGENT(QueryRecordsRequest) request = TIDEMARK__AGENT__V1__QUERY_RECORDS_REQUEST__INIT;
    request.stream = (char *)"load";
    request.start_seq_id = start;
    request.max_records = PAGE;
    ProtobufCMessage *response = NULL;
    TIDE_TRY(running_agent_call(client, "AgentService/QueryRecords", &request.base,
                                &tidemark__agent__v1__query_records_response__descriptor, &response,
                                err));
    const AGENT(QueryRecordsResponse) *answer = (const AGENT(QueryRecordsResponse) *)response;
    f->texts = reallocarray(f->texts, start + answer->n_records + 1, TEXT);
    if (!f->texts)
        abort();
    tide_status status = TIDE_OK;
    for (size_t i = 0; i < answer->n_records && status >= TIDE_OK; i++) {
        const AGENT(Record) *r = answer->records[i];
        if (r->seq_id != f->count + 1 || r->data.len >= TEXT)
            status = tide_fail(err, TIDE_E_DAMAGED, "number %" PRIu64 " behind %" PRIu64, r->seq_id,
                               f->count);
        else
            (void)snprintf(f->texts[++f->count], TEXT, "%.*s", (int)r->data.len,
                           (const char *)r->data.data);
    }
    *has_more = answer->state->more;
    if (status >= TIDE_OK && !*has_more && answer->state->head_seq_id != f->count)
        status = tide_fail(err, TIDE_E_DAMAGED, "the head is %" PRIu64 ", %" PRIu64 " were read",
                           answer->state->head_seq_id, f->count);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void check_found(const promises *p, found *f)
{
    for (size_t i = 0; i < p->count; i++) {
        const promise *made = &p->all[i];
        if (made->seq < 1 || made->seq > f->count || strcmp(f->texts[made->seq], made->text) != 0)
            fail_msg("seed %" PRIu64 ": %s was acknowledged as %" PRIu64 ", and there is %s", seed,
                     made->text, made->seq,
                     made->seq >= 1 && made->seq <= f->count ? f->texts[made->seq] : "nothing");
    }
    qsort(f->texts + 1, f->count, TEXT, compare_texts);
    for (uint64_t i = 2; i <= f->count; i++)
        if (strcmp(f->texts[i], f->texts[i - 1]) == 0)
            fail_msg("seed %" PRIu64 ": %s is there twice", seed, f->texts[i]);
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

static void what_a_killed_agent_acknowledged_is_served_under_its_number(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    char store[TEMPDIR_PATH_MAX];
    promises p = {.lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER};
    prng chance;
    prng_init(&chance, seed);
    assert_ok_err(tempdir_make(&dir, &err), &err);
    (void)snprintf(store, sizeof store, "%.200s/agent.db", dir.path);
    const int cycles = is_soak() ? CYCLES * SOAK_FACTOR : CYCLES;
    for (int cycle = 0; cycle < cycles; cycle++)
        run_cycle(&p, store, cycle, &chance);

    running_agent agent;
    tide_client *client = NULL;
    found f = {.texts = NULL};
    assert_ok_err(running_agent_start(&agent, "agent", store, NULL, &err), &err);
    assert_ok_err(running_agent_client(&agent, &client, &err), &err);
    for (bool has_more = true; has_more;)
        assert_ok_err(read_page(client, &f, f.count, &has_more, &err), &err);
    tide_client_close(client);
    assert_ok_err(running_agent_stop(&agent, &err), &err);
    print_message("%d kills, %zu records acknowledged, %" PRIu64 " stored\n", cycles, p.count,
                  f.count);
    check_found(&p, &f);
    check_verify(store);
    free(f.texts);
    free(p.all);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

int main(void)
{
    seed = prng_seed_from_env(20261116);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_agent_acknowledged_is_served_under_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
