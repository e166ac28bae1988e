#include "journal/snapshot/json_diff.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/interface/caller.h"
#include "base/text/json_canon.h"

enum {
    FORM_MAX = 128 << 20,
    STACK_MAX = 64 << 20,
    TABLE_MAX = 9 << 20, /* a table of 2001 x 2001 lengths, and the keys of its elements */
};

/* An element of an array that is being compared. */
typedef struct element {
    uint32_t offset; /* in the array's text */
    uint32_t len;
    uint32_t partner; /* of the first document's: 1 + the index of the equal one; 0: none */
} element;

typedef struct differ {
    tide_difference_fn *fn;
    void *arg;
    tide_buffer before_path;
    tide_buffer after_path;
    tide_buffer elements; /* of all open arrays, the innermost last */
    tide_buffer table;    /* of the alignment under way */
    int64_t cells_left;
    tide_error *err;
} differ;

static void finish_differ(differ *d)
{
    tide_buffer_done(&d->before_path);
    tide_buffer_done(&d->after_path);
    tide_buffer_done(&d->elements);
    tide_buffer_done(&d->table);
}

static tide_status fail_memory(const differ *d, tide_status status)
{
    return tide_buffer_check(status, d->err);
}

/* --- walking over canonical text, which is known to be valid --- */

/* The closing quote is the first one with an even number of backslashes in front of it. */
static const char *skip_string(const char *at)
{
    for (;;) {
        const char *quote = rawmemchr(at + 1, '"');
        const char *before = quote;
        while (before > at + 1 && before[-1] == '\\')
            before--;
        if ((quote - before) % 2 == 0)
            return quote + 1;
        at = quote;
    }
}

static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;
    while (at < end) {
        const char c = *at;
        if (c == '"') {
            at = skip_string(at);
            if (depth == 0)
                return at;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return at; /* behind a number or a literal */
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return at;
    }
    return at;
}

/* What is left of an object or array. */
typedef struct walk {
    const char *at; /* at a member, or at the closing bracket */
    const char *end;
} walk;

static walk walk_into(tide_view container)
{
    return (walk){.at = container.ptr + 1, .end = container.ptr + container.len};
}

static bool next_element(walk *w, tide_view *value)
{
    if (w->end - w->at <= 1)
        return false;
    const char *start = w->at;
    w->at = skip_value(start, w->end);
    *value = tide_view_bytes(start, (size_t)(w->at - start));
    if (*w->at == ',')
        w->at++;
    return true;
}

static bool next_member(walk *w, tide_view *key, tide_view *value)
{
    if (w->end - w->at <= 1)
        return false;
    const char *start = w->at;
    w->at = skip_string(start);
    *key = tide_view_bytes(start, (size_t)(w->at - start));
    w->at++; /* the colon */
    return next_element(w, value);
}

/* --- paths --- */

static tide_status append_key(tide_buffer *path, tide_view key)
{
    TIDE_TRY(tide_buffer_append_byte(path, '/'));
    tide_view rest = tide_view_bytes(key.ptr + 1, key.len - 1);
    while (rest.len > 1) {
        uint8_t byte = (uint8_t)rest.ptr[0];
        if (byte == '\\') /* in canonical text what is escaped is ASCII */
            byte = (uint8_t)tide_json_string_next(&rest);
        else
            rest = tide_view_bytes(rest.ptr + 1, rest.len - 1);
        if (byte == '\0')
            TIDE_TRY(tide_buffer_append_text(path, "\\u0000"));
        else if (byte == '~')
            TIDE_TRY(tide_buffer_append_text(path, "~0"));
        else if (byte == '/')
            TIDE_TRY(tide_buffer_append_text(path, "~1"));
        else
            TIDE_TRY(tide_buffer_append_byte(path, byte));
    }
    return TIDE_OK;
}

static tide_status append_index(tide_buffer *path, size_t index)
{
    return tide_buffer_printf(path, "/%zu", index);
}

/* --- values --- */

static tide_status diff_values(differ *d, tide_view before, tide_view after);

