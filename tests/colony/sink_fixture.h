/* sink_fixture.h - pages and changes made by hand, to be applied to a sink.
 *
 * What settling makes of an answer is tested elsewhere; here a change says exactly what the case wants. A page holds spans, numbered as the case
 * says; change_* builds a change that stores them. */
#pragma once

#include "colony/sink.h"
#include "support/store_fixture.h"

#define MINUTE_MS INT64_C(60000)
#define NOON_MS INT64_C(1735732800000) /* 2025-01-01 12:00:00 */
#define SESSION_A "aaaaaaaa-0000-4000-8000-000000000001"
#define SESSION_B "bbbbbbbb-0000-4000-8000-000000000002"

/* Records of one type and where they stand. */
typedef struct page {
    tide_record_batch batch;
    int64_t *seqs;
    tide_reply_record *records;
    const tide_reply_record **rows;
    int count;
} page;

void page_init(page *p, tide_stream_kind kind);
void page_done(page *p);
/* A span of this minute after noon. */
void page_span(page *p, int64_t seq, int64_t minute, const char *service, double ms, bool is_error);
/* A record that the case has written itself, between tide_record_begin and here. */
void page_end_record(page *p, int64_t seq);
/* Spans first .. last of noon, service "api", 1 ms. */
void page_spans(page *p, int64_t first, int64_t last);
/* No more records: numbers are written into them. */
void page_close(page *p);

/* A change of this position that stores nothing yet. A position of no session begins with SESSION_A, epoch 1. */
void change_begin(tide_change *change, const tide_position *at, int64_t now_us);
/* Store a page: its numbers are settled, counted and stated. The page must outlive the change. */
void change_store(tide_change *change, const page *p);
/* A gap record: its numbers are settled. Borrowed until the next call. */
tide_gap *change_gap(tide_change *change, int64_t first, int64_t last, tide_gap_status status);
/* A gap that is there already, to be changed. */
tide_gap *change_known_gap(tide_change *change, const tide_gap *gap);
/* Close the position; session "": nothing follows. */
void change_close(tide_change *change, const char *session, int64_t epoch, const char *reason);

/* ---- looking ---- */

/* The first value of a query's first row, as a number or as text. */
int64_t ask_number(tide_sink *sink, const char *sql);
void ask_text(tide_sink *sink, const char *sql, char *out, size_t size);

/* Load; the caller gives it back with tide_position_done. */
void load_position(tide_sink *sink, const char *agent, const char *type, tide_position *out);

/* Store spans first .. last of agent "a" in one change. */
tide_status store_spans(tide_sink *sink, const char *agent, int64_t first, int64_t last,
                        tide_error *err);

/* The ledger of every position balances, and what they count is really there. Returns how many positions there are. */
int check_ledger(tide_sink *sink);
