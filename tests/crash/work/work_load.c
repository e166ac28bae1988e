#include "crash/work/work_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/history.h"
#include "support/prng.h"

enum {
    ADD_BATCH = 4,
    ADD_PAUSE_US = 20000, /* no faster than the work can be done */
    CLAIM_BATCH = 4,
    KEYS = 5,
    DELAY_MAX_US = 50000,
    IDLE_US = 20000,
    TROUBLE_US = 20000,
    FINISH_TRIES = 500,
    HASTY_PAUSE_US = 3000, /* long enough to be killed in */
};

#define SWEEP_US INT64_C(100000)

/* ---- names ---- */

size_t load_format(char out[LOAD_LINE_MAX], const char *word, const char *id, int64_t token)
{
    return (size_t)snprintf(out, LOAD_LINE_MAX, "ack %s %s %" PRId64 "\n", word, id, token);
}

void load_output(char out[48], const char *how, int64_t token)
{
    (void)snprintf(out, 48, "{\"%s\":%" PRId64 "}", how, token);
}

bool load_is_root(const char *id)
{
    return id[0] == 'r';
}

void load_follow_up_id(char out[LOAD_ID_SIZE], const char *root, int64_t token)
{
    (void)snprintf(out, LOAD_ID_SIZE, "f%" PRId64 ".%.60s", token, root);
}

static void name_of(char out[LOAD_ID_SIZE], char letter, uint64_t number)
{
    (void)snprintf(out, LOAD_ID_SIZE, "%c%u", letter, (unsigned)number);
}

tide_status load_prepare(tide_store *store, tide_error *err)
{
    for (unsigned i = 0; i < LOAD_TASKS; i++) {
        char name[LOAD_ID_SIZE];
        char id[TIDE_WORK_ID_MAX + 1];
        name_of(name, 't', i);
        const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = name, .title = name};
        TIDE_TRY(tide_task_create(store, &task, id, err));
    }
    return TIDE_OK;
}

/* ---- trouble ---- */

/* While the server is away, calls fail or nobody knows; then they are made again. */
static bool may_pass(const load *l, tide_status status)
{
    return status == TIDE_E_BUSY || status == TIDE_E_SERIALIZATION ||
           (l->is_server_mortal && (status == TIDE_E_UNAVAILABLE ||
                                    status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_TIMEOUT));
}

static void wait_for(const load *l, int64_t us)
{
    tide_env *env = tide_store_env(l->store);
    env->sleep_us(env, us);
}

/* ---- the history ---- */

/* A call of one item. Threads of the runtime are processes of their own to the checker. */
static void begin_line(const load *l, history_line *line, const char *operation, int64_t begin_ns,
                       const char *id)
{
    static const char *const roles[] = {"add", "runtime", "plain"};
    char process[64];
    (void)snprintf(process, sizeof process, "%s-%" PRId64 ".%" PRId64 ".%ld", roles[l->role],
                   l->cycle, l->child, syscall(SYS_gettid));
    history_begin_at(line, process, operation, begin_ns);
    history_text(line, "item", id);
}

static void begin_token_line(const load *l, history_line *line, const char *operation,
                             int64_t begin_ns, const char *id, int64_t token)
{
    begin_line(l, line, operation, begin_ns, id);
    history_number(line, "token", token);
}

static void write_claim(const load *l, const tide_work_claimed *item, int64_t begin_ns)
{
    history_line line;
    begin_token_line(l, &line, "claim", begin_ns, item->work_item_id, item->lease_token);
    history_end(&line, l->history, HISTORY_OK);
}

/* It may have happened: nobody knows. */
static bool is_open(tide_status status)
{
    return status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_UNAVAILABLE ||
           status == TIDE_E_TIMEOUT;
}

static history_result result_of(tide_status status, bool was_open)
{
    if (status == TIDE_OK)
        return HISTORY_OK;
    return was_open || is_open(status) ? HISTORY_UNKNOWN : HISTORY_FAIL;
}

/* ---- adding ---- */

typedef struct new_item {
    char id[LOAD_ID_SIZE];
    char task[LOAD_ID_SIZE];
    char type[LOAD_ID_SIZE];
    char key[LOAD_ID_SIZE];
    char on[LOAD_ID_SIZE];
    const char *depends_on[1];
} new_item;

