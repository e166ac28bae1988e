/* Snapshots of a replica: read to their end or refused, and what is handed out keeps the rules.
 *
 * Digests stop a fuzzer at the door, so an input is two things: with a first byte of 0 the rest is a file as it is; otherwise it is the records, which are
 * packed into a sound file first. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/conflict.h"
#include "replica/snapshot_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct source {
    const uint8_t *data;
    size_t size;
    size_t at;
} source;

/* In pieces of all lengths. */
static tide_status read_piece(void *arg, void *bytes, size_t len, size_t *got, tide_error *err)
{
    (void)err;
    source *s = arg;
    size_t most = 1 + s->at * 7 % 61;
    if (most > s->size - s->at)
        most = s->size - s->at;
    if (most > len)
        most = len;
    if (most > 0)
        memcpy(bytes, s->data + s->at, most);
    s->at += most;
    *got = most;
    return TIDE_OK;
}

static void check_row(const tide_snapshot_decoder *decoder, const tide_snapshot_row *row)
{
    const tide_snapshot_table *table = &decoder->tables[row->table];
    assert(row->table < decoder->table_count && row->key.len > 0);
    assert(!row->is_here || tide_row_clock_exists(&row->clock));
    for (int i = 0; i < table->column_count; i++)
        assert(!row->is_here || row->has[i]);
    for (int i = 0; i < row->clock.column_count; i++)
        assert(row->clock.columns[i].column < table->column_count ||
               row->clock.columns[i].column == TIDE_ROW_CLOCK_LOST);
    for (int i = 0; i < row->conflict_count; i++)
        assert(row->conflicts[i].column >= TIDE_CONFLICT_DELETE &&
               row->conflicts[i].column < table->column_count);
    for (int i = 0; i < row->known_count; i++)
        assert(row->knowledge[i].column >= TIDE_CONFLICT_ROW &&
               row->knowledge[i].column < table->column_count);
}

static void decode(const uint8_t *data, size_t size)
{
    tide_error err;
    source s = {.data = data, .size = size};
    TIDE_CLEANUP(tide_snapshot_reader_done) tide_snapshot_reader reader = {.read = NULL};
    TIDE_CLEANUP(tide_snapshot_decoder_done) tide_snapshot_decoder decoder = {.reader = NULL};
    if (tide_snapshot_reader_init(&reader, read_piece, &s, &err) < TIDE_OK ||
        tide_snapshot_decoder_init(&decoder, &reader, &err) < TIDE_OK)
        return;
    for (int i = 1; i < decoder.origin_count; i++)
        assert(memcmp(&decoder.origins[i - 1].origin, &decoder.origins[i].origin, TIDE_NODE_LEN) <=
               0);
    bool is_ended = false;
    for (;;) {
        tide_snapshot_record record;
        const tide_status status = tide_snapshot_decoder_next(&decoder, &record, &err);
        if (status != TIDE_OK) {
            assert(status < TIDE_OK || is_ended);
            return;
        }
        assert(!is_ended);
        is_ended = record.kind == TIDE_SNAPSHOT_END;
        if (record.kind == TIDE_SNAPSHOT_ROW)
            check_row(&decoder, &record.as.row);
        if (record.kind == TIDE_SNAPSHOT_EVENT)
            assert(tide_snapshot_decoder_origin(&decoder, &record.as.event.event.origin,
                                                record.as.event.event.epoch));
    }
}

/* Each record behind a length of two bytes. */
static void add_records(tide_snapshot_writer *writer, const uint8_t *data, size_t size)
{
    while (size >= 2) {
        size_t len = data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        if (tide_snapshot_writer_add(writer, tide_view_bytes(data, len), NULL) < TIDE_OK)
            abort();
        data += len;
        size -= len;
    }
}

static void decode_packed(const uint8_t *data, size_t size)
{
    static const uint8_t id[TIDE_SNAPSHOT_ID_LEN] = {1};
    const int fd = memfd_create("snapshot", MFD_CLOEXEC);
    TIDE_CLEANUP(tide_snapshot_writer_done) tide_snapshot_writer writer = {.fd = -1};
    if (fd < 0 || tide_snapshot_writer_init(&writer, fd, id, 1, NULL) < TIDE_OK)
        abort();
    add_records(&writer, data, size);
    if (tide_snapshot_writer_finish(&writer, NULL) < TIDE_OK)
        abort();
    void *file = mmap(NULL, writer.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        abort();
    decode(file, writer.bytes);
    (void)munmap(file, writer.bytes);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0)
        decode(data + 1, size - 1);
    else
        decode_packed(data + 1, size - 1);
    return 0;
}
