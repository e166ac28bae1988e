/* A changed bit in the file of a store: it is reported, or all answers are byte for byte what they were. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "runtime/store_verify.h"
#include "store/engine.h"
#include "store/identity_marker.h"
#include "support/disk/flips.h"

enum { ITEMS = 24, KEYS = 8 };

/* ---- a store ---- */

static void hear_failure(void *arg, tide_status status, const char *text)
{
    if (status < TIDE_OK)
        flip_report(arg, text);
}

static char session[64]; /* of the case */

static tide_store *open_told(store_test *t, flip_answers *a, char marker[TEMPDIR_PATH_MAX])
{
    tide_store *store = NULL;
    tide_identity identity;
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    if (marker[0])
        (void)unlink(marker); /* it belongs to a file that was not changed */
    if (flip_is_told(a, tide_store_open(&store, t->url, &options, &t->err), &t->err))
        return NULL;
    (void)snprintf(marker, TEMPDIR_PATH_MAX, "%s", tide_identity_marker_path(store->marker));
    tide_store_on_failure(store, hear_failure, a);
    tide_store_identity(store, &identity);
    if (tide_store_epoch_changes(store) > 0)
        flip_report(a, "an epoch began");
    /* Every reader holds the session of its position against this one. */
    if (session[0] && strcmp(session, identity.session_id) != 0)
        flip_report(a, "another session");
    else if (!session[0])
        (void)snprintf(session, sizeof session, "%s", identity.session_id);
    flip_say(a, "R epoch %lld", (long long)identity.epoch);
    return store;
}

static void hear_finding(void *arg, const char *finding)
{
    flip_report(arg, finding);
}

static void verify_pages(store_test *t, flip_answers *a, char marker[TEMPDIR_PATH_MAX])
{
    tide_values_checked values;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = open_told(t, a, marker);
    if (store)
        (void)flip_is_told(a, tide_store_verify_all(store, hear_finding, a, &values, &t->err),
                           &t->err);
}

/* ---- work and journal ---- */

typedef struct work_scene {
    store_test *t;
    char marker[TEMPDIR_PATH_MAX];
} work_scene;

static void make_answered_key(store_test *t, int n)
{
    char key[32];
    char response[64];
    tide_idempotency_state state = {.token = 0};
    (void)snprintf(key, sizeof key, "key-%d", n);
    (void)snprintf(response, sizeof response, "{\"response\":%d}", n * 1000);
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = key,
                                              .request_hash = "sha256:x", .task_id = "t"};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &state, &t->err), &t->err);
    assert_ok_err(
        tide_idempotency_complete(t->store, key, state.token, tide_view_of(response), &t->err),
        &t->err);
}

static void make_work(void *scene)
{
    store_test *t = ((work_scene *)scene)->t;
    static const char *const types[] = {"job"};
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_ok_err(tide_task_create(t->store, &task, id, &t->err), &t->err);
    for (int n = 0; n < ITEMS; n++) {
        char input[700];
        tide_work_added added;
        (void)snprintf(id, sizeof id, "item-%02d", n);
        (void)snprintf(input, sizeof input, "{\"input\":%d,\"text\":\"%0*d\"}", n, n * 24, n);
        const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .work_item_id = id, .task_id = "t",
                                     .work_type = "job",  .input = input,     .max_retries = -1};
        assert_ok_err(tide_work_add(t->store, &item, 1, &added, &t->err), &t->err);
        const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "t",
                                                .type = "tool_executed",
                                                .snapshot = tide_view_of(input)};
        tide_checkpoint_numbers numbers;
        assert_ok_err(tide_journal_append(t->store, &checkpoint, &numbers, &t->err), &t->err);
    }
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = types, .type_count = 1, .limit = ITEMS / 2};
    assert_ok_err(tide_work_claim(t->store, &request, &claims, &t->err), &t->err);
    for (int n = 0; n < claims.count; n++) {
        char output[64];
        (void)snprintf(output, sizeof output, "{\"output\":%d}", n);
        tide_work_result result = {TIDE_WORK_RESULT_INIT,
                                   .work_item_id = claims.items[n].work_item_id,
                                   .token = claims.items[n].lease_token, .output = output};
        assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
    }
    tide_work_claims_done(&claims);
    for (int n = 0; n < KEYS; n++)
        make_answered_key(t, n);
}