static tide_work_spec draw_item(new_item *text, const load *l, prng *chance, int64_t n)
{
    (void)snprintf(text->id, sizeof text->id, "r%" PRId64 ".%" PRId64 ".%" PRId64, l->cycle,
                   l->child, n);
    name_of(text->task, 't', (uint64_t)n / 64 % LOAD_TASKS);
    name_of(text->type, 'y', prng_below(chance, LOAD_TYPES));
    name_of(text->key, 'k', prng_below(chance, KEYS));
    (void)snprintf(text->on, sizeof text->on, "r%" PRId64 ".%" PRId64 ".%" PRId64, l->cycle,
                   l->child, n - 1);
    text->depends_on[0] = text->on;
    tide_work_spec item = {TIDE_WORK_SPEC_INIT,
                           .work_item_id = text->id,
                           .task_id = text->task,
                           .work_type = text->type,
                           .priority = (int64_t)prng_below(chance, 3),
                           .max_retries = (int64_t)prng_below(chance, LOAD_RETRIES_MAX + 1),
                           .depends_on = text->depends_on};
    if (prng_chance(chance, 1, 8))
        item.delay_us = (int64_t)prng_below(chance, DELAY_MAX_US);
    if (n % 4 == 0 &&
        prng_chance(chance, 1, 2)) /* another may stand for it: nothing depends on it */
        item.unique_key = text->key;
    if (n % 4 >= 2 && prng_chance(chance, 1, 5)) /* n / 64: of the same task */
        item.depends_on_count = 1;
    return item;
}

/* What depends on something that is not there, or has failed, is left out. */
static tide_status add_batch(const load *l, const tide_work_spec *items, int count, tide_error *err)
{
    tide_work_added added[ADD_BATCH];
    const int64_t begin_ns = history_now_ns();
    for (int i = 0; i < count; i++) {
        history_line line;
        begin_line(l, &line, "add", begin_ns, items[i].work_item_id);
        history_announce(&line, l->history);
    }
    tide_status status = tide_work_add(l->store, items, count, added, err);
    bool was_open = is_open(status);
    while (may_pass(l, status) &&
           !atomic_load(l->stop)) { /* the same ids: nothing is added twice */
        wait_for(l, TROUBLE_US);
        status = tide_work_add(l->store, items, count, added, err);
        was_open = was_open || is_open(status);
    }
    for (int i = 0; i < count; i++) {
        history_line line;
        /* An item with the same unique key may stand for it. */
        const bool is_other =
            status == TIDE_OK && strcmp(added[i].work_item_id, items[i].work_item_id) != 0;
        begin_line(l, &line, "add", begin_ns, items[i].work_item_id);
        history_end(&line, l->history,
                    is_other ? result_of(TIDE_E_CONFLICT, was_open) : result_of(status, was_open));
    }
    if (may_pass(l, status) || status == TIDE_E_CONFLICT || status == TIDE_E_NOT_FOUND)
        return TIDE_OK;
    TIDE_TRY(status);
    for (int i = 0; i < count; i++)
        if (strcmp(added[i].work_item_id, items[i].work_item_id) == 0)
            l->say(l, "add", added[i].work_item_id, 0);
    return TIDE_OK;
}

static tide_status add_items(const load *l, prng *chance, tide_error *err)
{
    for (int64_t n = 0; !atomic_load(l->stop);) {
        new_item texts[ADD_BATCH];
        tide_work_spec items[ADD_BATCH];
        const int count = 1 + (int)prng_below(chance, ADD_BATCH);
        for (int i = 0; i < count; i++)
            items[i] = draw_item(&texts[i], l, chance, n++);
        TIDE_TRY(add_batch(l, items, count, err));
        wait_for(l, ADD_PAUSE_US);
    }
    return TIDE_OK;
}

/* ---- finishing one, with its effect ---- */

typedef struct effect {
    char output[48];
    char follow_up_id[LOAD_ID_SIZE];
    tide_checkpoint_new checkpoint;
    tide_work_spec follow_up;
    tide_work_result result;
    int64_t begin_ns;
} effect;

