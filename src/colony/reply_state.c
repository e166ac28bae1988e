/* reply_state.c - what an agent says of a stream, and whether its parts agree. See ask.h. */
#include "base/cleanup.h"
#include "colony/reply_field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS_SEEN_MAX = 4096 };

/* ---- holes and epochs ---- */

static tide_status read_hole(tide_view bytes, tide_reply_hole *out)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    *out = (tide_reply_hole){.reason = "lost"};
    TIDE_EACH(tide_field_next(&reader, &field)) {
        if (field.number == 1)
            TIDE_TRY(tide_field_number(&field, &out->first_seq));
        else if (field.number == 2)
            TIDE_TRY(tide_field_number(&field, &out->last_seq));
        else if (field.number == 3)
            TIDE_TRY(tide_field_word(&field, out->reason, sizeof out->reason));
    }
    return TIDE_OK;
}

static tide_status add_hole(tide_reply *out, tide_view bytes, tide_error *err)
{
    if (out->hole_count == TIDE_REPLY_HOLES_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d holes", TIDE_REPLY_HOLES_MAX);
    if (!out->holes) {
        out->holes = calloc(TIDE_REPLY_HOLES_MAX, sizeof *out->holes);
        TIDE_NEED_MEMORY(out->holes, err);
    }
    TIDE_TRY(read_hole(bytes, &out->holes[out->hole_count]));
    out->hole_count++;
    return TIDE_OK;
}

static tide_status read_epoch(tide_view bytes, tide_reply_epoch *out)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    memset(out, 0, sizeof *out);
    TIDE_EACH(tide_field_next(&reader, &field)) {
        if (field.number == 1)
            TIDE_TRY(tide_field_number(&field, &out->epoch));
        else if (field.number == 2)
            TIDE_TRY(tide_field_number(&field, &out->first_seq));
        else if (field.number == 3)
            TIDE_TRY(tide_field_text(&field, out->epoch_id, sizeof out->epoch_id));
        else if (field.number == 4)
            TIDE_TRY(tide_field_word(&field, out->reason, sizeof out->reason));
    }
    return TIDE_OK;
}

/* The latest are kept: a reader that far behind takes the epochs between for one. */
static tide_status add_epoch(tide_reply *out, tide_view bytes, int *seen, tide_error *err)
{
    if (++*seen > EPOCHS_SEEN_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d epochs", EPOCHS_SEEN_MAX);
    if (!out->epochs) {
        out->epochs = calloc(TIDE_REPLY_EPOCHS_MAX, sizeof *out->epochs);
        TIDE_NEED_MEMORY(out->epochs, err);
    }
    if (out->epoch_count == TIDE_REPLY_EPOCHS_MAX) {
        out->epoch_count--;
        memmove(out->epochs, out->epochs + 1, (size_t)out->epoch_count * sizeof *out->epochs);
    }
    TIDE_TRY(read_epoch(bytes, &out->epochs[out->epoch_count]));
    out->epoch_count++;
    return TIDE_OK;
}

/* ---- the state ---- */

static tide_status read_chain(const tide_wire_field *field, tide_reply *out)
{
    static const unsigned char nothing[TIDE_FEED_DIGEST_SIZE];
    if (field->type != TIDE_WIRE_BYTES ||
        (field->bytes.len != 0 && field->bytes.len != sizeof out->chain))
        return TIDE_E_DAMAGED;
    if (field->bytes.len > 0)
        memcpy(out->chain, field->bytes.ptr, sizeof out->chain);
    out->has_chain = field->bytes.len > 0 && memcmp(out->chain, nothing, sizeof nothing) != 0;
    return TIDE_OK;
}

static tide_status read_standing(const tide_wire_field *field, tide_reply *out)
{
    int64_t value = 0;
    TIDE_TRY(tide_field_number(field, &value));
    out->standing = value >= TIDE_FEED_STANDING_NONE && value <= TIDE_FEED_STANDING_UNKNOWN
                        ? (tide_feed_standing)value
                        : TIDE_FEED_STANDING_UNKNOWN;
    return TIDE_OK;
}

/* A flag, whatever its varint. */
static tide_status read_flag(const tide_wire_field *field, bool *out)
{
    *out = field->value != 0;
    return field->type == TIDE_WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
}

/* Where a number of the state belongs; NULL: the field is none. */
static int64_t *find_number(tide_reply *out, uint32_t number)
{
    switch (number) {
    case 1:
        return &out->epoch;
    case 2:
        return &out->oldest_seq;
    case 3:
        return &out->stable_seq;
    case 4:
        return &out->head_seq;
    case 5:
        return &out->scanned_through_seq;
    case 9:
        return &out->next_arrived_ms;
    case 10:
        return &out->head_arrived_ms;
    case 12:
        return &out->matched_seq;
    case 13:
        return &out->now_ms;
    case 14:
        return &out->retention_ms;
    case 16:
        return &out->epoch_first_seq;
    case 17:
        return &out->filtered;
    default:
        return NULL;
    }
}

static tide_status take_field(tide_reply *out, const tide_wire_field *field, int *epochs_seen,
                              tide_error *err)
{
    int64_t *number = find_number(out, field->number);
    if (number)
        return tide_field_number(field, number);
    switch (field->number) {
    case 6:
        return field->type == TIDE_WIRE_BYTES ? add_hole(out, field->bytes, err) : TIDE_E_DAMAGED;
    case 7:
        return read_chain(field, out);
    case 8:
        return read_flag(field, &out->has_more);
    case 11:
        return read_standing(field, out);
    case 18:
        return tide_field_text(field, out->epoch_id, sizeof out->epoch_id);
    case 19:
        return field->type == TIDE_WIRE_BYTES ? add_epoch(out, field->bytes, epochs_seen, err)
                                              : TIDE_E_DAMAGED;
    default:
        return TIDE_OK;
    }
}

tide_status tide_reply_read_state(tide_reply *out, tide_view bytes, tide_error *err)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    tide_status status = TIDE_OK;
    int epochs_seen = 0;
    out->has_state = true;
    while ((status = tide_field_next(&reader, &field)) == TIDE_OK) {
        if (err)
            err->status = TIDE_OK;
        status = take_field(out, &field, &epochs_seen, err);
        if (status == TIDE_E_DAMAGED && (!err || err->status == TIDE_OK))
            return tide_fail(err, status, "field %" PRIu32 " of the stream's state is none",
                             field.number);
        TIDE_TRY(status);
    }
    if (status < TIDE_OK)
        return tide_fail(err, status, "the stream's state is cut short");
    return TIDE_OK;
}

