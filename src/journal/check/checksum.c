#include "journal/check/checksum.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "journal/checkpoint_iter.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { VERSION = 1 };

static tide_status add_number(tide_sha256 *sha, uint64_t number, tide_error *err)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    return tide_sha256_add(sha, tide_view_bytes(bytes, sizeof bytes), err);
}

static tide_status add_byte(tide_sha256 *sha, uint8_t byte, tide_error *err)
{
    return tide_sha256_add(sha, tide_view_bytes(&byte, 1), err);
}

static tide_status add_field(tide_sha256 *sha, tide_view field, tide_error *err)
{
    TIDE_TRY(add_byte(sha, field.ptr != NULL, err));
    if (!field.ptr)
        return TIDE_OK;
    TIDE_TRY(add_number(sha, field.len, err));
    return tide_sha256_add(sha, field, err);
}

tide_status tide_checksum_compute(tide_checksum *out, const tide_checksum_fields *fields,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    TIDE_TRY(add_byte(&sha, VERSION, err));
    const char *const texts[] = {fields->checkpoint_id, fields->task_id, fields->work_item_id,
                                 fields->type,          fields->message, fields->metadata,
                                 fields->trigger};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        TIDE_TRY(add_field(&sha, tide_view_of(texts[i]), err));
    TIDE_TRY(add_number(&sha, (uint64_t)fields->tag_count, err));
    for (int i = 0; i < fields->tag_count; i++)
        TIDE_TRY(add_field(&sha, tide_view_of(fields->tags[i]), err));
    const tide_view snapshot = fields->snapshot.ptr ? fields->snapshot : tide_view_bytes("", 0);
    TIDE_TRY(add_field(&sha, snapshot, err));
    return tide_sha256_finish(&sha, out->bytes, err);
}

tide_checksum_fields tide_checksum_fields_of(const tide_checkpoint *checkpoint)
{
    return (tide_checksum_fields){
        .checkpoint_id = checkpoint->checkpoint_id,
        .task_id = checkpoint->task_id,
        .work_item_id = checkpoint->work_item_id,
        .type = checkpoint->type,
        .message = checkpoint->message,
        .metadata = checkpoint->metadata,
        .trigger = checkpoint->trigger,
        .tags = checkpoint->tags,
        .tag_count = checkpoint->tag_count,
        .snapshot = checkpoint->snapshot,
    };
}

tide_status tide_checksum_link(tide_checksum *out, tide_view previous, int64_t number,
                               tide_view checksum, tide_error *err)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)number >> (8 * (7 - i)));
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    TIDE_TRY(tide_sha256_add(&sha, previous, err));
    TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(bytes, sizeof bytes), err));
    TIDE_TRY(tide_sha256_add(&sha, checksum, err));
    return tide_sha256_finish(&sha, out->bytes, err);
}

bool tide_checksum_equal(const tide_checksum *seal, tide_view bytes)
{
    return tide_view_equal(tide_view_bytes(seal->bytes, sizeof seal->bytes), bytes);
}

static int compare_tags(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int tide_checksum_sort_tags(const char **tags, int count)
{
    if (count == 0)
        return 0;
    qsort(tags, (size_t)count, sizeof tags[0], compare_tags);
    int kept = 1;
    for (int i = 1; i < count; i++)
        if (strcmp(tags[i], tags[kept - 1]) != 0)
            tags[kept++] = tags[i];
    return kept;
}

tide_view tide_chain_view(const tide_chain *chain)
{
    return tide_view_bytes(chain->bytes, chain->len);
}

void tide_chain_set(tide_chain *chain, tide_view bytes)
{
    const bool is_chain = bytes.len == 0 || bytes.len == sizeof chain->bytes;
    memset(chain->bytes, 0, sizeof chain->bytes);
    chain->len = is_chain ? bytes.len : sizeof chain->bytes;
    if (is_chain && bytes.len > 0)
        memcpy(chain->bytes, bytes.ptr, bytes.len);
}

static tide_status find_in_task(tide_chain *out, tide_tx *tx, const tide_segment *segment,
                                tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FORK_CHAIN, err, tide_bind_text("task_id", segment->task_id),
                   tide_bind_i64("number", segment->high));
    (void)tide_query_col_i64(query); /* the number it belongs to */
    tide_chain_set(out, tide_query_col_blob(query));
    return TIDE_OK;
}

tide_status tide_chain_at(tide_chain *out, tide_tx *tx, const char *task_id, int64_t number,
                          tide_error *err)
{
    out->len = 0;
    tide_lineage lineage;
    TIDE_TRY(tide_lineage_read(&lineage, tx, task_id, err));
    if (lineage.count > 0)
        lineage.segments[lineage.count - 1].high = number;
    for (int i = lineage.count - 1; i >= 0; i--) {
        const tide_status status = find_in_task(out, tx, &lineage.segments[i], err);
        if (status != TIDE_NONE)
            return status;
    }
    return TIDE_OK;
}
