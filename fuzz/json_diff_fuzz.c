/* json_diff_fuzz.c - two documents, divided by the first byte 0x1E (which no JSON text has).
 *
 * Nothing differs, in either direction, exactly if the canonical forms are equal; each difference
 * has a path and valid values. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "journal/snapshot/json_diff.h"

enum { FORM_MAX = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

typedef struct tally {
    size_t counts[3]; /* by kind */
} tally;

static tide_status count_one(void *arg, const tide_difference *d, tide_error *err)
{
    (void)err;
    tally *t = arg;
    t->counts[d->kind]++;
    require(d->path[0] == '/' || (d->path[0] == '\0' && d->kind == TIDE_DIFFERENCE_CHANGED));
    require((d->before.ptr == NULL) == (d->kind == TIDE_DIFFERENCE_ADDED));
    require((d->after.ptr == NULL) == (d->kind == TIDE_DIFFERENCE_REMOVED));
    require(!d->before.ptr || tide_json_check(d->before, NULL) == TIDE_OK);
    require(!d->after.ptr || tide_json_check(d->after, NULL) == TIDE_OK);
    require(d->kind != TIDE_DIFFERENCE_CHANGED || !tide_view_equal(d->before, d->after));
    return TIDE_OK;
}

static bool are_equal(tide_view a, tide_view b)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form_a;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form_b;
    tide_buffer_init(&form_a, FORM_MAX);
    tide_buffer_init(&form_b, FORM_MAX);
    require(tide_json_canonical(a, &form_a, NULL) == TIDE_OK);
    require(tide_json_canonical(b, &form_b, NULL) == TIDE_OK);
    return tide_view_equal(tide_buffer_view(&form_a), tide_buffer_view(&form_b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *mark = len > 0 ? memchr(data, 0x1E, len) : NULL;
    if (!mark)
        return 0;
    const tide_view a = tide_view_bytes(data, (size_t)(mark - data));
    const tide_view b = tide_view_bytes(mark + 1, len - a.len - 1);
    tally there = {0};
    tally back = {0};
    const tide_status status = tide_json_diff(a, b, count_one, &there, NULL);
    require(status == tide_json_diff(b, a, count_one, &back, NULL));
    if (status != TIDE_OK)
        return 0;
    const size_t differences = there.counts[0] + there.counts[1] + there.counts[2];
    require((differences == 0) == are_equal(a, b));
    require((differences == 0) == (back.counts[0] + back.counts[1] + back.counts[2] == 0));
    return 0;
}
