/* commit.c - records become numbered and durable.
 *
 * Numbers are taken inside the transaction. Patching them in, chaining and packing cost more than the rows do, and the
 * writer serves everybody; so a batch is prepared before, for the place where the stream's head stood a moment ago (where
 * our last commit left it, or where a look finds it), and the transaction looks whether it still stands there. If it
 * does not, the batch is made again inside. With one committer per stream that does not happen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/feed.h>
#include <tidemark/lease.h>
#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/list.h"
#include "feed/parts.h"
#include "feed/record.h"
#include "feed/walk.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- batches of a commit ---- */

/* The records of a commit as the batches that they become.
 *
 * What fits into one batch is one; more is cut where a batch is full. The times and services of all records of a stream stand for those of
 * each of its batches: they say what may be there.
 *
 * Threads: pure. */
/* Stream by stream, in the order of the records; bytes, stream and services are borrowed from them. */
typedef struct tide_portions {
    tide_feed_records *list;
    int count;
} tide_portions;

static void portions_done(tide_portions *p)
{
    free(p->list);
}

static bool is_one_batch(const tide_feed_records *records)
{
    return records->count <= TIDE_FEED_BATCH_RECORDS_MAX &&
           records->len <= TIDE_FEED_BATCH_BYTES_MAX;
}

static tide_status add_portion(tide_portions *p, const tide_feed_records *records, size_t at,
                               size_t len, int count, tide_error *err)
{
    TIDE_TRY(tide_list_room(&p->list, p->count, sizeof *p->list, TIDE_LIST_MAX, err));
    tide_feed_records *portion = &p->list[p->count++];
    *portion = *records;
    portion->bytes += at;
    portion->len = len;
    portion->count = count;
    return TIDE_OK;
}

/* Cut where a batch is full. */
static tide_status cut(tide_portions *p, const tide_feed_records *records, tide_error *err)
{
    const tide_stream_type *type = tide_stream_type_find(records->stream);
    if (!type)
        type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    tide_view rest = tide_view_bytes(records->bytes, records->len);
    tide_record record;
    size_t at = 0;
    size_t len = 0;
    int count = 0;
    int total = 0;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        if (count == TIDE_FEED_BATCH_RECORDS_MAX ||
            len + record.bytes.len > TIDE_FEED_BATCH_BYTES_MAX) {
            TIDE_TRY(add_portion(p, records, at, len, count, err));
            at += len;
            len = 0;
            count = 0;
        }
        len += record.bytes.len;
        count++;
        total++;
    }
    if (rest.len > 0 || total != records->count)
        return tide_fail(err, TIDE_E_INVALID, "%s: not %d whole records", records->stream,
                         records->count);
    return add_portion(p, records, at, len, count, err);
}

/* Into zeroed portions. TIDE_E_INVALID: bytes that are not as many whole records as they say. */
static tide_status portions_cut(tide_portions *p, const tide_feed_records *records, int count,
                                tide_error *err)
{
    for (int i = 0; i < count; i++)
        if (is_one_batch(&records[i]))
            TIDE_TRY(add_portion(p, &records[i], 0, records[i].len, records[i].count, err));
        else
            TIDE_TRY(cut(p, &records[i], err));
    return TIDE_OK;
}

/* Tell the records the numbers that their batches got. */
static void portions_number(const tide_portions *p, tide_feed_records *records, int count)
{
    for (int i = 0, at = 0; i < count; i++) {
        records[i].first_seq = p->list[at].first_seq;
        for (int taken = 0; taken < records[i].count; at++)
            taken += p->list[at].count;
        records[i].last_seq = p->list[at - 1].last_seq;
    }
}

enum {
    BODY_MAX = TIDE_FEED_BATCH_BYTES_MAX + (TIDE_FEED_BATCH_BYTES_MAX >> 7) + 4096,
    LOOKS_AFTER_REDONE = 64,
};

typedef struct commit {
    tide_feed *feed;
    tide_draft *drafts;
    int count;
    bool is_prepared;
    bool is_head_given_up; /* the last batch's row cannot be read: go on without its chain */
    int64_t redone;
    bool is_there; /* as far as look_again can tell */
} commit;

void tide_draft_done(tide_draft *draft)
{
    tide_buffer_done(&draft->body);
}

/* ---- preparing ---- */

