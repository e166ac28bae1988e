#include "base/text/json_canon.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

tide_status tide_json_check(tide_view text, tide_error *err)
{
    tide_json_scan scan;
    tide_json_scan_init(&scan, text);
    tide_json_token token;
    do
        TIDE_TRY(tide_json_scan_next(&scan, &token, err));
    while (token.kind != TIDE_JSON_END);
    return TIDE_OK;
}

/* --- characters of strings --- */

static uint32_t read_hex(const char *digits)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = digits[i];
        value = value * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* The character that an escape of a valid string means; *len is how many bytes it takes. */
static uint32_t decode_escape(const char *at, size_t *len)
{
    static const char KINDS[] = "bfnrt";
    static const char MEANINGS[] = "\b\f\n\r\t";
    *len = 2;
    if (at[1] != 'u') {
        const char *kind = strchr(KINDS, at[1]);
        return (uint32_t)(kind ? MEANINGS[kind - KINDS] : at[1]);
    }
    *len = 6;
    const uint32_t unit = read_hex(at + 2);
    if (unit < 0xD800 || unit > 0xDFFF)
        return unit;
    *len = 12;
    return 0x10000 + ((unit - 0xD800) << 10) + (read_hex(at + 8) - 0xDC00);
}

static uint32_t decode_utf8(const char *at, size_t *len)
{
    const uint8_t *byte = (const uint8_t *)at;
    if (byte[0] < 0x80) {
        *len = 1;
        return byte[0];
    }
    *len = byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    uint32_t character = byte[0] & (0x7FU >> *len);
    for (size_t i = 1; i < *len; i++)
        character = character << 6 | (byte[i] & 0x3FU);
    return character;
}

uint32_t tide_json_string_next(tide_view *rest)
{
    size_t len;
    const uint32_t character =
        rest->ptr[0] == '\\' ? decode_escape(rest->ptr, &len) : decode_utf8(rest->ptr, &len);
    assert(len <= rest->len);
    *rest = tide_view_bytes(rest->ptr + len, rest->len - len);
    return character;
}

size_t tide_json_unescape_to(char *out, tide_view quoted)
{
    tide_view rest = tide_view_bytes(quoted.ptr + 1, quoted.len - 2);
    size_t len = 0;
    while (rest.len > 0) {
        const char *escape = memchr(rest.ptr, '\\', rest.len);
        const size_t plain_len = escape ? (size_t)(escape - rest.ptr) : rest.len;
        memcpy(out + len, rest.ptr, plain_len);
        len += plain_len;
        rest = tide_view_bytes(rest.ptr + plain_len, rest.len - plain_len);
        if (escape)
            len += tide_utf8_put(out + len, tide_json_string_next(&rest));
    }
    return len;
}

