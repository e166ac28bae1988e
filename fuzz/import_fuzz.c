/* Export files and older documents: read to their end or refused, and what is handed out keeps the rules. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "journal/transfer/import_reader.h"

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

static void check_checkpoint(const tide_import_checkpoint *checkpoint)
{
    const tide_checksum_fields *fields = &checkpoint->fields;
    assert(checkpoint->global_sequence > 0 && checkpoint->sequence_number > 0);
    assert(strlen(fields->checkpoint_id) <= TIDE_JOURNAL_ID_MAX && *fields->checkpoint_id);
    assert(strlen(fields->task_id) <= TIDE_JOURNAL_ID_MAX && *fields->task_id);
    assert(fields->type && fields->trigger && fields->snapshot.ptr);
    const tide_view task_id = tide_view_of(fields->task_id);
    assert(tide_utf8_valid(fields->snapshot) && tide_utf8_valid(task_id));
    for (int i = 1; i < fields->tag_count; i++)
        assert(strcmp(fields->tags[i - 1], fields->tags[i]) < 0);
    tide_checksum seal;
    assert(tide_checksum_compute(&seal, fields, NULL) == TIDE_OK);
    const tide_view checksum =
        tide_view_bytes(checkpoint->checksum.bytes, sizeof checkpoint->checksum.bytes);
    assert(tide_checksum_equal(&seal, checksum));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    source s = {.data = data, .size = size};
    tide_import_reader *reader = calloc(1, sizeof *reader);
    tide_arena arena;
    tide_arena_init(&arena, 64 << 20);
    if (!reader || tide_import_reader_init(reader, read_piece, &s, NULL) < TIDE_OK)
        abort();
    bool is_ended = false;
    tide_import_record record;
    tide_error err;
    tide_status status = TIDE_OK;
    for (int i = 0; status == TIDE_OK; i++) {
        tide_arena_reset(&arena);
        status = tide_import_next(reader, &record, &arena, &err);
        if (status != TIDE_OK)
            break;
        assert(!is_ended && (record.kind == TIDE_IMPORT_HEADER) == (i == 0));
        is_ended = record.kind == TIDE_IMPORT_END;
        if (record.kind == TIDE_IMPORT_CHECKPOINT)
            check_checkpoint(&record.as.checkpoint);
        if (record.kind == TIDE_IMPORT_TASK)
            assert(record.as.task.title && record.as.task.status);
    }
    assert(status < TIDE_OK || is_ended);
    tide_import_reader_done(reader);
    tide_arena_done(&arena);
    free(reader);
    return 0;
}