/* Number, chain and pack for a place in the stream, unless that was done already. */
static tide_status make_draft(const tide_feed *feed, tide_draft *draft, int64_t first_seq,
                              const tide_digest128 *chain_before, tide_error *err)
{
    if (draft->is_ready && draft->first_seq == first_seq &&
        tide_digest128_equal(&draft->chain_before, chain_before))
        return TIDE_OK;
    tide_feed_records *records = draft->records;
    if (first_seq > INT64_MAX - records->count)
        return tide_fail(err, TIDE_E_EXHAUSTED, "%s has no numbers left", records->stream);
    draft->is_ready = false;
    draft->first_seq = first_seq;
    draft->chain_before = *chain_before;
    draft->chain = *chain_before;
    const tide_status numbered = tide_record_number(draft->type, records->bytes, records->len,
                                                    records->count, first_seq, &draft->chain, err);
    if (numbered == TIDE_E_DAMAGED)
        return tide_fail_context(err, TIDE_E_INVALID, "%s", records->stream);
    const tide_view raw = tide_view_bytes(records->bytes, records->len);
    const tide_status packed = tide_batch_pack(&draft->body, feed->codec, raw, err);
    TIDE_TRY(packed);
    draft->codec = packed == TIDE_OK ? feed->codec : TIDE_CODEC_NONE;
    if (packed == TIDE_NONE)
        tide_buffer_done(&draft->body);
    draft->body_crc = tide_crc32c(packed == TIDE_OK ? tide_buffer_view(&draft->body) : raw);
    draft->is_ready = true;
    return TIDE_OK;
}

static tide_view get_body(const tide_draft *draft)
{
    return draft->codec == TIDE_CODEC_NONE
               ? tide_view_bytes(draft->records->bytes, draft->records->len)
               : tide_buffer_view(&draft->body);
}

/* Where the heads stand now; the transaction will look again. */
static tide_status look_at_heads(tide_tx *tx, void *arg, tide_error *err)
{
    commit *c = arg;
    for (int i = 0; i < c->count; i++) {
        tide_stream_state state;
        TIDE_TRY(tide_stream_find(&state, tx, c->drafts[i].records->stream, err));
        if (!c->is_head_given_up)
            TIDE_TRY(tide_stream_read_head(&state, tx, err));
        c->drafts[i].type = state.type;
        c->drafts[i].is_ready = false;
        c->drafts[i].first_seq = state.head_seq + 1;
        c->drafts[i].chain_before = state.chain;
    }
    return TIDE_OK;
}

/* By its id; 0: this process has not committed to it. */
static int find_known(const tide_feed *feed, const char *stream)
{
    for (int i = 1; i <= TIDE_FEED_STREAMS_MAX; i++)
        if (atomic_load(&feed->heads[i].is_named) == 2 && strcmp(feed->heads[i].name, stream) == 0)
            return i;
    return 0;
}

/* A look costs a snapshot and the pages that the last commit changed: a fifth of a small commit. */
static bool guess_head(tide_feed *feed, tide_draft *draft)
{
    const int id = find_known(feed, draft->records->stream);
    tide_feed_known *known = &feed->heads[id];
    if (id == 0 || atomic_exchange(&known->is_guess_held, true))
        return false;
    const bool is_guess = known->guess.type && known->guess.looks_left == 0;
    if (is_guess) {
        draft->type = known->guess.type;
        draft->is_ready = false;
        draft->first_seq = known->guess.head_seq + 1;
        draft->chain_before = known->guess.chain;
    } else if (known->guess.looks_left > 0) {
        known->guess.looks_left--;
    }
    atomic_store(&known->is_guess_held, false);
    return is_guess;
}

static void note_head(tide_feed_known *known, const tide_draft *draft)
{
    if (atomic_exchange(&known->is_guess_held, true))
        return;
    if (draft->is_redone || draft->records->last_seq > known->guess.head_seq) {
        known->guess.type = draft->type;
        known->guess.head_seq = draft->records->last_seq;
        known->guess.chain = draft->chain;
    }
    if (draft->is_redone)
        known->guess.looks_left = LOOKS_AFTER_REDONE;
    atomic_store(&known->is_guess_held, false);
}

static bool guess_heads(commit *c)
{
    bool are_guessed = !c->is_head_given_up;
    for (int i = 0; i < c->count && are_guessed; i++)
        are_guessed = guess_head(c->feed, &c->drafts[i]);
    return are_guessed;
}