tide_status tide_json_unescape(tide_buffer *out, tide_view quoted)
{
    TIDE_TRY(tide_buffer_reserve(out, quoted.len - 2));
    out->len += tide_json_unescape_to(out->ptr + out->len, quoted);
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

/* What UTF-16 code units compare by: characters above U+FFFF begin with a unit of 0xD800..0xDBFF,
 * which stands before U+E000. */
static uint32_t rank_of(uint32_t character)
{
    return character >= 0xE000 && character <= 0xFFFF ? character + 0x200000 : character;
}

int tide_json_key_compare(tide_view a, tide_view b)
{
    a = tide_view_bytes(a.ptr + 1, a.len - 1);
    b = tide_view_bytes(b.ptr + 1, b.len - 1);
    while (a.len > 1 && b.len > 1) {
        if (*a.ptr == *b.ptr && (uint8_t)*a.ptr < 0x80 && *a.ptr != '\\') { /* most of all keys */
            a = tide_view_bytes(a.ptr + 1, a.len - 1);
            b = tide_view_bytes(b.ptr + 1, b.len - 1);
            continue;
        }
        const uint32_t rank_a = rank_of(tide_json_string_next(&a));
        const uint32_t rank_b = rank_of(tide_json_string_next(&b));
        if (rank_a != rank_b)
            return rank_a < rank_b ? -1 : 1;
    }
    return (a.len > 1) - (b.len > 1);
}

/* --- writing --- */

/* A member of an object that is being written. Offsets fit: see TIDE_JSON_CANONICAL_MAX. */
typedef struct member {
    uint32_t at; /* of its key, in the form */
    uint32_t key_len;
    uint32_t len;    /* with its value */
    uint32_t offset; /* of its key, in the text */
} member;

typedef struct level {
    size_t first;     /* of its members */
    uint32_t begin;   /* of the members' bytes, in the form */
    bool has_element; /* of an array */
    bool is_object;
    bool is_unsorted;
} level;

typedef struct writer {
    tide_view text;
    tide_buffer *out;
    size_t base;         /* where the form begins in out */
    tide_buffer members; /* of all open objects, the innermost last */
    tide_buffer sorted;  /* where the members of an object are put in order */
    level levels[TIDE_JSON_NESTING_MAX];
    int depth;
} writer;

static void finish_writer(writer *w)
{
    tide_buffer_done(&w->members);
    tide_buffer_done(&w->sorted);
}

static member *members_of(const writer *w, const level *l, size_t *count)
{
    member *all = (member *)(void *)w->members.ptr; /* from malloc, so aligned */
    *count = w->members.len / sizeof(member) - l->first;
    return all ? all + l->first : NULL;
}

static const char *form_of(const writer *w)
{
    return w->out->ptr + w->base;
}

static uint32_t position_of(const writer *w)
{
    return (uint32_t)(w->out->len - w->base);
}

static tide_view key_of(const char *form, const member *m)
{
    return tide_view_bytes(form + m->at, m->key_len);
}

static tide_status fail_twice(const writer *w, const member *m, tide_error *err)
{
    return tide_json_scan_fail(w->text, m->offset, "a key that this object has already", err);
}

/* A character that was written as an escape. */
static tide_status append_character(tide_buffer *out, uint32_t character)
{
    static const char KINDS[] = "bfnrt\"\\";
    static const char MEANINGS[] = "\b\f\n\r\t\"\\";
    const char *meaning = memchr(MEANINGS, (int)character, sizeof MEANINGS - 1);
    if (character < 0x80 && meaning)
        return tide_buffer_append(out, (char[]){'\\', KINDS[meaning - MEANINGS]}, 2);
    if (character < 0x20)
        return tide_buffer_printf(out, "\\u%04" PRIx32, character);
    char bytes[4];
    return tide_buffer_append(out, bytes, tide_utf8_put(bytes, character));
}

/* A valid string, with its quotes. What stands in it unescaped needs no escape. */
static tide_status append_string(tide_buffer *out, const tide_json_token *token)
{
    tide_view rest = token->text;
    while (token->has_escape) {
        const char *escape = memchr(rest.ptr, '\\', rest.len);
        if (!escape)
            break;
        const size_t plain_len = (size_t)(escape - rest.ptr);
        TIDE_TRY(tide_buffer_append(out, rest.ptr, plain_len));
        rest = tide_view_bytes(escape, rest.len - plain_len);
        TIDE_TRY(append_character(out, tide_json_string_next(&rest)));
    }
    return tide_buffer_append_view(out, rest);
}

/* The digits of an integer, if 64 bits hold it. */
static bool read_magnitude(tide_view digits, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(digits.ptr[i] - '0'), out))
            return false;
    }
    return true;
}

static tide_status append_integer(tide_buffer *out, bool is_negative, uint64_t magnitude)
{
    return tide_buffer_printf(out, "%s%" PRIu64, is_negative && magnitude > 0 ? "-" : "",
                              magnitude);
}

