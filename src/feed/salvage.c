/* salvage.c - what is readable, into a new store.
 *
 * Batches are copied as they are, a page of them per transaction; only their heads are sealed again for the new store. What cannot be
 * read becomes a loss there, with a receipt. The receipts that were there are copied first, so that new ones come behind them.
 * Numbers behind the last batch that could be saved are given out again: the new store is another session. */
#include <tidemark/feed.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/lease.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "feed/parts.h"
#include "feed/walk.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    PAGE_BATCHES = 256,
    PAGE_BYTES = 16 << 20,
    FRAMES_PAGE = 1000,
};

typedef struct picked {
    tide_batch_head head;
    tide_view body;
} picked;

typedef struct salvage {
    tide_feed *from;
    tide_feed *to;
    const char *stream;
    tide_feed_salvaged total;
    int64_t position; /* where the next page begins */
    int64_t reading;  /* see verify.c */
    bool is_done;
    bool is_first;    /* nothing of this stream was copied yet */
    bool is_row_lost; /* the row of this stream cannot be read */
    /* the page */
    tide_stream_state state; /* of the source */
    bool is_begun;
    tide_feed_salvaged total_before;
    int64_t begin;
    int64_t at;
    picked batches[PAGE_BATCHES];
    int count;
    tide_loss losses[PAGE_BATCHES];
    int loss_count;
    bool has_unsound; /* a batch behind `at` has a head that is not what was written */
    tide_arena arena;
    tide_buffer raw;
} salvage;

/* ---- from the old store ---- */

static void lose(salvage *s, int64_t last_seq, const char *reason, const char *detail)
{
    tide_loss *before = s->loss_count > 0 ? &s->losses[s->loss_count - 1] : NULL;
    if (before && before->last_seq == s->at && strcmp(before->reason, reason) == 0)
        before->last_seq = last_seq;
    else if (last_seq > s->at && s->loss_count < PAGE_BATCHES) {
        tide_loss *loss = &s->losses[s->loss_count++];
        *loss = (tide_loss){.first_seq = s->at + 1, .last_seq = last_seq, .reason = reason};
        (void)strncpy(loss->detail, detail, sizeof loss->detail - 1);
    }
    s->at = last_seq;
}

/* A gap before a batch: noted as it was, or missing. */
static tide_status pick_gap(salvage *s, tide_tx *tx, int64_t last_seq, tide_error *err)
{
    while (s->at < last_seq) {
        tide_loss loss;
        const tide_status status = tide_loss_next(tx, s->state.id, s->at, &loss, err);
        TIDE_TRY(status);
        const bool has_loss = status == TIDE_OK && loss.first_seq <= last_seq;
        const int64_t bare_end = has_loss ? loss.first_seq - 1 : last_seq;
        if (bare_end > s->at) {
            s->total.lost_records += bare_end - s->at;
            lose(s, bare_end, s->has_unsound ? "damaged" : "lost",
                 s->has_unsound ? "the head's checksum does not fit"
                                : "no batch had these numbers");
        }
        if (has_loss)
            lose(s, loss.last_seq < last_seq ? loss.last_seq : last_seq, loss.reason, loss.detail);
    }
    return TIDE_OK;
}

static tide_status pick_body(salvage *s, tide_tx *tx, const tide_batch_head *head, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_BATCH_BODY, err, tide_bind_i64("id", head->id));
    const tide_status status = tide_query_step(query, err);
    TIDE_TRY(status);
    const tide_view body = status == TIDE_OK ? tide_query_col_blob(query) : tide_view_bytes("", 0);
    tide_error why;
    tide_status sound = tide_batch_unpack(&s->raw, head, body, &why);
    if (sound >= TIDE_OK)
        sound = tide_batch_check(s->state.type, head, tide_buffer_view(&s->raw), &why);
    if (sound == TIDE_E_DAMAGED) {
        s->total.lost_batches++;
        s->total.lost_records += head->last_seq - head->first_seq + 1;
        lose(s, head->last_seq, "damaged", why.text);
        return TIDE_OK;
    }
    if (sound < TIDE_OK)
        return tide_fail(err, sound, "%s", why.text);
    picked *p = &s->batches[s->count];
    p->head = *head;
    p->head.services.ptr = tide_arena_copy(&s->arena, head->services.ptr, head->services.len);
    p->body = tide_view_bytes(tide_arena_copy(&s->arena, body.ptr, body.len), body.len);
    TIDE_NEED_MEMORY(p->head.services.ptr && p->body.ptr, err);
    s->count++;
    s->at = head->last_seq;
    return TIDE_OK;
}