static tide_status prepare(commit *c, tide_error *err)
{
    c->is_prepared = false;
    if (!guess_heads(c))
        TIDE_TRY(tide_store_read_local(c->feed->store, look_at_heads, c, err));
    for (int i = 0; i < c->count; i++) {
        tide_draft *draft = &c->drafts[i];
        if (draft->is_next) {
            draft->first_seq = draft[-1].first_seq + draft[-1].records->count;
            draft->chain_before = draft[-1].chain;
        }
        const tide_digest128 chain = draft->chain_before;
        TIDE_TRY(make_draft(c->feed, draft, draft->first_seq, &chain, err));
    }
    c->is_prepared = true;
    return TIDE_OK;
}

/* ---- the transaction ---- */

tide_status tide_feed_epoch_add(tide_tx *tx, const tide_stream_state *state, int64_t first_seq,
                                tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_FEED_EPOCH_ADD, NULL, err, tide_bind_i64("stream", state->id),
                        tide_bind_i64("epoch", state->epoch), tide_bind_i64("first", first_seq));
}

tide_status tide_feed_sequence_raise(tide_tx *tx, const tide_stream_state *state, int64_t last_seq,
                                     int64_t at_us, tide_error *err)
{
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_FEED_SEQUENCE_RAISE, NULL, err,
                          tide_bind_text("name", state->sequence), tide_bind_i64("last", last_seq),
                          tide_bind_time("at", at_us)));
    tide_tx_raised(tx, state->sequence, last_seq);
    return TIDE_OK;
}

tide_status tide_feed_walk_add(tide_tx *tx, const tide_batch_head *head, tide_view body,
                               tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_SQL_FEED_BATCH_ADD, NULL, err, tide_bind_i64("stream", head->stream_id),
        tide_bind_i64("last", head->last_seq), tide_bind_i64("first", head->first_seq),
        tide_bind_i64("epoch", head->epoch), tide_bind_i64("min_time", head->min_time_ms),
        tide_bind_i64("max_time", head->max_time_ms),
        tide_bind_time("arrived_at", head->arrived_us), tide_bind_i64("codec", head->codec),
        tide_bind_i64("raw_len", head->raw_len),
        tide_bind_i64("stored_through", head->stored_through),
        tide_bind_blob("chain_before",
                       tide_view_bytes(head->chain_before.bytes, TIDE_DIGEST128_LEN)),
        tide_bind_blob("chain", tide_view_bytes(head->chain.bytes, TIDE_DIGEST128_LEN)),
        tide_bind_blob("services", head->services), tide_bind_i64("body_crc", head->body_crc),
        tide_bind_i64("head_crc", head->head_crc), tide_bind_blob("body", body));
}

/* A boot whose clock was ahead must not lend its stamps to all that comes later: that would never be too old. See retain.c for what
 * becomes of stamps that do not fit. */
static int64_t get_arrival(const tide_stream_state *state, int64_t now_us)
{
    const int64_t ahead_us = state->arrived_us > now_us ? state->arrived_us - now_us : 0;
    return ahead_us > 0 && ahead_us <= TIDE_FEED_AHEAD_US ? state->arrived_us : now_us;
}

tide_status tide_feed_append(tide_feed *feed, tide_tx *tx, tide_stream_state *state,
                             tide_draft *draft, int64_t now_us, tide_error *err)
{
    const int64_t first_seq = state->head_seq + 1;
    TIDE_TRY(make_draft(feed, draft, first_seq, &state->chain, err));
    tide_feed_records *records = draft->records;
    const tide_view body = get_body(draft);
    tide_batch_head head = {
        .stream_id = state->id,
        .first_seq = first_seq,
        .last_seq = first_seq + records->count - 1,
        .epoch = state->epoch,
        .min_time_ms = records->min_time_ms,
        .max_time_ms = records->max_time_ms,
        .arrived_us = get_arrival(state, now_us),
        .codec = (int64_t)draft->codec,
        .raw_len = (int64_t)records->len,
        .stored_through = state->stored_through + (int64_t)body.len,
        .chain_before = draft->chain_before,
        .chain = draft->chain,
        .services = records->services,
        .body_crc = draft->body_crc,
    };
    head.head_crc = tide_batch_head_crc(&head);
    if (state->written_epoch != state->epoch)
        TIDE_TRY(tide_feed_epoch_add(tx, state, first_seq, err));
    TIDE_TRY(tide_feed_walk_add(tx, &head, body, err));
    TIDE_TRY(tide_feed_sequence_raise(tx, state, head.last_seq, head.arrived_us, err));
    records->first_seq = head.first_seq;
    records->last_seq = head.last_seq;
    state->head_seq = head.last_seq;
    state->chain = head.chain;
    state->arrived_us = head.arrived_us;
    state->stored_through = head.stored_through;
    state->written_epoch = state->epoch;
    return TIDE_OK;
}

