/* digest.c - see digest.h. */
#include "lake/digest.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/digest.h"

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