static tide_status report(differ *d, tide_difference_kind kind, tide_view before, tide_view after)
{
    const tide_buffer *path = kind == TIDE_DIFFERENCE_REMOVED ? &d->before_path : &d->after_path;
    const tide_difference difference = {
        .kind = kind,
        .path = tide_buffer_text(path),
        .before = before,
        .after = after,
    };
    return tide_callback_check(d->fn(d->arg, &difference, d->err), d->err);
}

static tide_status report_removed(differ *d, tide_view before)
{
    return report(d, TIDE_DIFFERENCE_REMOVED, before, (tide_view){0});
}

static tide_status report_added(differ *d, tide_view after)
{
    return report(d, TIDE_DIFFERENCE_ADDED, (tide_view){0}, after);
}

/* Members of two objects side by side; canonical text has them in the order of their keys. */
static tide_status diff_objects(differ *d, tide_view before, tide_view after)
{
    const size_t before_len = d->before_path.len;
    const size_t after_len = d->after_path.len;
    walk a = walk_into(before);
    walk b = walk_into(after);
    tide_view key_a;
    tide_view key_b;
    tide_view value_a;
    tide_view value_b;
    bool has_a = next_member(&a, &key_a, &value_a);
    bool has_b = next_member(&b, &key_b, &value_b);
    while (has_a || has_b) {
        const int order = !has_a ? 1 : !has_b ? -1 : tide_json_key_compare(key_a, key_b);
        const tide_view key = order <= 0 ? key_a : key_b;
        TIDE_TRY(fail_memory(d, append_key(&d->before_path, key)));
        TIDE_TRY(fail_memory(d, append_key(&d->after_path, key)));
        if (order < 0)
            TIDE_TRY(report_removed(d, value_a));
        else if (order > 0)
            TIDE_TRY(report_added(d, value_b));
        else
            TIDE_TRY(diff_values(d, value_a, value_b));
        tide_buffer_truncate(&d->before_path, before_len);
        tide_buffer_truncate(&d->after_path, after_len);
        if (order <= 0)
            has_a = next_member(&a, &key_a, &value_a);
        if (order >= 0)
            has_b = next_member(&b, &key_b, &value_b);
    }
    return TIDE_OK;
}

/* --- arrays --- */

/* An element of each array at these indexes; one of them may be missing (a NULL view). */
static tide_status diff_elements(differ *d, size_t index_a, tide_view a, size_t index_b,
                                 tide_view b)
{
    const size_t before_len = d->before_path.len;
    const size_t after_len = d->after_path.len;
    TIDE_TRY(fail_memory(d, append_index(&d->before_path, index_a)));
    TIDE_TRY(fail_memory(d, append_index(&d->after_path, index_b)));
    if (!b.ptr)
        TIDE_TRY(report_removed(d, a));
    else if (!a.ptr)
        TIDE_TRY(report_added(d, b));
    else
        TIDE_TRY(diff_values(d, a, b));
    tide_buffer_truncate(&d->before_path, before_len);
    tide_buffer_truncate(&d->after_path, after_len);
    return TIDE_OK;
}

/* Element n against element n, without knowing how many there are. */
static tide_status diff_by_index(differ *d, tide_view before, tide_view after)
{
    walk a = walk_into(before);
    walk b = walk_into(after);
    for (size_t i = 0;; i++) {
        tide_view value_a = {0};
        tide_view value_b = {0};
        const bool has_a = next_element(&a, &value_a);
        const bool has_b = next_element(&b, &value_b);
        if (!has_a && !has_b)
            return TIDE_OK;
        TIDE_TRY(diff_elements(d, i, value_a, i, value_b));
    }
}

/* Elements on the differ's stack: those of an array, or the part of them that is left. */
typedef struct slice {
    tide_view array;
    size_t first; /* in the stack */
    size_t count;
} slice;

/* Valid until the stack grows. */
static element *elements_of(const differ *d, slice s)
{
    return (element *)(void *)d->elements.ptr + s.first; /* from malloc, so aligned */
}