static tide_status store_drafts(tide_tx *tx, void *arg, tide_error *err)
{
    commit *c = arg;
    int64_t now_us = 0;
    c->redone = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    for (int i = 0; i < c->count; i++) {
        tide_draft *draft = &c->drafts[i];
        tide_stream_state state;
        TIDE_TRY(tide_stream_find(&state, tx, draft->records->stream, err));
        if (!c->is_head_given_up)
            TIDE_TRY(tide_stream_read_head(&state, tx, err));
        draft->is_redone = draft->first_seq != state.head_seq + 1;
        if (draft->is_redone)
            c->redone++;
        draft->type = state.type;
        draft->stream_id = state.id;
        TIDE_TRY(tide_feed_append(c->feed, tx, &state, draft, now_us, err));
    }
    return tide_tx_notify(tx, TIDE_FEED_TOPIC, err);
}

/* ---- checking ---- */

static tide_status check_records(const tide_feed_records *records, tide_error *err)
{
    if (!records->stream)
        return tide_fail(err, TIDE_E_INVALID, "records of no stream");
    if (records->count < 1 || records->len == 0 || !records->bytes)
        return tide_fail(err, TIDE_E_INVALID, "%s: no records", records->stream);
    if (records->count > TIDE_FEED_COMMIT_RECORDS_MAX || records->len > TIDE_FEED_COMMIT_BYTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT,
                         "%s: %d records of %zu bytes in one commit, at most %d of %d",
                         records->stream, records->count, records->len,
                         TIDE_FEED_COMMIT_RECORDS_MAX, TIDE_FEED_COMMIT_BYTES_MAX);
    if (records->min_time_ms > records->max_time_ms)
        return tide_fail(err, TIDE_E_INVALID, "%s: the records' times end before they begin",
                         records->stream);
    const tide_view services = records->services;
    if (services.len > TIDE_RECORD_SERVICES_LEN_MAX ||
        (services.len > 0 && services.ptr[services.len - 1] != '\0'))
        return tide_fail(err, TIDE_E_INVALID, "%s: not a set of services", records->stream);
    return TIDE_OK;
}

static tide_status check_all(const tide_feed *feed, const tide_feed_records *records, int count,
                             tide_error *err)
{
    for (int i = 0; i < count; i++) {
        TIDE_TRY(check_records(&records[i], err));
        for (int j = 0; j < i; j++)
            if (strcmp(records[i].stream, records[j].stream) == 0)
                return tide_fail(err, TIDE_E_INVALID, "%s stands in one commit twice",
                                 records[i].stream);
    }
    /* The room that was freed is the reserve's first: with it the next full disk can be met. */
    if (tide_reserve_is_lent(feed->reserve))
        return tide_fail(err, TIDE_E_FULL, "the disk is full; room is being made");
    /* Retention is given a margin to catch up; without it the disk would fill. */
    const int64_t bytes = atomic_load_explicit(&feed->bytes, memory_order_relaxed);
    if (bytes - feed->options.hard_bytes > feed->options.hard_bytes / 8)
        return tide_fail(err, TIDE_E_FULL,
                         "%" PRId64 " bytes are stored, %" PRId64
                         " are allowed, and retention has not caught up",
                         bytes, feed->options.hard_bytes);
    return TIDE_OK;
}

static void know_head(tide_feed *feed, const tide_draft *draft)
{
    if (draft->stream_id < 1 || draft->stream_id > TIDE_FEED_STREAMS_MAX)
        return;
    tide_feed_known *known = &feed->heads[draft->stream_id];
    int is_named = 0;
    if (atomic_compare_exchange_strong(&known->is_named, &is_named, 1)) {
        (void)snprintf(known->name, sizeof known->name, "%s", draft->records->stream);
        atomic_store(&known->is_named, 2);
    }
    note_head(known, draft);
    int64_t head_seq = atomic_load(&known->head_seq);
    while (head_seq < draft->records->last_seq &&
           !atomic_compare_exchange_weak(&known->head_seq, &head_seq, draft->records->last_seq)) {
        /* somebody else raised it */
    }
}

int64_t tide_feed_head(const tide_feed *feed, const char *stream)
{
    const int id = feed && stream ? find_known(feed, stream) : 0;
    return id > 0 ? atomic_load(&feed->heads[id].head_seq) : -1;
}

