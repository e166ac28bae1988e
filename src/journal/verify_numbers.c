/* verify_numbers.c - are all numbers accounted for? Rows and recorded gaps are read side by side, in bounded pages. */
#include "journal/verify.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tidemark_sql.h"

enum { PAGE = 5000, FINDINGS_LEN = 1 << 20 };

typedef struct span {
    int64_t first;
    int64_t last;
} span;

typedef struct number_check {
    int64_t after; /* everything up to here is accounted for */
    int64_t until; /* of the page */
    bool is_last;
    int64_t missing;
    span rows[PAGE]; /* a row is a span of one */
    int row_count;
    span gaps[PAGE];
    int gap_count;
    tide_buffer findings;
} number_check;

static tide_status read_rows(number_check *check, tide_tx *tx, tide_error *err)
{
    check->row_count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_VERIFY_NUMBERS, err));
    tide_bind_i64(query, "after", check->after);
    tide_bind_i64(query, "limit", PAGE);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        const int64_t number = tide_col_i64(query);
        check->rows[check->row_count++] = (span){number, number};
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status read_gaps(number_check *check, tide_tx *tx, tide_error *err)
{
    check->gap_count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_VERIFY_GAPS, err));
    tide_bind_i64(query, "after", check->after);
    tide_bind_i64(query, "until", check->until);
    tide_bind_i64(query, "limit", PAGE);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        span *gap = &check->gaps[check->gap_count++];
        gap->first = tide_col_i64(query);
        gap->last = tide_col_i64(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status read_head(int64_t *head, tide_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_JOURNAL_HEAD_GET, err));
    TIDE_TRY(tide_query_one(query, err));
    *head = tide_col_i64(query);
    return TIDE_OK;
}

static void note_missing(number_check *check, int64_t first, int64_t last)
{
    check->missing += last - first + 1;
    if (first == last)
        tide_verify_say(&check->findings,
                        "global number %" PRId64 ": no checkpoint, and no record of its removal",
                        first);
    else
        tide_verify_say(&check->findings,
                        "global numbers %" PRId64 " to %" PRId64
                        ": no checkpoints, and no record of their removal",
                        first, last);
}

/* Merge both lists: what neither covers up to `until` is missing. */
static void compare(number_check *check)
{
    int64_t covered = check->after;
    int row = 0;
    int gap = 0;
    while (covered < check->until) {
        const bool is_row =
            row < check->row_count &&
            (gap == check->gap_count || check->rows[row].first <= check->gaps[gap].first);
        if (!is_row && gap == check->gap_count)
            break;
        const span next = is_row ? check->rows[row++] : check->gaps[gap++];
        if (next.first > check->until)
            break;
        if (next.first > covered + 1)
            note_missing(check, covered + 1, next.first - 1);
        if (next.last > covered)
            covered = next.last;
    }
    if (covered < check->until)
        note_missing(check, covered + 1, check->until);
}

static tide_status check_page(tide_tx *tx, void *arg, tide_error *err)
{
    number_check *check = arg;
    tide_buffer_clear(&check->findings);
    check->missing = 0;
    int64_t head = 0;
    TIDE_TRY(read_head(&head, tx, err));
    TIDE_TRY(read_rows(check, tx, err));
    check->is_last = check->row_count < PAGE;
    check->until = check->is_last ? head : check->rows[check->row_count - 1].last;
    TIDE_TRY(read_gaps(check, tx, err));
    if (check->gap_count == PAGE && check->gaps[PAGE - 1].first < check->until) {
        /* More gaps than fit: the page ends at the last of them. */
        check->until = check->gaps[PAGE - 1].first;
        check->is_last = false;
    }
    compare(check);
    if (check->row_count > 0 && check->is_last && check->rows[check->row_count - 1].last > head) {
        tide_verify_say(&check->findings,
                        "the counter stands at %" PRId64 ", below the newest checkpoint", head);
        check->missing++;
    }
    return TIDE_OK;
}

tide_status tide_verify_numbers(tide_store *store, tide_journal_finding_fn *fn, void *arg,
                                int64_t *missing, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) number_check *check = calloc(1, sizeof *check);
    if (!check)
        return tide_fail(err, TIDE_E_NOMEM, "no memory to compare numbers");
    tide_buffer_init(&check->findings, FINDINGS_LEN);
    tide_status status = TIDE_OK;
    do {
        status = tide_read(store, check_page, check, err);
        if (status < TIDE_OK)
            break;
        check->after = check->until;
        *missing += check->missing;
        tide_verify_tell(&check->findings, fn, arg);
    } while (!check->is_last);
    tide_buffer_done(&check->findings);
    return status;
}