/* Its first numbers are another's, which was picked: what it has behind those is lost with it. */
static void pass_overlap(salvage *s, const tide_batch_head *head)
{
    s->total.lost_batches++;
    s->total.lost_records += head->last_seq - head->first_seq + 1;
    if (head->last_seq > s->at)
        lose(s, head->last_seq, "damaged", "two batches had the same numbers");
}

/* Of a built-in stream everything but its floor is known without its row, or does not matter here. The
 * first batch tells the floor. */
static tide_status guess_state(salvage *s, tide_tx *tx, tide_error *err)
{
    const tide_stream_type *type = tide_stream_type_find(s->stream);
    s->state = (tide_stream_state){.id = (int64_t)type->kind + 1, .type = type};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_FEED_BATCH_RANGE, err,
                    tide_bind_i64("stream", s->state.id), tide_bind_i64("after", 0));
    if (status == TIDE_OK)
        s->state.floor_seq = tide_query_col_i64(query) - 1;
    if (s->state.floor_seq < 0)
        s->state.floor_seq = 0;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status pick_page(tide_tx *tx, void *arg, tide_error *err)
{
    salvage *s = arg;
    if (s->is_begun) /* once more: a read may be run again */
        s->total = s->total_before;
    s->is_begun = true;
    s->total_before = s->total;
    s->count = 0;
    s->loss_count = 0;
    s->is_done = false;
    s->has_unsound = false;
    s->reading = -1;
    tide_arena_reset(&s->arena);
    TIDE_TRY(s->is_row_lost ? guess_state(s, tx, err)
                            : tide_stream_find_listed(&s->state, tx, s->stream, err));
    s->at = s->position > s->state.floor_seq ? s->position : s->state.floor_seq;
    s->begin = s->at;
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, s->state.id, s->at, err);
    int64_t bytes = 0;
    while (s->count < PAGE_BATCHES && s->loss_count < PAGE_BATCHES / 2 && bytes < PAGE_BYTES) {
        const tide_feed_salvaged total = s->total;
        const int loss_count = s->loss_count;
        const tide_loss last_loss = s->losses[loss_count > 0 ? loss_count - 1 : 0];
        s->reading = s->at;
        tide_status status = tide_query_step(query, err);
        if (status == TIDE_NONE) { /* what the counter has beyond the last batch is lost, too */
            TIDE_TRY(pick_gap(s, tx, s->state.head_seq, err));
            s->is_done = true;
            break;
        }
        tide_batch_head head;
        if (status >= TIDE_OK)
            tide_feed_walk_read(query, &head);
        /* Its numbers are as doubtful as the rest: the next sound batch tells which ones are missing. */
        if (status >= TIDE_OK && !tide_batch_is_head_sound(&head, s->state.id)) {
            s->total.lost_batches++;
            s->has_unsound = true;
            continue;
        }
        if (status >= TIDE_OK && head.first_seq <= s->at) {
            pass_overlap(s, &head);
            continue;
        }
        if (status >= TIDE_OK && head.first_seq > s->at + 1)
            status = pick_gap(s, tx, head.first_seq - 1, err);
        if (status >= TIDE_OK)
            status = pick_body(s, tx, &head, err);
        if (status < TIDE_OK) { /* what was picked before this batch stands */
            s->total = total;
            s->loss_count = loss_count;
            s->losses[loss_count > 0 ? loss_count - 1 : 0] = last_loss;
            s->at = s->reading;
            return status;
        }
        s->has_unsound = false;
        bytes += head.body_len;
    }
    return TIDE_OK;
}

typedef struct range_request {
    salvage *owner;
    tide_loss loss;
} range_request;

static tide_status find_range(tide_tx *tx, void *arg, tide_error *err)
{
    range_request *request = arg;
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_BATCH_RANGE, err,
                   tide_bind_i64("stream", request->owner->state.id),
                   tide_bind_i64("after", request->owner->reading));
    request->loss.first_seq = tide_query_col_i64(query);
    request->loss.last_seq = tide_query_col_i64(query);
    return TIDE_OK;
}

/* A row that cannot be read ends its page; the next page begins with it, and passes it by here. */
static tide_status pass_unreadable(salvage *s, tide_error *err)
{
    range_request range = {.owner = s};
    const int64_t reading = s->reading;
    const tide_status status = tide_store_read(s->from->store, find_range, &range, err);
    s->count = 0;
    s->loss_count = 0;
    s->at = reading;
    if (status != TIDE_OK || range.loss.last_seq <= reading) {
        s->is_done = true; /* not even the index can be read: the rest is gone */
        s->total.lost_batches++;
        s->total.lost_records += s->state.head_seq > reading ? s->state.head_seq - reading : 0;
        return TIDE_OK;
    }
    s->total.lost_batches++;
    s->total.lost_records += range.loss.last_seq - reading;
    lose(s, range.loss.last_seq, "damaged", "its pages could not be read from the file");
    return TIDE_OK;
}