/* The type of an ended item is in no index, and in no digest: what its worker was given, and gave, is. */
static tide_status say_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    const bool has_ended = strcmp(item->status, "completed") == 0;
    flip_say(arg, "V input of %s: %s", item->work_item_id, item->input ? item->input : "none");
    flip_say(arg, "V output of %s: %s", item->work_item_id, item->output ? item->output : "none");
    flip_say(arg, "R item %s %s %s %s", item->work_item_id, item->task_id,
             has_ended ? "ended" : item->work_type, item->status);
    return TIDE_OK;
}

static tide_status say_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    flip_say(arg, "V response of %s: %.*s", key->name, (int)key->response.len, key->response.ptr);
    flip_say(arg, "R key %s %s", key->name, key->status);
    return TIDE_OK;
}

static tide_status say_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    flip_say(arg, "V checkpoint %lld %lld %s %s %.*s", (long long)checkpoint->global_sequence,
             (long long)checkpoint->sequence_number, checkpoint->task_id, checkpoint->type,
             (int)checkpoint->snapshot.len, checkpoint->snapshot.ptr);
    return TIDE_OK;
}

static void say_claims(store_test *t, tide_store *store, flip_answers *a)
{
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .limit = ITEMS};
    if (!flip_is_told(a, tide_work_claim(store, &request, &claims, &t->err), &t->err))
        for (int n = 0; n < claims.count; n++)
            flip_say(a, "V input of %s: %s", claims.items[n].work_item_id,
                     claims.items[n].input ? claims.items[n].input : "none");
    tide_work_claims_done(&claims);
}

static void ask_work(void *scene, flip_answers *a)
{
    work_scene *s = scene;
    store_test *t = s->t;
    char name[32];
    TIDE_CLEANUP(tide_store_closep) tide_store *store = open_told(t, a, s->marker);
    if (!store)
        return;
    for (int n = 0; n < ITEMS; n++) {
        (void)snprintf(name, sizeof name, "item-%02d", n);
        (void)flip_is_told(a, tide_work_find(store, name, say_item, a, &t->err), &t->err);
    }
    const tide_work_filter all = {TIDE_WORK_FILTER_INIT, .limit = 1000};
    (void)flip_is_told(a, tide_work_list(store, &all, say_item, a, &t->err), &t->err);
    for (int n = 0; n < KEYS; n++) {
        (void)snprintf(name, sizeof name, "key-%d", n);
        (void)flip_is_told(a, tide_idempotency_find(store, name, say_key, a, &t->err), &t->err);
    }
    const tide_journal_filter history = {TIDE_JOURNAL_FILTER_INIT, .task_id = "t",
                                         .with_snapshot = true};
    (void)flip_is_told(a, tide_journal_list(store, &history, say_checkpoint, a, &t->err), &t->err);
    say_claims(t, store, a);
}

static void verify_work(void *scene, flip_answers *a)
{
    work_scene *s = scene;
    tide_journal_report sum;
    verify_pages(s->t, a, s->marker);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = open_told(s->t, a, s->marker);
    if (store)
        (void)flip_is_told(a, tide_journal_verify(store, NULL, hear_finding, a, &sum, &s->t->err),
                           &s->t->err);
}

static void no_bit_of_a_store_of_work_and_journal_is_silent(void **state)
{
    work_scene s = {.t = *state};
    session[0] = '\0';
    make_work(&s);
    (void)snprintf(s.marker, sizeof s.marker, "%s", tide_identity_marker_path(s.t->store->marker));
    tide_store_closep(&s.t->store);
    const flip_kind work = {"work and journal", s.t->url, ask_work, verify_work};
    flip_sweep(&work, &s);
}