static tide_status append_number(tide_buffer *out, const tide_json_token *token)
{
    const uint64_t lowest = UINT64_C(1) << 63; /* of the negative ones */
    const tide_view text = token->text;
    const bool is_negative = text.ptr[0] == '-';
    const size_t sign_len = is_negative ? 1 : 0;
    if (token->is_integer && text.len < 19 && text.ptr[sign_len] != '0')
        return tide_buffer_append_view(out, text); /* most of all numbers */
    uint64_t magnitude;
    if (token->is_integer &&
        read_magnitude(tide_view_bytes(text.ptr + sign_len, text.len - sign_len), &magnitude) &&
        (!is_negative || magnitude <= lowest))
        return append_integer(out, is_negative, magnitude);

    double number;
    const bool is_finite = tide_json_scan_double(text, &number);
    assert(is_finite); /* the scanner has seen to it */
    const double two_to_63 = 9223372036854775808.0;
    if (floor(number) == number && number >= -two_to_63 && number < 2 * two_to_63)
        return append_integer(out, number < 0, (uint64_t)fabs(number));
    return tide_json_append_double(out, number);
}

/* --- objects --- */

/* The last member ends where the form ends now. */
static void close_member(const writer *w, const level *l)
{
    size_t count;
    member *members = members_of(w, l, &count);
    if (count > 0)
        members[count - 1].len = position_of(w) - members[count - 1].at;
}

static tide_status begin_member(writer *w, const tide_json_token *token, tide_error *err)
{
    level *l = &w->levels[w->depth - 1];
    close_member(w, l);
    size_t count;
    (void)members_of(w, l, &count);
    if (count > 0)
        TIDE_TRY(tide_buffer_append_byte(w->out, ','));
    member next = {.at = position_of(w), .offset = (uint32_t)token->offset};
    TIDE_TRY(append_string(w->out, token));
    next.key_len = position_of(w) - next.at;
    TIDE_TRY(tide_buffer_append_byte(w->out, ':'));
    TIDE_TRY(tide_buffer_append(&w->members, &next, sizeof next));
    if (count == 0)
        return TIDE_OK;

    const member *previous = members_of(w, l, &count) + count - 2;
    const int order =
        tide_json_key_compare(key_of(form_of(w), previous), key_of(form_of(w), &next));
    if (order == 0)
        return fail_twice(w, &next, err);
    l->is_unsorted = l->is_unsorted || order > 0;
    return TIDE_OK;
}

static int compare_members(const void *a, const void *b, void *form)
{
    return tide_json_key_compare(key_of(form, a), key_of(form, b));
}

/* Put the members of the innermost object in order. */
static tide_status sort_members(writer *w, const level *l, tide_error *err)
{
    size_t count;
    member *members = members_of(w, l, &count);
    assert(members); /* out of order are two at least */
    char *form = w->out->ptr + w->base;
    qsort_r(members, count, sizeof *members, compare_members, form);
    tide_buffer_clear(&w->sorted);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare_members(&members[i - 1], &members[i], form) == 0)
            return fail_twice(w, &members[members[i].offset > members[i - 1].offset ? i : i - 1],
                              err);
        if (i > 0)
            TIDE_TRY(tide_buffer_append_byte(&w->sorted, ','));
        TIDE_TRY(tide_buffer_append(&w->sorted, form + members[i].at, members[i].len));
    }
    assert(w->sorted.len == position_of(w) - l->begin);
    memcpy(form + l->begin, w->sorted.ptr, w->sorted.len);
    return TIDE_OK;
}

static tide_status begin_level(writer *w, bool is_object)
{
    TIDE_TRY(tide_buffer_append_byte(w->out, is_object ? '{' : '['));
    w->levels[w->depth++] = (level){
        .is_object = is_object,
        .begin = position_of(w),
        .first = w->members.len / sizeof(member),
    };
    return TIDE_OK;
}