static tide_view value_at(const differ *d, slice s, size_t i)
{
    const element e = elements_of(d, s)[i];
    return tide_view_bytes(s.array.ptr + e.offset, e.len);
}

/* Put the elements of an array on the stack. TIDE_NONE: there are too many. */
static tide_status collect(differ *d, tide_view array, slice *out)
{
    *out = (slice){.array = array, .first = d->elements.len / sizeof(element)};
    walk w = walk_into(array);
    for (tide_view value; next_element(&w, &value); out->count++) {
        const element e = {(uint32_t)(value.ptr - array.ptr), (uint32_t)value.len, 0};
        const tide_status status = tide_buffer_append(&d->elements, &e, sizeof e);
        if (status == TIDE_E_LIMIT || out->count == TIDE_JSON_DIFF_TRIM_MAX)
            return TIDE_NONE;
        TIDE_TRY(fail_memory(d, status));
    }
    return TIDE_OK;
}

/* Set equal elements at both ends aside; returns how many there are at the beginning. */
static size_t trim(const differ *d, slice *a, slice *b)
{
    size_t head = 0;
    while (head < a->count && head < b->count &&
           tide_view_equal(value_at(d, *a, head), value_at(d, *b, head)))
        head++;
    while (a->count > head && b->count > head &&
           tide_view_equal(value_at(d, *a, a->count - 1), value_at(d, *b, b->count - 1))) {
        a->count--;
        b->count--;
    }
    a->first += head;
    b->first += head;
    a->count -= head;
    b->count -= head;
    return head;
}

static void fill_keys(const differ *d, slice s, uint64_t *keys)
{
    for (size_t i = 0; i < s.count; i++) {
        const tide_digest128 digest = tide_digest128_of(value_at(d, s, i));
        memcpy(&keys[i], digest.bytes, sizeof keys[i]);
    }
}

/* lengths[i][j]: of the longest common subsequence of what begins at i and at j. */
static void fill_lengths(uint16_t *lengths, const uint64_t *keys_a, size_t count_a,
                         const uint64_t *keys_b, size_t count_b)
{
    const size_t row_len = count_b + 1;
    memset(lengths + count_a * row_len, 0, row_len * sizeof *lengths);
    for (size_t i = count_a; i-- > 0;) {
        uint16_t *row = lengths + i * row_len;
        const uint16_t *below = row + row_len;
        row[count_b] = 0;
        for (size_t j = count_b; j-- > 0;) {
            const uint16_t skipped = below[j] > row[j + 1] ? below[j] : row[j + 1];
            row[j] = keys_a[i] == keys_b[j] ? (uint16_t)(below[j + 1] + 1) : skipped;
        }
    }
}

/* Give elements of a partners in b, as many as possible, in order. Elements are compared by 64 bits
 * of their digests: partners are compared again, so that a collision cannot hide a difference. */
static tide_status align(differ *d, slice a, slice b)
{
    const size_t cells = (a.count + 1) * (b.count + 1);
    if (a.count == 0 || b.count == 0 || a.count > TIDE_JSON_DIFF_ALIGN_MAX ||
        b.count > TIDE_JSON_DIFF_ALIGN_MAX || (int64_t)cells > d->cells_left)
        return TIDE_OK;
    d->cells_left -= (int64_t)cells;

    const size_t keys_len = (a.count + b.count) * sizeof(uint64_t);
    TIDE_TRY(fail_memory(d, tide_buffer_reserve(&d->table, keys_len + cells * sizeof(uint16_t))));
    uint64_t *keys_a = (uint64_t *)(void *)d->table.ptr;
    uint64_t *keys_b = keys_a + a.count;
    uint16_t *lengths = (uint16_t *)(void *)(d->table.ptr + keys_len);
    fill_keys(d, a, keys_a);
    fill_keys(d, b, keys_b);
    fill_lengths(lengths, keys_a, a.count, keys_b, b.count);

    element *elements = elements_of(d, a);
    const size_t row_len = b.count + 1;
    for (size_t i = 0, j = 0; i < a.count && j < b.count;) {
        if (keys_a[i] == keys_b[j])
            elements[i++].partner = (uint32_t)++j;
        else if (lengths[(i + 1) * row_len + j] >= lengths[i * row_len + j + 1])
            i++;
        else
            j++;
    }
    return TIDE_OK;
}