/* ---- the feed ---- */

static const char *const streams[] = {"logs"};

static void make_feed(void *scene)
{
    store_test *t = ((work_scene *)scene)->t;
    tide_feed *feed = NULL;
    assert_ok_err(tide_feed_open(&feed, t->store, NULL, &t->err), &t->err);
    for (int n = 0; n < 30; n++) {
        tide_record_batch batch;
        tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
        for (int i = 0; i < 20; i++) {
            char body[64];
            (void)snprintf(body, sizeof body, "record %d of batch %d", i, n);
            tide_record_begin(&batch);
            tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, 1000 * n + i);
            tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_of("api"));
            tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of(body));
            assert_ok(tide_record_end(&batch));
        }
        tide_feed_records records = tide_record_batch_feed(&batch, NULL);
        assert_ok_err(tide_feed_commit(feed, &records, 1, &t->err), &t->err);
        tide_record_batch_done(&batch);
    }
    tide_feed_close(feed);
}

static void say_page(flip_answers *a, const char *stream, const tide_feed_answer *answer)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    const char *before = rest.ptr;
    while (tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &rest, &record) == TIDE_OK) {
        flip_say_bytes(a, stream, record.seq, tide_view_bytes(before, (size_t)(rest.ptr - before)));
        before = rest.ptr;
    }
    for (int i = 0; i < answer->hole_count; i++)
        flip_report(a, answer->holes[i].reason);
    if (answer->standing != TIDE_FEED_STANDING_NONE)
        flip_report(a, "another standing");
    flip_say(a, "R %s to %lld, head %lld, oldest %lld", stream,
             (long long)answer->scanned_through_seq, (long long)answer->head_seq,
             (long long)answer->oldest_seq);
}

static void ask_feed(void *scene, flip_answers *a)
{
    work_scene *s = scene;
    store_test *t = s->t;
    tide_feed *feed = NULL;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = open_told(t, a, s->marker);
    if (!store || flip_is_told(a, tide_feed_open(&feed, store, NULL, &t->err), &t->err))
        return;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = streams[i],
                                     .max_records = 200};
        bool has_more = true;
        for (int pages = 0; has_more && pages < 100; pages++) {
            tide_feed_answer answer = {0};
            if (flip_is_told(a, tide_feed_read(feed, &request, &answer, &t->err), &t->err))
                break;
            say_page(a, streams[i], &answer);
            has_more = answer.has_more && answer.scanned_through_seq > request.start_seq;
            request.start_seq = answer.scanned_through_seq;
            tide_feed_answer_done(&answer);
        }
    }
    tide_feed_close(feed);
}

static void hear_of_stream(void *arg, const char *stream, const char *finding)
{
    (void)stream;
    flip_report(arg, finding);
}

static void verify_feed(void *scene, flip_answers *a)
{
    work_scene *s = scene;
    tide_feed *feed = NULL;
    verify_pages(s->t, a, s->marker);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = open_told(s->t, a, s->marker);
    if (!store || flip_is_told(a, tide_feed_open(&feed, store, NULL, &s->t->err), &s->t->err))
        return;
    (void)flip_is_told(a, tide_feed_verify(feed, NULL, hear_of_stream, a, &s->t->err), &s->t->err);
    tide_feed_close(feed);
}

static void no_bit_of_a_store_of_a_feed_is_silent(void **state)
{
    work_scene s = {.t = *state};
    session[0] = '\0';
    make_feed(&s);
    (void)snprintf(s.marker, sizeof s.marker, "%s", tide_identity_marker_path(s.t->store->marker));
    tide_store_closep(&s.t->store);
    const flip_kind feed = {"feed", s.t->url, ask_feed, verify_feed};
    flip_sweep(&feed, &s);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(no_bit_of_a_store_of_work_and_journal_is_silent),
        STORE_CASE_SQLITE(no_bit_of_a_store_of_a_feed_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