/* ---- into the new one ---- */

static tide_status set_floor(tide_tx *tx, const salvage *s, const tide_stream_state *target,
                             int64_t seq, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_FLOOR_RAISE, err, tide_bind_i64("stream", target->id),
               tide_bind_i64("seq", seq));
    const tide_digest128 *chain = &s->state.floor_chain;
    tide_query_bind_blob(query, "chain", tide_view_bytes(chain->bytes, TIDE_DIGEST128_LEN));
    if (s->state.floor_arrived_us > 0)
        tide_query_bind_time(query, "arrived_at", s->state.floor_arrived_us);
    tide_query_bind_i64(query, "bytes", s->state.floor_bytes);
    return tide_query_run(query, NULL, err);
}

static tide_status put_page(tide_tx *tx, void *arg, tide_error *err)
{
    salvage *s = arg;
    tide_stream_state target;
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_stream_find(&target, tx, s->stream, err));
    if (s->is_first) {
        TIDE_TRY(tide_feed_epoch_add(tx, &target, s->state.floor_seq + 1, err));
        if (s->state.floor_seq > 0) {
            TIDE_TRY(set_floor(tx, s, &target, s->state.floor_seq, err));
            TIDE_TRY(tide_feed_sequence_raise(tx, &target, s->state.floor_seq, now_us, err));
        }
    }
    for (int i = 0; i < s->count; i++) {
        tide_batch_head head = s->batches[i].head;
        head.stream_id = target.id;
        head.epoch = target.epoch;
        head.head_crc = tide_batch_head_crc(&head);
        TIDE_TRY(tide_feed_walk_add(tx, &head, s->batches[i].body, err));
        TIDE_TRY(tide_feed_sequence_raise(tx, &target, head.last_seq, head.arrived_us, err));
    }
    return TIDE_OK;
}

/* Of a declared stream not even the id is known without its row. False: the stream is lost. */
static bool pass_lost_row(salvage *s)
{
    if (!s->is_row_lost && tide_stream_type_find(s->stream)) {
        s->is_row_lost = true;
        return true;
    }
    s->total.lost_batches++;
    return false;
}

/* Losses come when a batch stands behind them: what is lost at the end is not a hole but never was. */
static tide_status put_losses(tide_tx *tx, void *arg, tide_error *err)
{
    salvage *s = arg;
    tide_stream_state target;
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_stream_find(&target, tx, s->stream, err));
    return tide_loss_note(s->to, tx, &target, s->losses, s->loss_count, now_us, err);
}

typedef struct pending_losses {
    tide_loss losses[PAGE_BATCHES];
    int count;
} pending_losses;

static tide_status copy_stream(salvage *s, const tide_stream_type *type, tide_error *err)
{
    const bool is_declared = type->kind == TIDE_STREAM_OPAQUE;
    if (is_declared && tide_stream_check_name(s->stream, NULL) < TIDE_OK) { /* nobody declared it */
        s->total.lost_batches++;
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_freep) TIDE_NEW(pending_losses, pending, err);
    s->position = 0;
    s->is_first = true;
    s->is_done = false;
    s->is_row_lost = false;
    while (!s->is_done) {
        tide_error why;
        s->is_begun = false;
        const tide_status status = tide_store_read(s->from->store, pick_page, s, &why);
        if (status == TIDE_E_DAMAGED && s->reading < 0) {
            if (!pass_lost_row(s))
                return TIDE_OK;
            continue;
        }
        if (status == TIDE_E_DAMAGED && s->reading >= 0 && s->reading == s->begin)
            TIDE_TRY(pass_unreadable(s, err));
        else if (status < TIDE_OK && !(status == TIDE_E_DAMAGED && s->reading > s->begin))
            return tide_fail(err, status, "%s", why.text);
        s->position = s->at;
        if (s->is_first && is_declared)
            TIDE_TRY(tide_feed_declare(s->to, s->stream, err));
        TIDE_TRY(tide_store_write(s->to->store, put_page, s, err));
        s->is_first = false;
        s->total.batches += s->count;
        for (int i = 0; i < s->count; i++)
            s->total.records += s->batches[i].head.last_seq - s->batches[i].head.first_seq + 1;
        /* Earlier pages' losses now have a batch behind them, if this page has one. */
        for (int i = 0; i < s->loss_count && pending->count < PAGE_BATCHES; i++)
            pending->losses[pending->count++] = s->losses[i];
        if (s->count > 0 && pending->count > 0) {
            const int64_t last = s->batches[s->count - 1].head.last_seq;
            s->loss_count = 0;
            int kept = 0;
            for (int i = 0; i < pending->count; i++)
                if (pending->losses[i].last_seq < last)
                    s->losses[s->loss_count++] = pending->losses[i];
                else
                    pending->losses[kept++] = pending->losses[i];
            pending->count = kept;
            TIDE_TRY(tide_store_write(s->to->store, put_losses, s, err));
        }
    }
    s->total.streams++;
    return TIDE_OK;
}

