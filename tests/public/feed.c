#include <tidemark/feed.h>

#include "public.h"

static tide_status note_line(void *arg, tide_view line, tide_error *err)
{
    char *out = arg;
    (void)err;
    (void)snprintf(out, 256, "%.*s", (int)line.len, line.ptr);
    return TIDE_OK;
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    /* As feed.h has it: a record of an opaque stream whose data are the bytes "one". */
    char bytes[] = "\x0a\x10\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x12\x03one";
    char line[256] = "";
    int64_t next_us = 0;
    tide_feed *feed = NULL;
    tide_feed_answer answer = {0};
    const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1};
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "orders"};
    const tide_feed_dump_request dump = {TIDE_FEED_DUMP_REQUEST_INIT, .stream = "orders"};
    tide_feed_records records = {TIDE_FEED_RECORDS_INIT, .stream = "orders", .bytes = bytes,
                                 .len = sizeof bytes - 1, .count = 1};
    (void)db;
    (void)dir;
    tide_feed_options unsized = options;
    unsized.size = 0;
    WANT(tide_feed_open(&feed, store, &unsized, NULL) == TIDE_E_INVALID);
    DO(tide_feed_open(&feed, store, &options, err));
    DO(tide_feed_declare(feed, "orders", err));
    DO(tide_feed_commit(feed, &records, 1, err));
    WANT(records.first_seq == 1 && records.last_seq == 1);
    DO(tide_feed_read(feed, &request, &answer, err));
    WANT(answer.count == 1 && answer.max_seq == 1 && answer.len == records.len);
    tide_feed_answer_done(&answer);
    DO(tide_feed_dump(feed, &dump, note_line, line, err));
    WANT(strstr(line, "b25l")); /* base64 of "one" */
    DO(tide_feed_step(feed, &next_us, err));
    tide_feed_close(feed);
    return TIDE_OK;
}
