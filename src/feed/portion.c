#include "feed/portion.h"

#include <stdlib.h>

#include "base/list.h"
#include "feed/record.h"

void tide_portions_done(tide_portions *p)
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

tide_status tide_portions_cut(tide_portions *p, const tide_feed_records *records, int count,
                              tide_error *err)
{
    for (int i = 0; i < count; i++)
        if (is_one_batch(&records[i]))
            TIDE_TRY(add_portion(p, &records[i], 0, records[i].len, records[i].count, err));
        else
            TIDE_TRY(cut(p, &records[i], err));
    return TIDE_OK;
}

void tide_portions_number(const tide_portions *p, tide_feed_records *records, int count)
{
    for (int i = 0, at = 0; i < count; i++) {
        records[i].first_seq = p->list[at].first_seq;
        for (int taken = 0; taken < records[i].count; at++)
            taken += p->list[at].count;
        records[i].last_seq = p->list[at - 1].last_seq;
    }
}
