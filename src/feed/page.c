#include "feed/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>
#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "feed/parts.h"
#include "feed/walk.h"
#include "store/statement.h"

/* ---- points of a history ---- */

/* A point is (epoch, number, digest). It is of our history if its number was given in its epoch
 * and the digests are equal. A number above the head, or one that a later epoch gave out, was
 * given by a history that has been cut off. Below the floor and inside holes nothing can be said. */
typedef enum verdict {
    MATCHES,
    DIFFERS,
    CANNOT_TELL,
} verdict;

static tide_status judge_epoch(tide_tx *tx, const tide_stream_state *state,
                               const tide_feed_point *point, verdict *out, tide_error *err)
{
    *out = MATCHES;
    if (point->epoch == 0 || point->seq == 0)
        return TIDE_OK;
    int64_t epoch = 0;
    TIDE_TRY(tide_stream_epoch_of(state, tx, point->seq, &epoch, err));
    /* A reader names the epoch it read in, which is the number's own or a later one. */
    if (point->epoch > state->epoch || (epoch != 0 && point->epoch < epoch))
        *out = DIFFERS;
    return TIDE_OK;
}

static tide_status judge(tide_tx *tx, const tide_stream_state *state, const tide_feed_point *point,
                         verdict *out, tide_error *err)
{
    TIDE_TRY(judge_epoch(tx, state, point, out, err));
    if (*out == DIFFERS)
        return TIDE_OK;
    if (point->seq < 0 || point->seq > state->head_seq) {
        *out = DIFFERS;
        return TIDE_OK;
    }
    tide_digest128 digest;
    const tide_status status = tide_stream_digest_at(state, tx, point->seq, &digest, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        *out = CANNOT_TELL;
    else
        *out = memcmp(digest.bytes, point->digest, sizeof digest.bytes) == 0 ? MATCHES : DIFFERS;
    return TIDE_OK;
}

static int compare_down(const void *a, const void *b)
{
    const int64_t x = ((const tide_feed_point *)a)->seq;
    const int64_t y = ((const tide_feed_point *)b)->seq;
    return (x < y) - (x > y);
}

static tide_status point_judge(tide_tx *tx, const tide_stream_state *state,
                               const tide_feed_point *points, int count,
                               tide_feed_standing *standing, int64_t *matched_seq, tide_error *err)
{
    tide_feed_point sorted[TIDE_FEED_POINTS_MAX];
    memcpy(sorted, points, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_down);
    bool has_differed = false;
    bool has_doubt = false;
    bool has_matched = false;
    *matched_seq = 0;
    for (int i = 0; i < count && !has_matched; i++) {
        verdict v = CANNOT_TELL;
        TIDE_TRY(judge(tx, state, &sorted[i], &v, err));
        has_differed = has_differed || v == DIFFERS;
        has_doubt = has_doubt || v == CANNOT_TELL;
        has_matched = v == MATCHES;
        if (has_matched)
            *matched_seq = sorted[i].seq;
    }
    if (has_differed)
        *standing = TIDE_FEED_STANDING_DIVERGED;
    else
        *standing = has_matched && !has_doubt ? TIDE_FEED_STANDING_OK : TIDE_FEED_STANDING_UNKNOWN;
    return TIDE_OK;
}

/* ---- the request ---- */

static tide_status check_reader(const tide_feed_request *request, tide_error *err)
{
    if (!request->reader)
        return TIDE_OK;
    const size_t len = strlen(request->reader);
    if (len < 1 || len > TIDE_FEED_READER_MAX || !tide_utf8_valid(tide_view_of(request->reader)))
        return tide_fail(err, TIDE_E_INVALID, "a reader's name is UTF-8 text of 1 to %d bytes",
                         TIDE_FEED_READER_MAX);
    if (request->lease_token < 0)
        return tide_fail(err, TIDE_E_INVALID, "a lease token is not negative");
    return TIDE_OK;
}

static tide_status check_request(const tide_feed_request *request, tide_error *err)
{
    if (!request->stream)
        return tide_fail(err, TIDE_E_INVALID, "a read names its stream");
    if (request->start_seq < 0 || request->last_seq < 0)
        return tide_fail(err, TIDE_E_INVALID, "numbers are not negative");
    if (request->point_count < 0 || request->point_count > TIDE_FEED_POINTS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a read shows at most %d points, not %d",
                         TIDE_FEED_POINTS_MAX, request->point_count);
    if (request->service_count < 0 || request->service_count > TIDE_FEED_SERVICES_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a filter has at most %d services, not %d",
                         TIDE_FEED_SERVICES_MAX, request->service_count);
    if (request->where_column && !request->where_value)
        return tide_fail(err, TIDE_E_INVALID, "a filter by column has a value");
    return check_reader(request, err);
}

tide_status tide_page_init(tide_page *page, tide_feed *feed, const tide_feed_request *request,
                           tide_feed_answer *answer, tide_error *err)
{
    *page = (tide_page){.feed = feed, .request = request, .answer = answer, .end_seq = -1};
    tide_buffer_init(&page->bytes, TIDE_FEED_PAGE_BYTES_MAX + TIDE_FEED_RECORD_MAX);
    tide_buffer_init(&page->raw, TIDE_FEED_BATCH_BYTES_MAX);
    TIDE_TRY(check_request(request, err));
    int64_t max_bytes = request->max_bytes > 0 ? request->max_bytes : TIDE_FEED_PAGE_BYTES_DEFAULT;
    if (max_bytes > TIDE_FEED_PAGE_BYTES_MAX)
        max_bytes = TIDE_FEED_PAGE_BYTES_MAX;
    page->max_bytes = (size_t)max_bytes;
    return TIDE_OK;
}

void tide_page_done(tide_page *page)
{
    tide_buffer_done(&page->bytes);
    tide_buffer_done(&page->raw);
}

static tide_status find_where(tide_page *page, tide_error *err)
{
    page->where_column = -1;
    const char *name = page->request->where_column;
    if (!name)
        return TIDE_OK;
    const tide_stream_type *type = page->state.type;
    page->where_column = tide_stream_column_find(type, name);
    if (page->where_column < 0 || type->columns[page->where_column].kind != TIDE_COLUMN_TEXT)
        return tide_fail(err, TIDE_E_INVALID, "%s has no text column '%.64s'", page->state.name,
                         name);
    return TIDE_OK;
}

/* ---- holes ---- */

static int64_t get_position(const tide_page *page)
{
    return page->answer->scanned_through_seq;
}

static void move_to(tide_page *page, int64_t seq)
{
    page->answer->scanned_through_seq = seq;
}

/* The hole begins right behind the position. One for the same reason that ends there grows. */
static tide_status add_hole(tide_page *page, int64_t last_seq, const char *reason, tide_error *err)
{
    tide_feed_answer *answer = page->answer;
    const int64_t first_seq = get_position(page) + 1;
    page->is_chain_known = false;
    tide_feed_hole *before = answer->hole_count > 0 ? &answer->holes[answer->hole_count - 1] : NULL;
    if (before && before->last_seq + 1 == first_seq && strcmp(before->reason, reason) == 0) {
        before->last_seq = last_seq;
        move_to(page, last_seq);
        return TIDE_OK;
    }
    if (answer->hole_count == TIDE_FEED_HOLES_MAX) {
        page->is_full = true;
        return TIDE_OK;
    }
    if (!answer->holes) {
        TIDE_ALLOC(answer->holes, TIDE_FEED_HOLES_MAX, err);
    }
    answer->holes[answer->hole_count++] =
        (tide_feed_hole){.first_seq = first_seq, .last_seq = last_seq, .reason = reason};
    move_to(page, last_seq);
    return TIDE_OK;
}

static tide_status look_at_losses(tide_page *page, tide_tx *tx, tide_error *err)
{
    if (page->next_loss.last_seq > get_position(page) || page->next_loss.last_seq < 0)
        return TIDE_OK;
    const tide_status status =
        tide_loss_next(tx, page->state.id, get_position(page), &page->next_loss, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        page->next_loss.last_seq = -1;
    for (int i = 0; i < page->passed_count; i++) {
        const tide_loss *passed = &page->passed[i];
        if (passed->last_seq > get_position(page) &&
            (page->next_loss.last_seq < 0 || passed->first_seq < page->next_loss.first_seq))
            page->next_loss = *passed;
    }
    return TIDE_OK;
}

static void note_found(tide_page *page, int64_t first_seq, int64_t last_seq, const char *reason,
                       const char *detail)
{
    if (page->found_count == TIDE_PAGE_FOUND_MAX)
        return; /* the rest is found again by the next read */
    tide_loss *loss = &page->found[page->found_count++];
    *loss = (tide_loss){.first_seq = first_seq, .last_seq = last_seq, .reason = reason};
    (void)snprintf(loss->detail, sizeof loss->detail, "%.150s", detail);
}

/* Numbers without records, from the position to last_seq: known losses by their reason, what lies below the floor otherwise expired, anything
 * else is missing and found to be so now. */
static tide_status pass_over(tide_page *page, tide_tx *tx, int64_t last_seq, tide_error *err)
{
    while (get_position(page) < last_seq && !page->is_full) {
        const int64_t next = get_position(page) + 1;
        TIDE_TRY(look_at_losses(page, tx, err));
        const tide_loss *loss = &page->next_loss;
        const bool is_loss = loss->last_seq > 0 && loss->first_seq <= next;
        int64_t end = last_seq;
        if (is_loss && loss->last_seq < end)
            end = loss->last_seq;
        else if (!is_loss && loss->last_seq > 0 && loss->first_seq <= end)
            end = loss->first_seq - 1;
        const char *reason = is_loss ? loss->reason : "expired";
        if (!is_loss && next <= page->state.floor_seq && end > page->state.floor_seq)
            end = page->state.floor_seq;
        if (!is_loss && next > page->state.floor_seq) {
            reason = page->has_unsound ? "damaged" : "lost";
            note_found(page, next, end, reason,
                       page->has_unsound ? "the head's checksum does not fit"
                                         : "no batch has these numbers");
        }
        TIDE_TRY(add_hole(page, end, reason, err));
    }
    return TIDE_OK;
}

/* ---- records ---- */

static bool is_by_time(const tide_feed_request *request)
{
    return request->start_time_ms != 0 || request->end_time_ms != 0;
}

static bool is_filtered(const tide_page *page)
{
    return is_by_time(page->request) || page->request->service_count > 0 || page->where_column >= 0;
}

static int64_t get_end_time(const tide_feed_request *request)
{
    return request->end_time_ms != 0 ? request->end_time_ms : INT64_MAX;
}

/* Can no record of this batch be wanted? Told from the head alone. */
static bool is_batch_unwanted(const tide_page *page, const tide_batch_head *head)
{
    const tide_feed_request *request = page->request;
    if (is_by_time(request) &&
        (head->max_time_ms < request->start_time_ms || head->min_time_ms >= get_end_time(request)))
        return true;
    return request->service_count > 0 &&
           !tide_record_services_may_hold(head->services, request->services,
                                          request->service_count);
}

static bool has_text(const tide_record_value *value, const char *text)
{
    return tide_view_equal(value->bytes, tide_view_of(text));
}

static bool has_wanted_service(const tide_page *page, const tide_record *record)
{
    const tide_stream_type *type = page->state.type;
    tide_record_value value;
    if (type->service_column < 0 ||
        tide_record_find(type, record->message, type->service_column, &value) != TIDE_OK)
        return false;
    for (int i = 0; i < page->request->service_count; i++)
        if (has_text(&value, page->request->services[i]))
            return true;
    return false;
}

static bool is_wanted(const tide_page *page, const tide_record *record)
{
    const tide_feed_request *request = page->request;
    const tide_stream_type *type = page->state.type;
    tide_record_value value;
    if (request->service_count > 0 && !has_wanted_service(page, record))
        return false;
    if (page->where_column >= 0 &&
        (tide_record_find(type, record->message, page->where_column, &value) != TIDE_OK ||
         !has_text(&value, request->where_value)))
        return false;
    if (!is_by_time(request))
        return true;
    return tide_record_find(type, record->message, type->time_column, &value) == TIDE_OK &&
           value.i64 >= request->start_time_ms && value.i64 < get_end_time(request);
}

static tide_status append(tide_page *page, tide_view bytes, int64_t count, int64_t last_seq,
                          tide_error *err)
{
    const tide_status status = tide_buffer_append_view(&page->bytes, bytes);
    TIDE_TRY(tide_buffer_check(status, err));
    page->answer->count += count;
    page->answer->max_seq = last_seq;
    return TIDE_OK;
}

/* The whole batch, untouched? */
static bool is_whole(const tide_page *page, const tide_batch_head *head, int64_t limit)
{
    const int64_t count = head->last_seq - head->first_seq + 1;
    return !is_filtered(page) && head->first_seq == get_position(page) + 1 &&
           head->last_seq <= limit && page->answer->count + count <= page->max_records &&
           page->bytes.len + page->raw.len <= page->max_bytes;
}

static bool has_room(const tide_page *page, const tide_record *record)
{
    return page->answer->count == 0 || (page->answer->count < page->max_records &&
                                        page->bytes.len + record->bytes.len <= page->max_bytes);
}

static tide_status copy_records(tide_page *page, const tide_batch_head *head, int64_t limit,
                                tide_error *err)
{
    tide_view rest = tide_buffer_view(&page->raw);
    if (is_whole(page, head, limit)) {
        TIDE_TRY(append(page, rest, head->last_seq - head->first_seq + 1, head->last_seq, err));
        move_to(page, head->last_seq);
        return TIDE_OK;
    }
    tide_record record;
    while (tide_record_next(page->state.type, &rest, &record) == TIDE_OK && record.seq <= limit) {
        if (record.seq <= get_position(page))
            continue;
        if (!is_wanted(page, &record)) {
            page->answer->filtered++;
        } else if (has_room(page, &record)) {
            TIDE_TRY(append(page, record.bytes, 1, record.seq, err));
        } else {
            page->is_full = true;
            return TIDE_OK;
        }
        move_to(page, record.seq);
    }
    return TIDE_OK;
}

static void set_chain(tide_page *page, const tide_digest128 *digest)
{
    memcpy(page->answer->chain, digest->bytes, sizeof page->answer->chain);
    page->is_chain_known = true;
}

/* One batch that begins right behind the position, or around it. */
static tide_status take_batch(tide_page *page, tide_tx *tx, const tide_batch_head *head,
                              int64_t limit, tide_error *err)
{
    const int64_t begin = get_position(page);
    const int64_t end = head->last_seq < limit ? head->last_seq : limit;
    if (is_batch_unwanted(page, head)) {
        page->answer->filtered += end - begin;
        move_to(page, end);
        if (end == head->last_seq)
            set_chain(page, &head->chain);
        return TIDE_OK;
    }
    bool is_row_readable = false;
    tide_error why;
    const tide_status status =
        tide_stream_read_body(tx, page->state.type, head, &page->raw, &is_row_readable, &why);
    if (status == TIDE_E_DAMAGED && is_row_readable) {
        note_found(page, head->first_seq, head->last_seq, "damaged", why.text);
        return add_hole(page, end, "damaged", err);
    }
    if (status < TIDE_OK) {
        if (status == TIDE_E_DAMAGED)
            page->unreadable_after = begin;
        return tide_fail(err, status, "%s", why.text);
    }
    page->scanned_bytes += head->raw_len;
    TIDE_TRY(copy_records(page, head, limit, err));
    const tide_digest128 chain =
        get_position(page) == head->last_seq
            ? head->chain
            : tide_feed_walk_digest(page->state.type, head, tide_buffer_view(&page->raw),
                                    get_position(page));
    set_chain(page, &chain);
    if (is_filtered(page) && page->scanned_bytes > TIDE_FEED_SCAN_BYTES_MAX)
        page->is_full = true;
    return TIDE_OK;
}

static bool is_at_end(const tide_page *page, int64_t limit)
{
    return page->is_full || get_position(page) >= limit ||
           page->answer->count >= page->max_records ||
           (page->answer->count > 0 && page->bytes.len >= page->max_bytes);
}

/* What is known to be lost right behind the position. Its rows are not looked at again: they may be unreadable. */
static tide_status pass_known(tide_page *page, tide_tx *tx, int64_t limit, tide_query **query,
                              tide_error *err)
{
    while (!is_at_end(page, limit)) {
        TIDE_TRY(look_at_losses(page, tx, err));
        const tide_loss *loss = &page->next_loss;
        if (loss->last_seq < 0 || loss->first_seq > get_position(page) + 1)
            return TIDE_OK;
        tide_query_endp(query);
        TIDE_TRY(
            add_hole(page, loss->last_seq < limit ? loss->last_seq : limit, loss->reason, err));
    }
    return TIDE_OK;
}

/* The next batch, and the gap before it. TIDE_NONE: there is none. */
static tide_status take_next(tide_page *page, tide_tx *tx, int64_t limit, tide_query **query,
                             tide_error *err)
{
    page->unreadable_after = get_position(page);
    if (!*query)
        TIDE_TRY(tide_feed_walk_begin(query, tx, page->state.id, get_position(page), err));
    TIDE_TRY_FOUND(tide_query_step(*query, err));
    page->unreadable_after = -1;
    tide_batch_head head;
    tide_feed_walk_read(*query, &head);
    /* Its numbers are as doubtful as the rest: where the next sound batch begins, or at the head, it is
     * seen which ones are missing. */
    if (!tide_batch_is_head_sound(&head, page->state.id)) {
        page->has_unsound = true;
        return TIDE_OK;
    }
    if (head.first_seq > get_position(page) + 1) {
        TIDE_TRY(pass_over(page, tx, head.first_seq - 1 < limit ? head.first_seq - 1 : limit, err));
        if (get_position(page) == head.first_seq - 1)
            set_chain(page, &head.chain_before);
    }
    if (is_at_end(page, limit) || get_position(page) < head.first_seq - 1)
        return TIDE_OK;
    page->has_unsound = false;
    return take_batch(page, tx, &head, limit, err);
}

static tide_status walk(tide_page *page, tide_tx *tx, int64_t limit, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    for (;;) {
        TIDE_TRY(pass_known(page, tx, limit, &query, err));
        if (is_at_end(page, limit))
            return TIDE_OK;
        TIDE_TRY_FOUND(take_next(page, tx, limit, &query, err));
    }
}

/* ---- the answer ---- */

static tide_status describe(tide_page *page, tide_tx *tx, tide_error *err)
{
    const tide_stream_state *state = &page->state;
    tide_feed_answer *answer = page->answer;
    TIDE_TRY(tide_identity_read(tx, &page->identity, err));
    memcpy(answer->session, page->identity.session_id, sizeof answer->session);
    memcpy(answer->epoch_id, page->identity.epoch_id, sizeof answer->epoch_id);
    answer->epoch = state->epoch;
    answer->epoch_first_seq = state->epoch_first_seq;
    answer->head_seq = state->head_seq;
    answer->stable_seq = state->head_seq;
    answer->head_arrived_us = state->arrived_us;
    answer->oldest_seq =
        state->floor_seq < state->head_seq ? state->floor_seq + 1 : state->head_seq + 1;
    TIDE_TRY(tide_lease_now(tx, &answer->now_us, err));
    if (answer->now_us == INT64_MAX) /* the first moments after a boot: no anchor yet */
        TIDE_TRY(tide_tx_now(tx, &answer->now_us, err));
    return TIDE_OK;
}

/* The batch behind the page says when it arrived, and what the chain was before it. */
static tide_status look_ahead(tide_page *page, tide_tx *tx, tide_error *err)
{
    page->unreadable_after = get_position(page);
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, page->state.id, get_position(page), err);
    const tide_status status = tide_query_step(query, err);
    TIDE_TRY(status);
    page->unreadable_after = -1;
    if (status == TIDE_NONE)
        return TIDE_OK;
    tide_batch_head head;
    tide_feed_walk_read(query, &head);
    if (!tide_batch_is_head_sound(&head, page->state.id))
        return TIDE_OK;
    page->answer->next_arrived_us = head.arrived_us;
    if (!page->is_chain_known && head.first_seq == get_position(page) + 1)
        set_chain(page, &head.chain_before);
    return TIDE_OK;
}

static void reset(tide_page *page)
{
    tide_feed_answer *answer = page->answer;
    tide_feed_hole *holes = answer->holes;
    tide_feed_epoch *epochs = answer->epochs;
    *answer = (tide_feed_answer){.holes = holes, .epochs = epochs};
    tide_buffer_clear(&page->bytes);
    page->scanned_bytes = 0;
    page->is_full = false;
    page->has_unsound = false;
    page->reader_due = TIDE_READER_NOT_DUE;
    page->found_count = 0;
    page->unreadable_after = -1;
    page->is_chain_known = false;
    page->next_loss = (tide_loss){.last_seq = 0};
}

/* Points that cannot be checked any more are believed as far as this history can have given them to the reader. One above was given by a history that
 * was cut off, and what has taken its place was dropped before the reader came back. */
static tide_status doubt_points(tide_page *page, tide_tx *tx, tide_error *err)
{
    const tide_feed_request *request = page->request;
    tide_feed_answer *answer = page->answer;
    int64_t given = 0;
    if (answer->standing != TIDE_FEED_STANDING_UNKNOWN || !request->reader)
        return TIDE_OK;
    const tide_status status = tide_reader_given(tx, &page->state, request->reader, &given, err);
    TIDE_TRY(status);
    for (int i = 0; status == TIDE_OK && i < request->point_count; i++)
        if (request->points[i].seq > given)
            answer->standing = TIDE_FEED_STANDING_DIVERGED;
    if (answer->standing == TIDE_FEED_STANDING_DIVERGED && given > answer->matched_seq)
        answer->matched_seq = given;
    return TIDE_OK;
}

static tide_status check_standing(tide_page *page, tide_tx *tx, tide_error *err)
{
    const tide_feed_request *request = page->request;
    tide_feed_answer *answer = page->answer;
    if (request->session && strcmp(request->session, page->identity.session_id) != 0)
        return tide_fail(err, TIDE_E_CONFLICT, "the session is %s, not %.64s",
                         page->identity.session_id, request->session);
    if (request->reader)
        TIDE_TRY(tide_reader_check(page->feed, tx, &page->state, request, answer->now_us,
                                   &page->reader_due, err));
    if (request->point_count > 0)
        TIDE_TRY(point_judge(tx, &page->state, request->points, request->point_count,
                             &answer->standing, &answer->matched_seq, err));
    TIDE_TRY(doubt_points(page, tx, err));
    if (!page->has_diverged)
        return tide_epochs_judge(page, tx, err);
    answer->standing = TIDE_FEED_STANDING_DIVERGED;
    answer->matched_seq = page->diverged_seq;
    return TIDE_OK;
}

/* The chain where the page begins; where it cannot be told it stays zero. */
static tide_status begin_chain(tide_page *page, tide_tx *tx, tide_error *err)
{
    tide_digest128 digest = {{0}};
    const tide_status status =
        tide_stream_digest_at(&page->state, tx, get_position(page), &digest, err);
    TIDE_TRY(status);
    set_chain(page, &digest);
    return TIDE_OK;
}

static tide_status fill(tide_page *page, tide_tx *tx, int64_t limit, tide_error *err)
{
    const tide_stream_state *state = &page->state;
    if (get_position(page) < state->floor_seq && get_position(page) < limit) {
        TIDE_TRY(pass_over(page, tx, state->floor_seq < limit ? state->floor_seq : limit, err));
        if (get_position(page) == state->floor_seq)
            set_chain(page, &state->floor_chain);
    }
    if (!is_at_end(page, limit))
        TIDE_TRY(walk(page, tx, limit, err));
    if (!is_at_end(page, limit))
        TIDE_TRY(pass_over(page, tx, limit, err));
    if (!page->is_chain_known && get_position(page) == state->head_seq)
        set_chain(page, &state->chain);
    return TIDE_OK;
}

tide_status tide_page_read(tide_tx *tx, void *arg, tide_error *err)
{
    tide_page *page = arg;
    const tide_feed_request *request = page->request;
    reset(page);
    TIDE_TRY(tide_stream_find(&page->state, tx, request->stream, err));
    TIDE_TRY(find_where(page, err));
    if (!page->is_head_given_up)
        TIDE_TRY(tide_stream_read_head(&page->state, tx, err));
    TIDE_TRY(describe(page, tx, err));
    TIDE_TRY(check_standing(page, tx, err));
    TIDE_TRY(tide_epochs_tell(page, tx, err));
    page->max_records = request->max_records > 0 ? request->max_records : page->state.type->page;
    if (page->max_records > TIDE_FEED_PAGE_RECORDS_MAX)
        page->max_records = TIDE_FEED_PAGE_RECORDS_MAX;

    const int64_t head = page->state.head_seq;
    int64_t limit = request->last_seq > 0 && request->last_seq < head ? request->last_seq : head;
    if (page->end_seq >= 0 && page->end_seq < limit)
        limit = page->end_seq;
    move_to(page, request->start_seq < head ? request->start_seq : head);
    if (get_position(page) >= limit)
        TIDE_TRY(begin_chain(page, tx, err));
    else
        TIDE_TRY(fill(page, tx, limit, err));
    page->answer->has_more = get_position(page) < head;
    const bool is_end = page->end_seq >= 0 && get_position(page) >= page->end_seq;
    return page->answer->has_more && !is_end ? look_ahead(page, tx, err) : TIDE_OK;
}
