#include "otlp/attributes.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/text/utf8.h"

enum {
    NONE = -1,
    WIRE_BYTES = 2,
    TAG_KEY = 1 << 3 | WIRE_BYTES,
    TAG_VALUE = 2 << 3 | WIRE_BYTES,
    HEADS_LEN_MAX = 3 + 3 * TIDE_VARINT_LEN_MAX,   /* tags and lengths of an entry */
    CLEAN_MAX = 3 * TIDE_OTLP_ATTRIBUTE_BYTES_MAX, /* a broken byte becomes three */
    ENCODED_MAX = CLEAN_MAX + TIDE_OTLP_ATTRIBUTES_MAX * HEADS_LEN_MAX,
};

static int16_t *head_of(tide_otlp_attributes *attributes, uint64_t hash)
{
    return &attributes->heads[hash & (TIDE_OTLP_ATTRIBUTE_HEADS - 1)];
}

void tide_otlp_attributes_init(tide_otlp_attributes *attributes, uint64_t seed)
{
    attributes->count = 0;
    attributes->hidden_count = 0;
    attributes->bytes_len = 0;
    attributes->seed = seed;
    attributes->tag = 0;
    attributes->replaced = 0;
    tide_buffer_init(&attributes->encoded, ENCODED_MAX);
    tide_buffer_init(&attributes->clean, CLEAN_MAX);
    for (int i = 0; i < TIDE_OTLP_ATTRIBUTE_HEADS; i++)
        attributes->heads[i] = NONE;
}

void tide_otlp_attributes_done(tide_otlp_attributes *attributes)
{
    tide_buffer_done(&attributes->encoded);
    tide_buffer_done(&attributes->clean);
}

/* The newest entry of a key, which hides all others of it. */
static int16_t find_newest(const tide_otlp_attributes *attributes, tide_view key, uint64_t hash)
{
    int16_t at = attributes->heads[hash & (TIDE_OTLP_ATTRIBUTE_HEADS - 1)];
    while (at != NONE && (attributes->entries[at].hash != hash ||
                          !tide_view_equal(attributes->entries[at].key, key)))
        at = attributes->entries[at].next;
    return at;
}

static uint64_t hash_of(const tide_otlp_attributes *attributes, tide_view key)
{
    return XXH3_64bits_withSeed(key.len > 0 ? key.ptr : "", key.len, attributes->seed);
}

/* ---- encoding ---- */

static char *put_varint(char *at, size_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (char)(0x80U | (number & 0x7FU));
    *at++ = (char)number;
    return at;
}

static size_t varint_len(size_t number)
{
    size_t len = 1;
    for (; number >= 0x80; number >>= 7)
        len++;
    return len;
}

/* Nearly all text is ASCII: eight bytes at a time, none of them 0 or above 127. */
static bool is_plain(tide_view text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= text.len; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text.ptr + at, sizeof word);
        if (((word | ((word - ones) & ~word)) & tops) != 0)
            return false;
    }
    for (; at < text.len; at++)
        if (text.ptr[at] == '\0' || (uint8_t)text.ptr[at] > 0x7F)
            return false;
    return true;
}

static bool is_clean(tide_view text)
{
    return is_plain(text) || tide_utf8_valid(text);
}

/* The text becomes its clean copy. There is room for it: copies made before do not move. */
static tide_status clean_text(tide_otlp_attributes *attributes, tide_view *text)
{
    const size_t start = attributes->clean.len;
    size_t replaced = 0;
    TIDE_TRY(tide_utf8_clean(&attributes->clean, *text, &replaced));
    attributes->replaced += replaced;
    *text = tide_view_bytes(attributes->clean.ptr + start, attributes->clean.len - start);
    return TIDE_OK;
}

static char *put_text(char *at, uint8_t tag, tide_view text)
{
    *at++ = (char)tag;
    at = put_varint(at, text.len);
    if (text.len > 0)
        memcpy(at, text.ptr, text.len);
    return at + text.len;
}

static tide_status encode_entry(tide_otlp_attributes *attributes, tide_view key, tide_view value)
{
    tide_buffer *out = &attributes->encoded;
    if (!is_clean(key) || !is_clean(value)) {
        tide_buffer_clear(&attributes->clean);
        TIDE_TRY(tide_buffer_reserve(&attributes->clean, 3 * (key.len + value.len)));
        TIDE_TRY(clean_text(attributes, &key));
        TIDE_TRY(clean_text(attributes, &value));
    }
    TIDE_TRY(tide_buffer_reserve(out, key.len + value.len + HEADS_LEN_MAX));
    const size_t len = 2 + varint_len(key.len) + key.len + varint_len(value.len) + value.len;
    char *at = out->ptr + out->len;
    *at++ = (char)attributes->tag;
    at = put_varint(at, len);
    at = put_text(at, TAG_KEY, key);
    at = put_text(at, TAG_VALUE, value);
    *at = '\0'; /* as buffers have it */
    out->len = (size_t)(at - out->ptr);
    return TIDE_OK;
}