static void count_commit(tide_feed *feed, const commit *c)
{
    atomic_fetch_add(&feed->commits, 1);
    atomic_fetch_add(&feed->redone, c->redone);
    for (int i = 0; i < c->count; i++) {
        const int64_t stored = (int64_t)get_body(&c->drafts[i]).len;
        atomic_fetch_add(&feed->records, c->drafts[i].records->count);
        atomic_fetch_add(&feed->raw_bytes, (int64_t)c->drafts[i].records->len);
        atomic_fetch_add(&feed->stored_bytes, stored);
        atomic_fetch_add(&feed->bytes, stored);
        know_head(feed, &c->drafts[i]);
    }
}

static tide_status run(commit *c, tide_error *err)
{
    TIDE_TRY(prepare(c, err));
    return tide_store_write(c->feed->store, store_drafts, c, err);
}

/* ---- an unknown outcome ---- */

/* Are the batches there? Numbers and digests say so. The mark makes this a real write: it comes to lie where the failed commit's
 * remains are, so that no crash can bring those back. */
static tide_status look_again(tide_tx *tx, void *arg, tide_error *err)
{
    commit *c = arg;
    c->is_there = true;
    for (int i = 0; i < c->count; i++) {
        const tide_draft *draft = &c->drafts[i];
        tide_stream_state state;
        tide_digest128 digest;
        TIDE_TRY(tide_stream_find(&state, tx, draft->records->stream, err));
        const tide_status status = tide_stream_digest_at(
            &state, tx, draft->first_seq + draft->records->count - 1, &digest, err);
        TIDE_TRY(status);
        c->is_there = c->is_there && status == TIDE_OK && draft->is_ready &&
                      tide_digest128_equal(&digest, &draft->chain);
    }
    return tide_tx_exec(tx, TIDE_SQL_IDENTITY_MARK, NULL, err, TIDE_NO_BIND);
}

/* The store could not tell whether the commit took effect. If it can be written to again, we can. */
static tide_status resolve(commit *c, tide_error *err)
{
    const bool is_full = tide_reserve_shrink(c->feed->reserve);
    tide_error ignored;
    if (tide_store_write(c->feed->store, look_again, c, &ignored) < TIDE_OK)
        return TIDE_E_OUTCOME_UNKNOWN;
    if (c->is_there)
        return TIDE_OK;
    return tide_fail(err, is_full ? TIDE_E_FULL : TIDE_E_UNAVAILABLE,
                     "the commit failed, and nothing was stored");
}

static tide_status commit_drafts(commit *c, tide_error *err)
{
    tide_status status = run(c, err);
    if (status == TIDE_E_DAMAGED) {
        c->is_head_given_up = true;
        status = run(c, err);
    }
    if (status == TIDE_E_OUTCOME_UNKNOWN)
        status = resolve(c, err);
    if (status == TIDE_OK)
        count_commit(c->feed, c);
    else if (status == TIDE_E_FULL || status == TIDE_E_OUTCOME_UNKNOWN)
        atomic_store(&c->feed->is_full, true);
    return status;
}

static tide_status commit_records(tide_feed *feed, tide_feed_records *records, int count,
                                  tide_error *err)
{
    TIDE_TRY(check_all(feed, records, count, err));
    TIDE_CLEANUP(portions_done) tide_portions p = {.count = 0};
    TIDE_TRY(portions_cut(&p, records, count, err));
    TIDE_CLEANUP(tide_freep) tide_draft *drafts = calloc((size_t)p.count, sizeof *drafts);
    TIDE_NEED_MEMORY(drafts, err);
    for (int i = 0; i < p.count; i++) {
        drafts[i].records = &p.list[i];
        drafts[i].is_next = i > 0 && p.list[i].stream == p.list[i - 1].stream;
        tide_buffer_init(&drafts[i].body, BODY_MAX);
    }
    commit c = {.feed = feed, .drafts = drafts, .count = p.count};
    const tide_status status = commit_drafts(&c, err);
    if (status == TIDE_OK)
        portions_number(&p, records, count);
    for (int i = 0; i < p.count; i++)
        tide_draft_done(&drafts[i]);
    return status;
}

tide_status tide_feed_commit(tide_feed *feed, tide_feed_records *records, int count,
                             tide_error *err)
{
    TIDE_NEED(feed, err);
    if (count < 1 || count > TIDE_FEED_COMMIT_STREAMS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a commit has records of 1 to %d streams, not %d",
                         TIDE_FEED_COMMIT_STREAMS_MAX, count);
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(TIDE_SIZED_LIST(&list, records, count, tide_feed_records, err));
    const tide_status status = commit_records(feed, list.items, count, err);
    tide_sized_list_return(&list);
    return status;
}
