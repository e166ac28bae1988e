/* digest.c - see digest.h. */
#include "lake/digest.h"
#include "base/digest.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "lake/state_row.h"

/* "<length>:<bytes>", or "-" where there is nothing. */
static tide_status add_field(tide_sha256 *sha, const tide_lake_field *field, tide_error *err)
{
    if (field->kind == TIDE_LAKE_FIELD_NULL)
        return tide_sha256_add(sha, tide_view_of("-"), err);
    char digits[24];
    tide_view bytes = field->text;
    if (field->kind == TIDE_LAKE_FIELD_NUMBER) {
        const int len = snprintf(digits, sizeof digits, "%" PRId64, field->number);
        bytes = (tide_view){.ptr = digits, .len = (size_t)len};
    }
    char head[24];
    const int head_len = snprintf(head, sizeof head, "%zu:", bytes.len);
    TIDE_TRY(tide_sha256_add(sha, (tide_view){.ptr = head, .len = (size_t)head_len}, err));
    return tide_sha256_add(sha, bytes, err);
}

static uint64_t read_sum(const uint8_t bytes[8])
{
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum = (sum << 8) | bytes[i];
    return sum & TIDE_LAKE_DIGEST_MASK;
}

tide_status tide_lake_digest_of(tide_lake_digest *out, const tide_lake_field *fields, int count,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(add_field(&sha, &fields[i], err));
    uint8_t bytes[TIDE_SHA256_LEN];
    TIDE_TRY(tide_sha256_finish(&sha, bytes, err));
    out->sums[0] = read_sum(bytes);
    out->sums[1] = read_sum(bytes + 8);
    return TIDE_OK;
}

void tide_lake_digest_add(tide_lake_digest *sum, const tide_lake_digest *row)
{
    for (int i = 0; i < 2; i++)
        sum->sums[i] = (sum->sums[i] + row->sums[i]) & TIDE_LAKE_DIGEST_MASK;
}

void tide_lake_digest_subtract(tide_lake_digest *sum, const tide_lake_digest *row)
{
    for (int i = 0; i < 2; i++)
        sum->sums[i] = (sum->sums[i] - row->sums[i]) & TIDE_LAKE_DIGEST_MASK;
}

/* ---- rows ---- */

static tide_lake_field number(int64_t value)
{
    return (tide_lake_field){.kind = TIDE_LAKE_FIELD_NUMBER, .number = value};
}

static tide_lake_field view(tide_view value)
{
    return (tide_lake_field){.kind = TIDE_LAKE_FIELD_TEXT, .text = value};
}

static tide_lake_field text(const char *value)
{
    return view(tide_view_of(value));
}

static tide_lake_field maybe(const char *value, bool is_there)
{
    return is_there ? text(value) : (tide_lake_field){.kind = TIDE_LAKE_FIELD_NULL};
}

tide_status tide_lake_object_digest(const tide_lake_object_row *row, tide_lake_digest *out,
                                    tide_error *err)
{
    const tide_lake_object *seen = &row->seen;
    if (seen->kind == TIDE_LAKE_SCHEMA)
        return tide_lake_digest_of(out,
                                   (tide_lake_field[]){number(TIDE_LAKE_SCHEMA), number(seen->id),
                                                       text(seen->uuid), text(seen->name),
                                                       text(row->path), number(row->is_relative)},
                                   6, err);
    if (seen->kind == TIDE_LAKE_TABLE)
        return tide_lake_digest_of(out,
                                   (tide_lake_field[]){number(TIDE_LAKE_TABLE), number(seen->id),
                                                       text(seen->uuid), number(seen->schema_id),
                                                       text(seen->name), text(row->path),
                                                       number(row->is_relative)},
                                   7, err);
    return tide_lake_digest_of(out,
                               (tide_lake_field[]){number(TIDE_LAKE_VIEW), number(seen->id),
                                                   text(seen->uuid), number(seen->schema_id),
                                                   text(seen->name), text(row->dialect),
                                                   text(seen->sql ? seen->sql : "")},
                               7, err);
}

tide_status tide_lake_column_digest(int64_t table_id, const tide_lake_column_row *row,
                                    tide_lake_digest *out, tide_error *err)
{
    const tide_lake_column *seen = &row->seen;
    return tide_lake_digest_of(
        out,
        (tide_lake_field[]){
            number(TIDE_LAKE_COLUMN), number(table_id), number(seen->id), number(seen->order),
            text(seen->name), text(seen->type), maybe(seen->initial_default, row->has_initial),
            maybe(seen->default_value, row->has_default), number(seen->nulls_allowed)},
        9, err);
}

tide_status tide_lake_partition_digest(int64_t table_id, const tide_lake_partition *row,
                                       tide_lake_digest *out, tide_error *err)
{
    tide_lake_field fields[3 + 2 * TIDE_LAKE_PARTITION_KEYS_MAX] = {
        number(TIDE_LAKE_PARTITION), number(row->id), number(table_id)};
    int count = 3;
    for (int i = 0; i < row->count; i++) {
        fields[count++] = number(row->keys[i].column_id);
        fields[count++] = text(row->keys[i].transform);
    }
    return tide_lake_digest_of(out, fields, count, err);
}

tide_status tide_lake_data_file_digest(const tide_lake_file_row *row, tide_lake_digest *out,
                                       tide_error *err)
{
    const tide_lake_field footer =
        row->has_footer ? number(row->footer) : (tide_lake_field){.kind = TIDE_LAKE_FIELD_NULL};
    return tide_lake_digest_of(out,
                               (tide_lake_field[]){number(TIDE_LAKE_DATA_FILE), number(row->id),
                                                   number(row->table_id), view(row->path),
                                                   number(row->is_relative), number(row->records),
                                                   number(row->bytes), footer},
                               8, err);
}

tide_status tide_lake_delete_file_digest(const tide_lake_file_row *row, tide_lake_digest *out,
                                         tide_error *err)
{
    return tide_lake_digest_of(
        out,
        (tide_lake_field[]){number(TIDE_LAKE_DELETE_FILE_KIND), number(row->id),
                            number(row->table_id), number(row->data_file_id), view(row->path),
                            number(row->is_relative), number(row->records), number(row->bytes)},
        8, err);
}
