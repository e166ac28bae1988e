/* verify.h - the halves of tide_journal_verify. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#include <tidemark/journal.h>

#include "base/buffer.h"

/* Findings are collected inside a read transaction and told after it: texts, one behind the other. */
void tide_verify_say(tide_buffer *findings, const char *format, ...) TIDE_PRINTF(2, 3);
void tide_verify_tell(const tide_buffer *findings, tide_journal_finding_fn *fn, void *arg);

/* All rows by global number. Counted as missing: numbers that were issued and have neither a row nor a record of
 * their removal. As invalid: rows without a task, rows that are recorded as removed, times that fall. */
TIDE_MUST_CHECK tide_status tide_verify_numbers(tide_store *store, tide_journal_finding_fn *fn,
                                                void *arg, tide_journal_report *report,
                                                tide_error *err);

/* The same page by page, for a background step: one read transaction a turn. After the last page the
 * scan begins anew. */
typedef struct tide_number_scan tide_number_scan;
typedef struct tide_number_page {
    int64_t found;   /* missing numbers of this page */
    int64_t missing; /* of the pass so far */
    bool is_last;    /* the pass is whole */
} tide_number_page;

TIDE_MUST_CHECK tide_status tide_number_scan_new(tide_number_scan **out, tide_error *err);
void tide_number_scan_free(tide_number_scan *scan); /* takes NULL */
TIDE_MUST_CHECK tide_status tide_number_scan_step(tide_number_scan *scan, tide_store *store,
                                                  tide_number_page *out, tide_error *err);
