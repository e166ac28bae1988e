/* reply.c - the look into what an agent answered. See ask.h. */
#include "colony/ask.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "colony/reply_field.h"

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

tide_status tide_field_word(const tide_wire_field *field, char *out, size_t size)
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
        return tide_reply_read_state(out, field->bytes, err);
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
    TIDE_TRY(tide_reply_check_state(&reply, err));
    *out = reply;
    reply = (tide_reply){.len = 0};
    return TIDE_OK;
}