/* ---- what samples refer to ---- */

typedef struct frames_page {
    int64_t after;
    int64_t ids[FRAMES_PAGE];
    tide_view names[FRAMES_PAGE];
    int count;
    tide_arena arena;
} frames_page;

static tide_status pick_frames(tide_tx *tx, void *arg, tide_error *err)
{
    frames_page *page = arg;
    page->count = 0;
    tide_arena_reset(&page->arena);
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_FRAME_WALK, err, tide_bind_i64("after", page->after),
               tide_bind_i64("limit", FRAMES_PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        page->ids[page->count] = tide_query_col_i64(query);
        const tide_view name = tide_query_col_text(query);
        const char *copy = tide_arena_text(&page->arena, name);
        TIDE_NEED_MEMORY(copy, err);
        page->names[page->count++] = tide_view_bytes(copy, name.len);
    }
    return TIDE_OK;
}

static tide_status put_frames(tide_tx *tx, void *arg, tide_error *err)
{
    const frames_page *page = arg;
    for (int i = 0; i < page->count; i++) {
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_FEED_FRAME_PUT, NULL, err,
                              tide_bind_i64("id", page->ids[i]),
                              tide_bind_view("name", page->names[i])));
    }
    return TIDE_OK;
}

static tide_status copy_frames(const salvage *s, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(frames_page, page, err);
    tide_arena_init(&page->arena, PAGE_BYTES);
    tide_status status = TIDE_OK;
    do {
        status = tide_store_read(s->from->store, pick_frames, page, err);
        if (status == TIDE_E_DAMAGED)
            break; /* names that cannot be read are missed by people, not by numbers */
        if (status >= TIDE_OK && page->count > 0) {
            page->after = page->ids[page->count - 1];
            status = tide_store_write(s->to->store, put_frames, page, err);
        }
    } while (status >= TIDE_OK && page->count == FRAMES_PAGE);
    tide_arena_done(&page->arena);
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

static tide_status copy_binary(void *arg, const tide_feed_binary *binary, tide_error *err)
{
    return tide_feed_binaries_put(arg, binary, 1, err);
}

static tide_status copy_profiles(const salvage *s, tide_error *err)
{
    TIDE_TRY(copy_frames(s, err));
    const tide_status status = tide_feed_binaries_get(s->from, copy_binary, s->to, err);
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

/* ---- all of it ---- */

static tide_status copy_all(salvage *s, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(tide_stream_name_list, list, err);
    const tide_status listed = tide_store_read(s->from->store, tide_stream_names, list, err);
    if (listed == TIDE_E_DAMAGED)
        s->total.lost_batches++; /* streams that were declared, perhaps */
    else
        TIDE_TRY(listed);
    tide_stream_names_complete(list);
    const char *receipts = tide_stream_type_of(TIDE_STREAM_LOSS_RECEIPTS)->name;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < list->count; i++) {
            const bool is_receipts = strcmp(list->names[i], receipts) == 0;
            if (is_receipts != (pass == 0))
                continue;
            const tide_stream_type *type = tide_stream_type_find(list->names[i]);
            s->stream = list->names[i];
            TIDE_TRY(copy_stream(s, type ? type : tide_stream_type_of(TIDE_STREAM_OPAQUE), err));
        }
    return copy_profiles(s, err);
}

tide_status tide_feed_salvage(tide_feed *feed, const char *path, tide_feed_salvaged *out,
                              tide_error *err)
{
    TIDE_NEED(feed, err);
    if (access(path, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "there is something at %s already", path);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = tide_store_env(feed->store),
                                        .state_dir = ""};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_store_open(&store, path, &options, err));
    tide_feed_options feed_options = feed->options;
    feed_options.reserve_bytes = -1;
    TIDE_CLEANUP(tide_feed_closep) tide_feed *target = NULL;
    TIDE_TRY(tide_feed_open(&target, store, &feed_options, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(salvage, s, err);
    s->from = feed;
    s->to = target;
    tide_arena_init(&s->arena, (size_t)PAGE_BYTES + 2 * (size_t)TIDE_FEED_BATCH_BYTES_MAX);
    tide_buffer_init(&s->raw, TIDE_FEED_BATCH_BYTES_MAX);
    const tide_status status = copy_all(s, err);
    tide_arena_done(&s->arena);
    tide_buffer_done(&s->raw);
    if (status >= TIDE_OK && out)
        *out = s->total;
    return status;
}