static tide_status end_level(writer *w, tide_error *err)
{
    level *l = &w->levels[--w->depth];
    if (l->is_object) {
        close_member(w, l);
        if (l->is_unsorted)
            TIDE_TRY(sort_members(w, l, err));
        tide_buffer_truncate(&w->members, l->first * sizeof(member));
    }
    return tide_buffer_append_byte(w->out, l->is_object ? '}' : ']');
}

/* --- documents --- */

/* The comma between the elements of an array; the members of an object see to theirs. */
static tide_status separate_element(writer *w)
{
    level *l = w->depth > 0 ? &w->levels[w->depth - 1] : NULL;
    if (!l || l->is_object)
        return TIDE_OK;
    const bool needs_comma = l->has_element;
    l->has_element = true;
    return needs_comma ? tide_buffer_append_byte(w->out, ',') : TIDE_OK;
}

static tide_status write_token(writer *w, const tide_json_token *token, tide_error *err)
{
    switch (token->kind) {
    case TIDE_JSON_KEY:
        return begin_member(w, token, err);
    case TIDE_JSON_OBJECT_END:
    case TIDE_JSON_ARRAY_END:
        return end_level(w, err);
    case TIDE_JSON_END:
        return TIDE_OK;
    case TIDE_JSON_OBJECT_BEGIN:
    case TIDE_JSON_ARRAY_BEGIN:
        TIDE_TRY(separate_element(w));
        return begin_level(w, token->kind == TIDE_JSON_OBJECT_BEGIN);
    case TIDE_JSON_STRING:
        TIDE_TRY(separate_element(w));
        return append_string(w->out, token);
    case TIDE_JSON_NUMBER:
        TIDE_TRY(separate_element(w));
        return append_number(w->out, token);
    case TIDE_JSON_LITERAL:
        TIDE_TRY(separate_element(w));
        return tide_buffer_append_view(w->out, token->text);
    }
    assert(false && "a kind of token");
    return TIDE_E_FAILED;
}

static tide_status write_document(writer *w, tide_error *err)
{
    tide_json_scan scan;
    tide_json_scan_init(&scan, w->text);
    tide_json_token token;
    do {
        TIDE_TRY(tide_json_scan_next(&scan, &token, err));
        const tide_status status = write_token(w, &token, err);
        if (status == TIDE_E_NOMEM)
            return tide_buffer_check(status, err);
        if (status == TIDE_E_LIMIT)
            return tide_fail(err, status, "canonical JSON: longer than %zu bytes", w->out->max);
        TIDE_TRY(status);
    } while (token.kind != TIDE_JSON_END);
    return TIDE_OK;
}

tide_status tide_json_canonical(tide_view text, tide_buffer *out, tide_error *err)
{
    if (text.len > TIDE_JSON_TEXT_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "JSON of %zu bytes, at most %d are allowed", text.len,
                         TIDE_JSON_TEXT_MAX);
    TIDE_CLEANUP(finish_writer) writer w = {.text = text, .out = out, .base = out->len};
    tide_buffer_init(&w.members, (size_t)TIDE_JSON_TEXT_MAX * sizeof(member));
    tide_buffer_init(&w.sorted, TIDE_JSON_CANONICAL_MAX);
    const tide_status status = write_document(&w, err);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, w.base);
    return status;
}

tide_status tide_json_request_hash(char out[TIDE_JSON_REQUEST_HASH_SIZE], tide_view request)
{
    out[0] = '\0';
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form = tide_buffer_of(TIDE_JSON_CANONICAL_MAX);
    const tide_status status = tide_json_canonical(request, &form, NULL);
    if (status == TIDE_E_NOMEM)
        return status; /* the bytes would give another hash, and a repeated request would differ */
    uint8_t digest[TIDE_SHA256_LEN];
    TIDE_TRY(tide_sha256_of(status == TIDE_OK ? tide_buffer_view(&form) : request, digest, NULL));
    memcpy(out, "sha256:", 7);
    tide_hex_encode(out + 7, digest, sizeof digest);
    return TIDE_OK;
}