/* ---- the rules ---- */

static tide_status check_marks(const tide_reply *r, tide_error *err)
{
    if (r->stable_seq > r->head_seq || r->scanned_through_seq > r->stable_seq)
        return tide_fail(err, TIDE_E_INVALID,
                         "scanned through %" PRId64 ", stable %" PRId64 ", head %" PRId64
                         ": want them ascending",
                         r->scanned_through_seq, r->stable_seq, r->head_seq);
    if (r->oldest_seq < 1 || r->oldest_seq - 1 > r->head_seq)
        return tide_fail(err, TIDE_E_INVALID,
                         "oldest %" PRId64 ", head %" PRId64 ": want 1 <= oldest <= head + 1",
                         r->oldest_seq, r->head_seq);
    if (r->epoch < 1)
        return tide_fail(err, TIDE_E_INVALID, "a state without an epoch");
    return TIDE_OK;
}

static tide_status check_epochs(const tide_reply *r, tide_error *err)
{
    for (int i = 0; i < r->epoch_count; i++) {
        const tide_reply_epoch *e = &r->epochs[i];
        const bool ascends = i == 0 || (e->epoch > e[-1].epoch && e->first_seq >= e[-1].first_seq);
        if (e->epoch < 1 || e->first_seq < 1 || !ascends)
            return tide_fail(err, TIDE_E_INVALID,
                             "epoch %" PRId64 " from %" PRId64 " on does not follow the one before",
                             e->epoch, e->first_seq);
    }
    const tide_reply_epoch *last = r->epoch_count > 0 ? &r->epochs[r->epoch_count - 1] : NULL;
    if (last && (last->epoch != r->epoch || last->first_seq != r->epoch_first_seq))
        return tide_fail(err, TIDE_E_INVALID,
                         "epochs end in %" PRId64 " from %" PRId64 " on, the state is of %" PRId64
                         " from %" PRId64 " on",
                         last->epoch, last->first_seq, r->epoch, r->epoch_first_seq);
    return TIDE_OK;
}

static tide_status check_holes(const tide_reply *r, tide_error *err)
{
    int64_t before = 0;
    for (int i = 0; i < r->hole_count; i++) {
        const tide_reply_hole *hole = &r->holes[i];
        if (hole->first_seq <= before || hole->last_seq < hole->first_seq)
            return tide_fail(err, TIDE_E_INVALID,
                             "hole %" PRId64 "..%" PRId64 " overlaps another, or is none",
                             hole->first_seq, hole->last_seq);
        if (hole->last_seq > r->scanned_through_seq)
            return tide_fail(err, TIDE_E_INVALID,
                             "hole %" PRId64 "..%" PRId64 " lies above what was scanned, %" PRId64,
                             hole->first_seq, hole->last_seq, r->scanned_through_seq);
        before = hole->last_seq;
    }
    return TIDE_OK;
}

static tide_status check_records(const tide_reply *r, tide_error *err)
{
    int hole = 0;
    for (int i = 0; i < r->record_count; i++) {
        const int64_t seq = r->records[i].seq;
        if (seq > r->scanned_through_seq)
            return tide_fail(err, TIDE_E_INVALID,
                             "record %" PRId64 " lies above what was scanned, %" PRId64, seq,
                             r->scanned_through_seq);
        while (hole < r->hole_count && r->holes[hole].last_seq < seq)
            hole++;
        if (seq > 0 && hole < r->hole_count && r->holes[hole].first_seq <= seq)
            return tide_fail(err, TIDE_E_INVALID,
                             "record %" PRId64 " lies in the hole %" PRId64 "..%" PRId64, seq,
                             r->holes[hole].first_seq, r->holes[hole].last_seq);
    }
    return TIDE_OK;
}

tide_status tide_reply_check_state(const tide_reply *reply, tide_error *err)
{
    if (!reply->has_state)
        return TIDE_OK;
    TIDE_TRY(check_marks(reply, err));
    TIDE_TRY(check_epochs(reply, err));
    TIDE_TRY(check_holes(reply, err));
    return check_records(reply, err);
}