static void begin_finish(const load *l, const effect *e, history_line *line)
{
    static const char *const effects[] = {"checkpoint", "follow_up"};
    const bool is_root = load_is_root(e->result.work_item_id);
    const char *const adds[] = {e->follow_up_id};
    begin_token_line(l, line, "finish", e->begin_ns, e->result.work_item_id, e->result.token);
    history_texts(line, "effects", effects, is_root ? 2 : 1);
    history_texts(line, "adds", adds, is_root);
}

static void write_finish(const load *l, const effect *e, history_result result)
{
    history_line line;
    begin_finish(l, e, &line);
    history_end(&line, l->history, result);
}

static void describe_effect(effect *e, const tide_work_claimed *item)
{
    load_output(e->output, "by", item->lease_token);
    load_follow_up_id(e->follow_up_id, item->work_item_id, item->lease_token);
    e->checkpoint = (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .type = "iteration_end",
                                          .snapshot = tide_view_of(e->output)};
    e->follow_up = (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = e->follow_up_id,
                                    .task_id = item->task_id, .work_type = item->work_type,
                                    .max_retries = LOAD_RETRIES_MAX};
    e->result = (tide_work_result){TIDE_WORK_RESULT_INIT,
                                   .work_item_id = item->work_item_id,
                                   .token = item->lease_token,
                                   .output = e->output,
                                   .checkpoint = &e->checkpoint,
                                   .follow_ups = &e->follow_up,
                                   .follow_up_count = load_is_root(item->work_item_id)};
}

/* How not to do it: the effect, and then the end. */
static tide_status split_effect(const load *l, effect *e, tide_error *err)
{
    tide_work_added added;
    if (e->result.follow_up_count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_work_add(l->store, &e->follow_up, 1, &added, err));
    e->result.follow_up_count = 0;
    wait_for(l, HASTY_PAUSE_US);
    return TIDE_OK;
}

static tide_status begin_end(const load *l, effect *e, const tide_work_claimed *item,
                             tide_error *err)
{
    history_line line;
    describe_effect(e, item);
    e->begin_ns = history_now_ns();
    begin_finish(l, e, &line);
    history_announce(&line, l->history);
    l->say(l, "try", item->work_item_id, item->lease_token);
    if (l->is_hasty) {
        write_finish(l, e, HISTORY_OK);
        l->say(l, "done", item->work_item_id, item->lease_token);
        wait_for(l, HASTY_PAUSE_US);
    }
    return l->is_split ? split_effect(l, e, err) : TIDE_OK;
}

/* ---- the runtime ---- */

static tide_status leave_trace(tide_job *job, tide_error *err)
{
    tide_checkpoint_numbers numbers;
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{\"step\":1}")};
    return tide_job_checkpoint(job, &checkpoint, &numbers, err);
}

static tide_status run_job(void *arg, tide_job *job, tide_error *err)
{
    const load *l = arg;
    const tide_work_claimed *item = tide_job_item(job);
    prng chance;
    prng_init(&chance, l->seed * 7919 + (uint64_t)item->lease_token);
    write_claim(l, item, l->began_ns);
    if (prng_chance(&chance, 1, 8)) {
        const tide_status status = leave_trace(job, err);
        if (status < TIDE_OK)
            return TIDE_E_INTERRUPTED; /* lost, or the server is away: somebody else's, later */
    }
    if (prng_chance(&chance, 1, 30))
        return TIDE_E_INTERRUPTED;
    const bool is_final = prng_chance(&chance, 1, 60);
    if (is_final || prng_chance(&chance, 1, 20)) {
        const int64_t begin_ns = history_now_ns();
        const tide_status status = tide_job_fail(job, "it went wrong", is_final, 0, err);
        if (status == TIDE_OK && is_final) {
            history_line line;
            begin_token_line(l, &line, "finish", begin_ns, item->work_item_id, item->lease_token);
            history_text(&line, "outcome", "failed");
            history_texts(&line, "effects", NULL, 0);
            history_end(&line, l->history, HISTORY_OK);
            l->say(l, "fail", item->work_item_id, item->lease_token);
        }
        return TIDE_OK;
    }
    effect e;
    TIDE_TRY(begin_end(l, &e, item, err));
    const tide_status status = tide_job_finish(job, &e.result, err);
    if (!l->is_hasty)
        write_finish(l, &e,
                     status == TIDE_E_LEASE_LOST ? HISTORY_UNKNOWN : result_of(status, true));
    if (status == TIDE_OK && !l->is_hasty)
        l->say(l, "done", item->work_item_id, item->lease_token);
    return status;
}

