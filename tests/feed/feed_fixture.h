/* feed_fixture.h - a feed on a fresh store, and records to put into it.
 *
 * A case is made by STORE_CASE_SQLITE and opens its feed with feed_test_open. Records are logs: body "NAME n" with n counted by the
 * case, so that what is read can be told from what was written. */
#pragma once

#include <tidemark/feed.h>

#include "feed/record.h"
#include "support/store_fixture.h"

#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)

/* options may be NULL. Close with tide_feed_close. */
tide_feed *feed_test_open(store_test *t, const tide_feed_options *options);

/* Append count logs of a service to a batch; bodies go on counting from *n. */
void add_logs(tide_record_batch *batch, int count, const char *service, int64_t time_ms,
              int64_t *n);

/* Commit count logs; returns the number of the first. */
int64_t put_logs(tide_feed *feed, int count, const char *service, int64_t time_ms);

/* Read with a request; fails the case when it does not succeed. */
tide_feed_answer read_feed(tide_feed *feed, tide_feed_request request);

/* The records of an answer are exactly these numbers, in order. */
void assert_numbers(const tide_feed_answer *answer, tide_stream_kind kind, int64_t first,
                    int64_t last);
/* The answer's hole at index. */
void assert_hole(const tide_feed_answer *answer, int index, int64_t first, int64_t last,
                 const char *reason);

/* Run one statement of plain SQL against the store's file, on a connection of its own. */
void run_sql(store_test *t, const char *sql);
int64_t ask_sql(store_test *t, const char *sql);

/* The receipts about a stream: how many records are named lost for a reason. */
int64_t count_receipts(tide_feed *feed, const char *stream, const char *reason);
