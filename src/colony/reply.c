/* reply.c - parsing of what an agent responds. See ask.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "colony/ask.h"
#include "colony/reply_field.h"

/* The leading lower-case words, cut to the room: for reasons, on which nothing depends. */
static tide_status field_word(const tide_wire_field *field, char *out, size_t size)
{
    if (field->type != TIDE_WIRE_BYTES)
        return TIDE_E_DAMAGED;
    size_t len = 0;
    while (len < field->bytes.len && len + 1 < size) {
        const char byte = field->bytes.ptr[len];
        if (!(byte >= 'a' && byte <= 'z') && byte != ' ' && byte != '_' && byte != '-')
            break;
        len++;
    }
    if (len == 0)
        return TIDE_OK; /* as if it had not been told */
    memcpy(out, field->bytes.ptr, len);
    out[len] = '\0';
    return TIDE_OK;
}

/* ---- state and receipts ---- */

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
            TIDE_TRY(field_word(&field, out->reason, sizeof out->reason));
    }
    return TIDE_OK;
}

static tide_status add_hole(tide_reply *out, tide_view bytes, tide_error *err)
{
    if (out->hole_count == TIDE_REPLY_HOLES_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d holes", TIDE_REPLY_HOLES_MAX);
    if (!out->holes) {
        TIDE_ALLOC(out->holes, TIDE_REPLY_HOLES_MAX, err);
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
            TIDE_TRY(field_word(&field, out->reason, sizeof out->reason));
    }
    return TIDE_OK;
}

/* The latest are kept: a reader that far behind takes the epochs between for one. */
static tide_status add_epoch(tide_reply *out, tide_view bytes, int *seen, tide_error *err)
{
    if (++*seen > EPOCHS_SEEN_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d epochs", EPOCHS_SEEN_MAX);
    if (!out->epochs) {
        TIDE_ALLOC(out->epochs, TIDE_REPLY_EPOCHS_MAX, err);
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
    out->standing = value >= TIDE_FEED_STANDING_NONE && value <= TIDE_FEED_STANDING_AHEAD
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

static tide_status take_field_state(tide_reply *out, const tide_wire_field *field, int *epochs_seen,
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

static tide_status reply_read_state(tide_reply *out, tide_view bytes, tide_error *err)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    tide_status status = TIDE_OK;
    int epochs_seen = 0;
    out->has_state = true;
    while ((status = tide_field_next(&reader, &field)) == TIDE_OK) {
        if (err)
            err->status = TIDE_OK;
        status = take_field_state(out, &field, &epochs_seen, err);
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

/* Do the parts of the whole answer agree? TIDE_E_INVALID. Records and holes are in order. */
static tide_status reply_check_state(const tide_reply *reply, tide_error *err)
{
    if (!reply->has_state)
        return TIDE_OK;
    TIDE_TRY(check_marks(reply, err));
    TIDE_TRY(check_epochs(reply, err));
    TIDE_TRY(check_holes(reply, err));
    return check_records(reply, err);
}

enum {
    FRAMES_FIELD = 21, /* of profile answers */
};

/* ---- fields ---- */

tide_status tide_field_next(tide_reader *reader, tide_wire_field *out)
{
    const tide_status status = tide_wire_next(reader, out, NULL);
    return status < TIDE_OK ? TIDE_E_DAMAGED : status;
}

tide_status tide_field_number(const tide_wire_field *field, int64_t *out)
{
    if (field->type != TIDE_WIRE_VARINT || field->value > INT64_MAX)
        return TIDE_E_DAMAGED;
    *out = (int64_t)field->value;
    return TIDE_OK;
}

tide_status tide_field_text(const tide_wire_field *field, char *out, size_t size)
{
    if (field->type != TIDE_WIRE_BYTES || field->bytes.len >= size ||
        !tide_utf8_valid(field->bytes))
        return TIDE_E_DAMAGED;
    if (field->bytes.len > 0)
        memcpy(out, field->bytes.ptr, field->bytes.len);
    out[field->bytes.len] = '\0';
    return TIDE_OK;
}

/* ---- records and frames ---- */

/* The number of a message that cannot be read: the last seq_id in front of what is wrong. */
static tide_status find_seq(const tide_stream_type *type, tide_view message, int64_t *out)
{
    tide_reader reader = tide_reader_of(message);
    tide_wire_field field;
    *out = 0;
    while (tide_field_next(&reader, &field) == TIDE_OK)
        if (field.number == type->seq_field && field.type == TIDE_WIRE_VARINT)
            TIDE_TRY(tide_field_number(&field, out));
    return TIDE_OK;
}

static tide_status read_record(const tide_stream_type *type, const tide_wire_field *field,
                               tide_reply_record *out, tide_error *err)
{
    *out = (tide_reply_record){.bytes = field->all, .message = field->bytes};
    if (find_seq(type, field->bytes, &out->seq) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "a record's number is above %" PRId64, INT64_MAX);
    const tide_record record = {.seq = out->seq, .bytes = field->all, .message = field->bytes};
    if (out->seq > 0 && tide_record_check(type, &record, NULL) == TIDE_OK)
        return TIDE_OK;
    tide_record_row row;
    out->is_dead = true;
    if (field->all.len > TIDE_FEED_RECORD_MAX)
        out->reason = "too long";
    else if (tide_record_decode(type, field->bytes, &row) != TIDE_OK)
        out->reason = "not a message of its type";
    else
        out->reason = out->seq == 0 ? "no number" : "text that is not UTF-8, or has a NUL";
    return TIDE_OK;
}

static tide_status add_record(tide_reply *out, const tide_stream_type *type,
                              const tide_wire_field *field, tide_error *err)
{
    if (out->record_count == TIDE_REPLY_RECORDS_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d records", TIDE_REPLY_RECORDS_MAX);
    TIDE_TRY(
        tide_list_room(&out->records, out->record_count, sizeof *out->records, TIDE_LIST_MAX, err));
    TIDE_TRY(read_record(type, field, &out->records[out->record_count], err));
    out->record_count++;
    return TIDE_OK;
}

static tide_status read_frame(tide_view bytes, tide_reply_frame *out)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    *out = (tide_reply_frame){.name = tide_view_of("")};
    TIDE_EACH(tide_field_next(&reader, &field)) {
        if (field.number == 1 && field.type == TIDE_WIRE_VARINT)
            out->id = field.value;
        else if (field.number == 2 && field.type == TIDE_WIRE_BYTES)
            out->name = field.bytes;
        else if (field.number <= 2)
            return TIDE_E_DAMAGED;
    }
    return TIDE_OK;
}

/* A frame that cannot be read costs its name, not the samples. */
static tide_status add_frame(tide_reply *out, const tide_wire_field *field, tide_error *err)
{
    tide_reply_frame frame;
    if (read_frame(field->bytes, &frame) != TIDE_OK || !tide_utf8_valid(frame.name))
        return TIDE_OK;
    if (out->frame_count == TIDE_REPLY_FRAMES_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "more than %d frames", TIDE_REPLY_FRAMES_MAX);
    TIDE_TRY(
        tide_list_room(&out->frames, out->frame_count, sizeof *out->frames, TIDE_LIST_MAX, err));
    out->frames[out->frame_count++] = frame;
    return TIDE_OK;
}

/* ---- the answer ---- */

static bool has_frames(const tide_stream_type *type)
{
    return type->kind == TIDE_STREAM_CPU_PROFILE || type->kind == TIDE_STREAM_MEMORY_PROFILE;
}

static tide_status take_field(tide_reply *out, const tide_colony_type *type,
                              const tide_wire_field *field, tide_error *err)
{
    const bool is_bytes = field->type == TIDE_WIRE_BYTES;
    if (field->number == type->stream->field && is_bytes)
        return add_record(out, type->stream, field, err);
    if (field->number == type->state_field && is_bytes)
        return reply_read_state(out, field->bytes, err);
    if (has_frames(type->stream) && field->number == FRAMES_FIELD && is_bytes)
        return add_frame(out, field, err);
    if (field->number == type->max_seq_field) {
        if (tide_field_number(field, &out->max_seq) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "max_seq_id is no number");
    } else if (field->number == type->session_field) {
        if (tide_field_text(field, out->session_id, sizeof out->session_id) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "session_id is no text of at most %zu bytes",
                             sizeof out->session_id - 1);
    }
    return TIDE_OK;
}

static tide_status read_fields(tide_reply *out, const tide_colony_type *type, tide_view bytes,
                               tide_error *err)
{
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field field;
    tide_status status = TIDE_OK;
    while ((status = tide_field_next(&reader, &field)) == TIDE_OK)
        TIDE_TRY(take_field(out, type, &field, err));
    if (status < TIDE_OK)
        return tide_fail(err, status, "byte %zu of the answer begins no field", reader.offset);
    return TIDE_OK;
}

/* By number; equal ones as they came. */
static int compare_records(const void *a, const void *b)
{
    const tide_reply_record *x = a;
    const tide_reply_record *y = b;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->bytes.ptr > y->bytes.ptr) - (x->bytes.ptr < y->bytes.ptr);
}

static bool is_sorted(const tide_reply *reply)
{
    for (int i = 1; i < reply->record_count; i++)
        if (reply->records[i].seq <= reply->records[i - 1].seq)
            return false;
    return true;
}

/* A number that comes twice with the same bytes is one record; with others it is a contradiction. */
static tide_status join_equals(tide_reply *reply, tide_error *err)
{
    int kept = 0;
    for (int i = 0; i < reply->record_count; i++) {
        const tide_reply_record *record = &reply->records[i];
        const tide_reply_record *last = kept > 0 ? &reply->records[kept - 1] : NULL;
        if (record->seq == 0 || !last || last->seq != record->seq)
            reply->records[kept++] = *record;
        else if (!tide_view_equal(last->message, record->message))
            return tide_fail(err, TIDE_E_INVALID, "two different records have number %" PRId64,
                             record->seq);
    }
    reply->record_count = kept;
    return TIDE_OK;
}

static int compare_holes(const void *a, const void *b)
{
    const int64_t x = ((const tide_reply_hole *)a)->first_seq;
    const int64_t y = ((const tide_reply_hole *)b)->first_seq;
    return (x > y) - (x < y);
}

static tide_status put_in_order(tide_reply *reply, tide_error *err)
{
    if (reply->records && !is_sorted(reply)) {
        qsort(reply->records, (size_t)reply->record_count, sizeof *reply->records, compare_records);
        TIDE_TRY(join_equals(reply, err));
    }
    if (reply->hole_count > 1)
        qsort(reply->holes, (size_t)reply->hole_count, sizeof *reply->holes, compare_holes);
    return TIDE_OK;
}

void tide_reply_done(tide_reply *reply)
{
    free(reply->records);
    free(reply->frames);
    free(reply->epochs);
    free(reply->holes);
    *reply = (tide_reply){.len = 0};
}

tide_status tide_reply_read(tide_reply *out, const tide_colony_type *type, tide_view bytes,
                            tide_error *err)
{
    *out = (tide_reply){.len = 0};
    if (bytes.len > TIDE_REPLY_BYTES_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "an answer of %zu bytes, at most %d", bytes.len,
                         TIDE_REPLY_BYTES_MAX);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = bytes.len};
    TIDE_TRY(read_fields(&reply, type, bytes, err));
    if (*reply.session_id == '\0')
        return tide_fail(err, TIDE_E_INVALID, "the answer has no session_id");
    TIDE_TRY(put_in_order(&reply, err));
    TIDE_TRY(reply_check_state(&reply, err));
    *out = reply;
    reply = (tide_reply){.len = 0};
    return TIDE_OK;
}