tide_status load_open_worker(load *l, tide_worker **out, tide_error *err)
{
    (void)snprintf(l->name, sizeof l->name, "runtime-%d", (int)l->child); /* also after a crash */
    l->began_ns = history_now_ns();
    const tide_worker_options options = {
        TIDE_WORKER_OPTIONS_INIT,
        .worker = l->name,
        .lease_us = LOAD_LEASE_US,
        .threads = LOAD_THREADS,
        .prefetch = 2,
        .poll_us = IDLE_US,
        .sweep_us = SWEEP_US,
        .drain_us = -1,
        .run = run_job,
        .run_arg = l,
    };
    return tide_worker_open(out, l->store, &options, err);
}

static tide_status run_runtime(load *l, tide_error *err)
{
    TIDE_CLEANUP(tide_worker_closep) tide_worker *worker = NULL;
    TIDE_TRY(load_open_worker(l, &worker, err));
    return tide_worker_run(worker, err);
}

/* ---- the plain loop ---- */

/* A finish whose outcome is not known is said again: that is what the token is for. */
static tide_status finish_one(const load *l, const tide_work_claimed *item, tide_error *err)
{
    effect e;
    TIDE_TRY(begin_end(l, &e, item, err));
    tide_status status = tide_work_finish(l->store, &e.result, err);
    bool was_open = is_open(status);
    for (int i = 0; may_pass(l, status) && i < FINISH_TRIES; i++) {
        wait_for(l, TROUBLE_US);
        status = tide_work_finish(l->store, &e.result, err);
        was_open = was_open || is_open(status);
    }
    if (!l->is_hasty)
        write_finish(l, &e, result_of(status, was_open));
    if (status == TIDE_OK && !l->is_hasty)
        l->say(l, "done", item->work_item_id, item->lease_token);
    return status == TIDE_E_LEASE_LOST || may_pass(l, status) ? TIDE_OK : status;
}

static void begin_many(const load *l, const tide_work_result *result, int64_t begin_ns,
                       history_line *line)
{
    begin_token_line(l, line, "finish", begin_ns, result->work_item_id, result->token);
    history_texts(line, "effects", NULL, 0);
}

static void announce_many(const load *l, const tide_work_result *results, int count,
                          int64_t begin_ns)
{
    for (int i = 0; i < count; i++) {
        history_line line;
        begin_many(l, &results[i], begin_ns, &line);
        history_announce(&line, l->history);
    }
}

static void write_many(const load *l, const tide_work_result *results, int count, int64_t begin_ns,
                       bool is_answered, bool was_open)
{
    for (int i = 0; i < count; i++) {
        history_line line;
        const tide_status status = !is_answered         ? TIDE_E_OUTCOME_UNKNOWN
                                   : results[i].is_lost ? TIDE_E_LEASE_LOST
                                                        : TIDE_OK;
        begin_many(l, &results[i], begin_ns, &line);
        history_end(&line, l->history, result_of(status, was_open));
    }
}

static tide_status finish_rest(const load *l, const tide_work_claims *claims, int from,
                               tide_error *err)
{
    char outputs[CLAIM_BATCH][48];
    tide_work_result results[CLAIM_BATCH];
    const int count = claims->count - from;
    for (int i = 0; i < count; i++) {
        const tide_work_claimed *item = &claims->items[from + i];
        load_output(outputs[i], "many", item->lease_token);
        results[i] = (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = item->work_item_id,
                                        .token = item->lease_token, .output = outputs[i]};
        l->say(l, "try", item->work_item_id, item->lease_token);
    }
    if (count == 0)
        return TIDE_OK;
    const int64_t begin_ns = history_now_ns();
    announce_many(l, results, count, begin_ns);
    tide_status status = tide_work_finish_many(l->store, results, count, err);
    bool was_open = is_open(status);
    for (int i = 0; may_pass(l, status) && i < FINISH_TRIES; i++) {
        wait_for(l, TROUBLE_US);
        status = tide_work_finish_many(l->store, results, count, err);
        was_open = was_open || is_open(status);
    }
    const bool is_answered =
        status == TIDE_OK || status == TIDE_E_PARTIAL || status == TIDE_E_LEASE_LOST;
    write_many(l, results, count, begin_ns, is_answered, was_open);
    for (int i = 0; i < count && is_answered; i++)
        if (!results[i].is_lost)
            l->say(l, "done", results[i].work_item_id, results[i].token);
    return is_answered || may_pass(l, status) ? TIDE_OK : status;
}