static size_t encoded_end(const tide_otlp_attributes *attributes, int index)
{
    return index + 1 < attributes->count ? attributes->entries[index + 1].encoded_at
                                         : attributes->encoded.len;
}

void tide_otlp_attributes_write(tide_otlp_attributes *attributes, tide_record_batch *batch,
                                int column)
{
    const tide_column *map = &batch->type->columns[column];
    assert(map->kind == TIDE_COLUMN_MAP && map->field < 16); /* a tag of one byte */
    const uint8_t tag = (uint8_t)(map->field << 3 | WIRE_BYTES);
    const bool is_other_tag = tag != attributes->tag;
    attributes->tag = tag;
    char *bytes = attributes->encoded.ptr;
    for (int i = 0; is_other_tag && i < attributes->count; i++)
        bytes[attributes->entries[i].encoded_at] = (char)tag;
    if (attributes->hidden_count == 0) {
        tide_record_fields(batch, tide_buffer_view(&attributes->encoded));
        return;
    }
    for (int i = 0; i < attributes->count; i++) {
        const size_t at = attributes->entries[i].encoded_at;
        if (!attributes->entries[i].is_hidden)
            tide_record_fields(batch, tide_view_bytes(bytes + at, encoded_end(attributes, i) - at));
    }
}

/* ---- the stack ---- */

tide_status tide_otlp_attributes_push(tide_otlp_attributes *attributes, tide_view key,
                                      tide_view value, tide_otlp_reason *reason)
{
    *reason = TIDE_OTLP_REASON_NONE;
    if (attributes->count == TIDE_OTLP_ATTRIBUTES_MAX)
        *reason = TIDE_OTLP_REASON_ATTRIBUTES;
    /* Neither sum can overflow: a request has 64 MiB. */
    else if (key.len + value.len > TIDE_OTLP_ATTRIBUTE_BYTES_MAX - attributes->bytes_len)
        *reason = TIDE_OTLP_REASON_ATTRIBUTE_BYTES;
    if (*reason != TIDE_OTLP_REASON_NONE)
        return TIDE_OK;
    const size_t encoded_at = attributes->encoded.len;
    TIDE_TRY(encode_entry(attributes, key, value));
    const uint64_t hash = hash_of(attributes, key);
    int16_t *head = head_of(attributes, hash);
    const int16_t hides = find_newest(attributes, key, hash);
    if (hides != NONE) {
        attributes->entries[hides].is_hidden = true;
        attributes->hidden_count++;
    }
    attributes->entries[attributes->count] = (tide_otlp_attribute){
        .key = key,
        .value = value,
        .hash = hash,
        .encoded_at = encoded_at,
        .next = *head,
        .hides = hides,
    };
    *head = (int16_t)attributes->count;
    attributes->count++;
    attributes->bytes_len += key.len + value.len;
    return TIDE_OK;
}

void tide_otlp_attributes_cut(tide_otlp_attributes *attributes, int count)
{
    while (attributes->count > count) {
        const tide_otlp_attribute *top = &attributes->entries[--attributes->count];
        int16_t *head = head_of(attributes, top->hash);
        assert(*head == attributes->count);
        *head = top->next;
        if (top->hides != NONE) {
            attributes->entries[top->hides].is_hidden = false;
            attributes->hidden_count--;
        }
        attributes->bytes_len -= top->key.len + top->value.len;
        tide_buffer_truncate(&attributes->encoded, top->encoded_at);
    }
}

bool tide_otlp_attributes_find(const tide_otlp_attributes *attributes, tide_view key,
                               tide_view *value)
{
    const int16_t at = find_newest(attributes, key, hash_of(attributes, key));
    if (at == NONE)
        return false;
    *value = attributes->entries[at].value;
    return true;
}

tide_digest128 tide_otlp_attributes_digest(const tide_otlp_attributes *attributes, int count)
{
    /* A sum does not know an order. */
    uint64_t low = 0;
    uint64_t high = 0;
    for (int i = 0; i < count; i++) {
        const tide_otlp_attribute *entry = &attributes->entries[i];
        if (entry->is_hidden)
            continue;
        const XXH128_hash_t pair = XXH3_128bits_withSeed(
            entry->value.len > 0 ? entry->value.ptr : "", entry->value.len, entry->hash);
        low += pair.low64;
        high += pair.high64;
    }
    tide_digest128 digest;
    memcpy(digest.bytes, &low, sizeof low);
    memcpy(digest.bytes + sizeof low, &high, sizeof high);
    return digest;
}