/* How far two arrays have been compared. */
typedef struct front {
    slice a;
    slice b;
    size_t head; /* elements set aside in front */
    size_t i;
    size_t j;
} front;

/* Up to these ends: pairwise as far as both have elements, then the rest. */
static tide_status advance(differ *d, front *f, size_t end_a, size_t end_b)
{
    while (f->i < end_a || f->j < end_b) {
        const bool has_a = f->i < end_a;
        const bool has_b = f->j < end_b;
        const tide_view value_a = has_a ? value_at(d, f->a, f->i) : (tide_view){0};
        const tide_view value_b = has_b ? value_at(d, f->b, f->j) : (tide_view){0};
        TIDE_TRY(diff_elements(d, f->head + f->i, value_a, f->head + f->j, value_b));
        f->i += has_a ? 1 : 0;
        f->j += has_b ? 1 : 0;
    }
    return TIDE_OK;
}

static tide_status diff_aligned(differ *d, front *f)
{
    for (size_t k = 0; k < f->a.count; k++) {
        const size_t partner = elements_of(d, f->a)[k].partner;
        if (partner == 0)
            continue;
        TIDE_TRY(advance(d, f, k, partner - 1));
        TIDE_TRY(advance(d, f, k + 1, partner));
    }
    return advance(d, f, f->a.count, f->b.count);
}

static tide_status diff_arrays(differ *d, tide_view before, tide_view after)
{
    const size_t elements_len = d->elements.len;
    front f = {0};
    tide_status status = collect(d, before, &f.a);
    if (status == TIDE_OK)
        status = collect(d, after, &f.b);
    if (status == TIDE_NONE) {
        tide_buffer_truncate(&d->elements, elements_len);
        return diff_by_index(d, before, after);
    }
    TIDE_TRY(status);
    f.head = trim(d, &f.a, &f.b);
    TIDE_TRY(align(d, f.a, f.b));
    TIDE_TRY(diff_aligned(d, &f));
    tide_buffer_truncate(&d->elements, elements_len);
    return TIDE_OK;
}

static tide_status diff_values(differ *d, tide_view before, tide_view after)
{
    if (tide_view_equal(before, after))
        return TIDE_OK;
    if (before.ptr[0] == '{' && after.ptr[0] == '{')
        return diff_objects(d, before, after);
    if (before.ptr[0] == '[' && after.ptr[0] == '[')
        return diff_arrays(d, before, after);
    return report(d, TIDE_DIFFERENCE_CHANGED, before, after);
}

static tide_status canonicalise(tide_view text, tide_buffer *form, const char *which,
                                tide_error *err)
{
    const tide_status status = tide_json_canonical(text, form, err);
    return status == TIDE_OK ? status : tide_fail_context(err, status, "the %s document", which);
}

tide_status tide_json_diff(tide_view before, tide_view after, tide_difference_fn *fn, void *arg,
                           tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form_a = tide_buffer_of(FORM_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form_b = tide_buffer_of(FORM_MAX);
    TIDE_TRY(canonicalise(before, &form_a, "first", err));
    TIDE_TRY(canonicalise(after, &form_b, "second", err));

    TIDE_CLEANUP(finish_differ)
    differ d = {.fn = fn, .arg = arg, .cells_left = TIDE_JSON_DIFF_CELLS_MAX, .err = err};
    /* Every / and ~ of a key becomes two bytes, an index takes less than 32. */
    tide_buffer_init(&d.before_path, (size_t)3 * FORM_MAX);
    tide_buffer_init(&d.after_path, (size_t)3 * FORM_MAX);
    tide_buffer_init(&d.elements, STACK_MAX);
    tide_buffer_init(&d.table, TABLE_MAX);
    return diff_values(&d, tide_buffer_view(&form_a), tide_buffer_view(&form_b));
}