static tide_status renew_all(const load *l, const tide_work_claims *claims, tide_error *err)
{
    tide_work_ref refs[CLAIM_BATCH];
    for (int i = 0; i < claims->count; i++)
        refs[i] = (tide_work_ref){TIDE_WORK_REF_INIT, .work_item_id = claims->items[i].work_item_id,
                                  .token = claims->items[i].lease_token};
    const int64_t begin_ns = history_now_ns();
    const tide_status status = tide_work_renew(l->store, refs, claims->count, LOAD_LEASE_US, err);
    const int64_t end_ns = history_now_ns();
    for (int i = 0; status == TIDE_OK && i < claims->count; i++) {
        history_line line;
        begin_token_line(l, &line, "renew", begin_ns, refs[i].work_item_id, refs[i].token);
        history_end_at(&line, l->history, HISTORY_OK, end_ns);
    }
    const bool is_fine = status == TIDE_OK || status == TIDE_E_PARTIAL ||
                         status == TIDE_E_LEASE_LOST || may_pass(l, status);
    return is_fine ? TIDE_OK : status;
}

static tide_status work_on(const load *l, const tide_work_claims *claims, prng *chance,
                           tide_error *err)
{
    const int single = l->is_hasty || l->is_split
                           ? claims->count
                           : (int)prng_below(chance, (uint64_t)claims->count + 1);
    if (prng_chance(chance, 1, 3))
        TIDE_TRY(renew_all(l, claims, err));
    for (int i = 0; i < single; i++)
        TIDE_TRY(finish_one(l, &claims->items[i], err));
    return finish_rest(l, claims, single, err);
}

static tide_status look_after(const load *l, tide_watch *watch, tide_error *err)
{
    tide_work_swept swept;
    const tide_status status = tide_work_sweep(l->store, 0, 0, &swept, err);
    if (status < TIDE_OK && !may_pass(l, status))
        return status;
    TIDE_IGNORE(tide_watch_wait(watch, IDLE_US, NULL));
    return TIDE_OK;
}

static tide_status work_plainly(load *l, prng *chance, tide_error *err)
{
    (void)snprintf(l->name, sizeof l->name, "plain-%d", (int)l->child);
    TIDE_CLEANUP(tide_watch_closep) tide_watch *watch = NULL;
    TIDE_TRY(tide_watch_open(&watch, l->store, TIDE_WORK_TOPIC, err));
    while (!atomic_load(l->stop)) {
        const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = l->name,
                                                 .limit = CLAIM_BATCH, .lease_us = LOAD_LEASE_US};
        tide_work_claims claims;
        const int64_t begin_ns = history_now_ns();
        tide_status status = tide_work_claim(l->store, &request, &claims, err);
        for (int i = 0; status == TIDE_OK && i < claims.count; i++)
            write_claim(l, &claims.items[i], begin_ns);
        if (status == TIDE_OK)
            status = work_on(l, &claims, chance, err);
        else if (status == TIDE_NONE || may_pass(l, status))
            status = look_after(l, watch, err);
        tide_work_claims_done(&claims);
        TIDE_TRY(status);
    }
    return TIDE_OK;
}

tide_status load_run(load *l, tide_error *err)
{
    prng chance;
    prng_init(&chance, l->seed * 1000003 + (uint64_t)(l->cycle * 10007 + l->child * 101));
    if (l->role == LOAD_ADD)
        return add_items(l, &chance, err);
    return l->role == LOAD_RUNTIME ? run_runtime(l, err) : work_plainly(l, &chance, err);
}
