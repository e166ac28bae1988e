/* colony_reply_fuzz.c - bytes that claim to be an agent's answer: the first byte chooses the type, the second where it was asked from.
 *
 * What is read keeps the reply's promises. Settled for a new position, then again for what came of it (once as the answer to the next
 * question, once as a recovery), it is refused, or the ledger balances and nothing is stored twice. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/settle.h"

enum { HEAD_LEN = 2, WALL_US = 1000000, GAPS_MAX = 4096, ATTEMPT_MAX = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_reply(const tide_reply *reply)
{
    require(*reply->session_id != '\0');
    for (int i = 0; i < reply->record_count; i++) {
        const tide_reply_record *record = &reply->records[i];
        require(record->seq >= 0 && record->is_dead == (record->reason != NULL));
        require(record->seq > 0 || record->is_dead);
        require(i == 0 || record->seq > record[-1].seq || record->seq == 0);
        require(!reply->has_state || record->seq <= reply->scanned_through_seq);
    }
    int64_t before = 0;
    for (int i = 0; i < reply->hole_count; i++) {
        require(reply->holes[i].first_seq > before);
        before = reply->holes[i].last_seq;
    }
}

/* The gap records that a change leaves of a position, put into list; records of a closed one are not followed. */
static void put_gaps(tide_gap_list *list, const tide_change *change)
{
    for (int i = 0; i < change->gap_count; i++) {
        tide_gap gap = change->gaps[i];
        require(gap.start_seq >= 1 && gap.end_seq >= gap.start_seq);
        int at = 0;
        while (at < list->count && list->gaps[at].start_seq < gap.start_seq)
            at++;
        if (gap.id == 0) {
            require(list->count < GAPS_MAX);
            memmove(list->gaps + at + 1, list->gaps + at,
                    (size_t)(list->count - at) * sizeof *list->gaps);
            list->count++;
            gap.id = gap.start_seq;
        }
        require(at < list->count);
        list->gaps[at] = gap;
        gap.source_id = 1;
    }
}

static void check_ledger(const tide_position *position, const tide_gap_list *list)
{
    tide_gap_sums sums = {0};
    for (int i = 0; i < list->count; i++) {
        const tide_gap *gap = &list->gaps[i];
        const int64_t width = gap->end_seq - gap->start_seq + 1;
        sums.open += tide_gap_is_open(gap->status) ? width : 0;
        sums.voided += gap->status == TIDE_GAP_VOID ? width : 0;
        sums.permanent += gap->status == TIDE_GAP_PERMANENT ? width : 0;
        require(i == 0 || gap->start_seq > list->gaps[i - 1].end_seq);
    }
    tide_ledger ledger;
    tide_position_ledger(position, &sums, &ledger);
    require(ledger.unexplained == 0);
    require(position->last_seq <= tide_cursor_contiguous(&position->cursor));
}

/* False: there is nothing to go on with. */
static bool settle_once(tide_position *at, tide_gap_list *list, const tide_ask *asked,
                        const tide_reply *reply, int64_t mono_us)
{
    TIDE_CLEANUP(tide_change_done) tide_change change;
    tide_error err;
    const tide_status status =
        tide_settle(&change, at, list, asked, reply, WALL_US, WALL_US, mono_us, &err);
    if (status != TIDE_OK || change.gap_count + list->count > GAPS_MAX)
        return status == TIDE_NONE;
    const bool is_closing = change.is_closing;
    put_gaps(list, &change);
    const tide_position *settled = is_closing ? &change.closed : &change.to;
    check_ledger(settled, list);
    tide_position next;
    if (tide_position_copy(&next, settled, &err) != TIDE_OK)
        return false;
    tide_position_done(at);
    *at = next;
    return !is_closing;
}

static void recover_first(const tide_position *at, const tide_gap_list *list, const tide_ask *asked,
                          const tide_reply *reply)
{
    if (list->count == 0)
        return;
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_error err;
    tide_gap gap = list->gaps[0];
    gap.source_id = at->source_id;
    if (tide_settle_gap(&change, at, &gap, asked, reply, ATTEMPT_MAX, WALL_US, &err) != TIDE_OK)
        return;
    /* The pieces make up the gap. */
    int64_t through = gap.start_seq - 1;
    for (int i = 0; i < change.gap_count; i++) {
        require(change.gaps[i].start_seq == through + 1);
        through = change.gaps[i].end_seq;
    }
    require(through == gap.end_seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < HEAD_LEN)
        return 0;
    const tide_colony_type *type =
        tide_colony_type_of((tide_stream_kind)(data[0] % TIDE_STREAM_COUNT));
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    if (tide_reply_read(&reply, type, tide_view_bytes(data + HEAD_LEN, len - HEAD_LEN), &err) !=
        TIDE_OK)
        return 0;
    check_reply(&reply);
    TIDE_CLEANUP(tide_position_done) tide_position at;
    tide_position_init(&at, "agent", type->stream->name);
    static tide_gap gaps[GAPS_MAX];
    tide_gap_list list = {.gaps = gaps};
    tide_ask asked = {.type = type, .data_type = type->stream->name};
    bool goes_on = settle_once(&at, &list, &asked, &reply, WALL_US);
    recover_first(&at, &list, &asked, &reply);
    for (int i = 0; i < 3 && goes_on; i++) {
        asked.start_seq = i == 0 ? 0 : data[1];
        goes_on = settle_once(&at, &list, &asked, &reply, (i + 2) * WALL_US);
    }
    return 0;
}
