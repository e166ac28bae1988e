/* verify_numbers.c - are all numbers accounted for? Rows and recorded gaps are read side by side, in bounded pages. On the
 * way each row is held against what no task would tell: that it has one, that its number is not recorded as empty, and that
 * times rise with numbers. */
#include "journal/check/verify.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { PAGE = 5000, FINDINGS_LEN = 1 << 20 };

typedef struct span {
    int64_t first;
    int64_t last;
} span;

typedef struct numbered_row {
    int64_t number;
    bool is_orphan;
    bool is_timed; /* its time comes from the journal's clock, which never falls */
    int64_t created_at_us;
} numbered_row;

typedef struct number_check {
    int64_t after; /* everything up to here is accounted for */
    int64_t until; /* of the page */
    bool is_last;
    int64_t missing;
    int64_t invalid;
    int64_t time_before_us; /* of the newest row before the page whose time tells */
    int64_t time_after_us;
    numbered_row rows[PAGE];
    int row_count;
    span gaps[PAGE];
    int gap_count;
    tide_buffer findings;
} number_check;

static tide_status read_rows(number_check *check, tide_tx *tx, tide_error *err)
{
    check->row_count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_VERIFY_NUMBERS, err, tide_bind_i64("after", check->after),
               tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        numbered_row *row = &check->rows[check->row_count++];
        row->number = tide_query_col_i64(query);
        row->is_orphan = tide_query_col_bool(query);
        row->is_timed = tide_query_col_bool(query);
        row->created_at_us = tide_query_col_time(query);
    }
    return TIDE_OK;
}

static tide_status read_gaps(number_check *check, tide_tx *tx, tide_error *err)
{
    check->gap_count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_VERIFY_GAPS, err, tide_bind_i64("after", check->after),
               tide_bind_i64("until", check->until), tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        span *gap = &check->gaps[check->gap_count++];
        gap->first = tide_query_col_i64(query);
        gap->last = tide_query_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status read_head(int64_t *head, tide_tx *tx, tide_error *err)
{
    return tide_tx_number(head, tx, TIDE_SQL_JOURNAL_HEAD_GET, err, TIDE_NO_BIND);
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
            (gap == check->gap_count || check->rows[row].number <= check->gaps[gap].first);
        if (!is_row && gap == check->gap_count)
            break;
        const span next =
            is_row ? (span){check->rows[row].number, check->rows[row].number} : check->gaps[gap];
        row += is_row;
        gap += !is_row;
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

static void note_row(number_check *check, const numbered_row *row, const char *words)
{
    check->invalid++;
    tide_verify_say(&check->findings, "checkpoint %" PRId64 ": %s", row->number, words);
}

/* The rows of the page one by one, beside the gaps that begin before them. */
static void check_rows(number_check *check)
{
    int gap = 0;
    int64_t empty_until = 0;
    check->time_after_us = check->time_before_us;
    for (int i = 0; i < check->row_count && check->rows[i].number <= check->until; i++) {
        const numbered_row *row = &check->rows[i];
        for (; gap < check->gap_count && check->gaps[gap].first <= row->number; gap++)
            if (check->gaps[gap].last > empty_until)
                empty_until = check->gaps[gap].last;
        if (row->number <= empty_until)
            note_row(check, row, "is there, but its number recorded as empty");
        if (row->is_orphan)
            note_row(check, row, "its task, or the counter of its task, is missing");
        if (!row->is_timed)
            continue;
        if (row->created_at_us < check->time_after_us)
            note_row(check, row, "its time is older than one before it");
        else
            check->time_after_us = row->created_at_us;
    }
}

static tide_status check_page(tide_tx *tx, void *arg, tide_error *err)
{
    number_check *check = arg;
    tide_buffer_clear(&check->findings);
    check->missing = 0;
    check->invalid = 0;
    int64_t head = 0;
    TIDE_TRY(read_head(&head, tx, err));
    TIDE_TRY(read_rows(check, tx, err));
    check->is_last = check->row_count < PAGE;
    check->until = check->is_last ? head : check->rows[check->row_count - 1].number;
    TIDE_TRY(read_gaps(check, tx, err));
    if (check->gap_count == PAGE && check->gaps[PAGE - 1].first < check->until) {
        /* More gaps than fit: the page ends at the last of them. */
        check->until = check->gaps[PAGE - 1].first;
        check->is_last = false;
    }
    compare(check);
    check_rows(check);
    if (check->row_count > 0 && check->is_last && check->rows[check->row_count - 1].number > head) {
        tide_verify_say(&check->findings,
                        "the counter stands at %" PRId64 ", below the newest checkpoint", head);
        check->missing++;
    }
    return TIDE_OK;
}

/* ---- page by page ---- */

struct tide_number_scan {
    number_check check;
    int64_t missing;
};

static void rewind_scan(tide_number_scan *scan)
{
    scan->check.after = 0;
    scan->missing = 0;
    /* before every time; one that is none reads as INT64_MIN */
    scan->check.time_before_us = INT64_MIN + 1;
}

tide_status tide_number_scan_new(tide_number_scan **out, tide_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return tide_no_memory(err);
    tide_buffer_init(&(*out)->check.findings, FINDINGS_LEN);
    rewind_scan(*out);
    return TIDE_OK;
}

void tide_number_scan_free(tide_number_scan *scan)
{
    if (!scan)
        return;
    tide_buffer_done(&scan->check.findings);
    free(scan);
}

tide_status tide_number_scan_step(tide_number_scan *scan, tide_store *store, tide_number_page *out,
                                  tide_error *err)
{
    number_check *check = &scan->check;
    TIDE_TRY(tide_store_read(store, check_page, check, err));
    check->after = check->until;
    check->time_before_us = check->time_after_us;
    scan->missing += check->missing;
    *out = (tide_number_page){
        .found = check->missing, .missing = scan->missing, .is_last = check->is_last};
    if (check->is_last)
        rewind_scan(scan);
    return TIDE_OK;
}

/* ---- all at once ---- */

tide_status tide_verify_numbers(tide_store *store, tide_journal_finding_fn *fn, void *arg,
                                tide_journal_report *report, tide_error *err)
{
    tide_number_scan *scan = NULL;
    TIDE_TRY(tide_number_scan_new(&scan, err));
    tide_number_page page = {0};
    tide_status status = TIDE_OK;
    while (!page.is_last && (status = tide_number_scan_step(scan, store, &page, err)) >= TIDE_OK) {
        report->missing += page.found;
        report->invalid += scan->check.invalid;
        tide_verify_tell(&scan->check.findings, fn, arg);
    }
    tide_number_scan_free(scan);
    return status;
}
