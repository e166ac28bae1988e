/* cmd_feed_file.c - tidemark feed tail|dump: records as lines.
 *
 * Pages of records are read by number, as any reader does; numbers that are gone are told on stderr, so that nobody takes a
 * hole for the end of the story. */
#include "cli/feed/cmd_feed.h"

#include <inttypes.h>
#include <string.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "cli/print/atomic_file.h"
#include "cli/print/progress.h"
#include "feed/record.h"

enum {
    LINE_MAX_LEN = 8 * TIDE_FEED_RECORD_MAX, /* escapes and base64 lengthen a record */
    FILE_BLOCK = 1 << 20,                    /* written at once */
};

static const int64_t second_us = 1000000;

/* Records that are turned into lines, one page at a time. */
typedef struct walk {
    tide_feed *feed;
    const char *stream;
    const tide_stream_type *type;
    int64_t position; /* everything up to here was handed out */
    int64_t last_seq; /* 0: no end */
    int64_t head_seq; /* as of the last page */
    int64_t records;
    int64_t damaged; /* numbers that no answer will carry, and nobody wanted them gone */
    tide_buffer line;
    tide_status (*put)(struct walk *walk, const tide_record_row *row, tide_error *err);
    void *arg;
} walk;

static tide_status begin_walk(walk *w, tide_feed *feed, const char *stream, tide_feed_stream *state,
                              tide_error *err)
{
    TIDE_TRY(tide_feed_show(feed, stream, state, err));
    w->feed = feed;
    w->stream = stream;
    w->type = tide_stream_type_find(stream);
    if (!w->type)
        w->type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    tide_buffer_init(&w->line, LINE_MAX_LEN);
    return TIDE_OK;
}

static void end_walk(walk *w)
{
    tide_buffer_done(&w->line);
}

static tide_status put_page(walk *w, const tide_feed_answer *answer, tide_error *err)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    tide_record_row row;
    tide_status status;
    while ((status = tide_record_next(w->type, &rest, &record)) == TIDE_OK) {
        tide_buffer_clear(&w->line);
        status = tide_record_decode(w->type, record.message, &row);
        if (status >= TIDE_OK)
            status = tide_record_row_json(&w->line, w->type, &row);
        if (status < TIDE_OK)
            break;
        TIDE_TRY(w->put(w, &row, err));
        w->records++;
    }
    return status < TIDE_OK ? tide_fail(err, status, "record %" PRId64 " of %s cannot be shown",
                                        record.seq, w->stream)
                            : TIDE_OK;
}

static void tell_holes(walk *w, const tide_feed_answer *answer)
{
    for (int i = 0; i < answer->hole_count; i++) {
        const tide_feed_hole *hole = &answer->holes[i];
        if (strcmp(hole->reason, "damaged") == 0 || strcmp(hole->reason, "lost") == 0)
            w->damaged += hole->last_seq - hole->first_seq + 1;
        tide_cli_print(stderr,
                       "tidemark: %s: the numbers %" PRId64 " to %" PRId64 " are gone: %s\n",
                       w->stream, hole->first_seq, hole->last_seq, hole->reason);
    }
}

/* One page. TIDE_NONE: there is nothing behind it yet. */
static tide_status walk_page(walk *w, tide_error *err)
{
    const tide_feed_request request = {
        TIDE_FEED_REQUEST_INIT,
        .stream = w->stream,
        .start_seq = w->position,
        .last_seq = w->last_seq,
        .max_records = TIDE_FEED_PAGE_RECORDS_MAX,
    };
    TIDE_CLEANUP(tide_feed_answer_done) tide_feed_answer answer = {0};
    TIDE_TRY(tide_feed_read(w->feed, &request, &answer, err));
    tell_holes(w, &answer);
    TIDE_TRY(put_page(w, &answer, err));
    w->position = answer.scanned_through_seq;
    w->head_seq = answer.head_seq;
    const bool is_at_end = w->last_seq > 0 && w->position >= w->last_seq;
    return answer.has_more && !is_at_end ? TIDE_OK : TIDE_NONE;
}

/* ---- tail ---- */

static tide_status print_record(walk *w, const tide_record_row *row, tide_error *err)
{
    (void)err;
    const tide_cli_output *out = w->arg;
    if (out->is_json) {
        (void)fwrite(w->line.ptr, 1, w->line.len, out->file); /* told by flush */
        (void)fputc('\n', out->file);
        return TIDE_OK;
    }
    char at[TIDE_CLI_TIME_SIZE];
    const int64_t time_ms = row->values[w->type->time_column].i64;
    const bool is_time = time_ms > 0 && time_ms < INT64_MAX / 1000;
    tide_cli_time_text(at, is_time ? time_ms * 1000 : 0);
    tide_cli_print(out->file, "%10" PRId64 "  %s  %s\n", row->seq, is_time ? at : "-",
                   tide_buffer_text(&w->line));
    return TIDE_OK;
}

tide_status tide_cli_feed_tail(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    const bool is_following = tide_cli_is_given(cli, TIDE_CLI_FOLLOW);
    TIDE_CLEANUP(tide_watch_closep) tide_watch *watch = NULL;
    if (is_following)
        TIDE_TRY(tide_watch_open(&watch, handle.store, TIDE_FEED_TOPIC, err));
    TIDE_CLEANUP(end_walk) walk w = {.put = print_record, .arg = &cli->out};
    tide_feed_stream state;
    TIDE_TRY(begin_walk(&w, handle.feed, cli->args[0], &state, err));
    const int64_t from = tide_cli_number(cli, TIDE_CLI_FROM);
    const int64_t newest = state.head_seq - tide_cli_number(cli, TIDE_CLI_LIMIT);
    /* --from N begins with N; otherwise with the newest few that are still there. */
    if (tide_cli_is_given(cli, TIDE_CLI_FROM))
        w.position = from > 0 ? from - 1 : 0;
    else
        w.position = newest < state.oldest_seq ? state.oldest_seq - 1 : newest;
    for (;;) {
        const tide_status status = walk_page(&w, err);
        TIDE_TRY(status);
        TIDE_TRY(tide_cli_output_flush(&cli->out, err));
        if (status == TIDE_NONE && !is_following)
            return TIDE_OK;
        if (status == TIDE_NONE)
            TIDE_TRY(tide_watch_wait(watch, second_us, err));
    }
}

/* ---- dump ---- */

typedef struct dump {
    tide_cli_whole_file file;
    tide_cli_progress progress;
    tide_buffer block; /* lines on their way to the file */
} dump;

static void end_dump(dump *d)
{
    tide_cli_progress_end(&d->progress);
    tide_cli_whole_file_drop(&d->file);
    tide_buffer_done(&d->block);
}

static tide_status write_block(dump *d, tide_error *err)
{
    TIDE_TRY(tide_cli_whole_file_write(&d->file, tide_buffer_view(&d->block), err));
    tide_buffer_clear(&d->block);
    return TIDE_OK;
}

static tide_status write_record(walk *w, const tide_record_row *row, tide_error *err)
{
    (void)row;
    dump *d = w->arg;
    tide_status status = tide_buffer_append_view(&d->block, tide_buffer_view(&w->line));
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&d->block, '\n');
    if (status < TIDE_OK)
        return tide_fail(err, status, "no memory for a record");
    return d->block.len < FILE_BLOCK ? TIDE_OK : write_block(d, err);
}

static tide_status dump_all(walk *w, dump *d, const tide_feed_stream *state, tide_error *err)
{
    const int64_t first = w->position;
    const int64_t last =
        w->last_seq > 0 && w->last_seq < state->head_seq ? w->last_seq : state->head_seq;
    /* What comes while it runs is not part of it: an end that moves is never reached. */
    w->last_seq = last;
    tide_status status = last > first ? TIDE_OK : TIDE_NONE;
    while (status == TIDE_OK) {
        status = walk_page(w, err);
        tide_cli_progress_update(&d->progress, w->position - first, last - first);
    }
    TIDE_TRY(status);
    TIDE_TRY(write_block(d, err));
    return tide_cli_whole_file_publish(&d->file, err);
}

/* With "-" the result goes to stderr: stdout is the records. */
static tide_status print_dumped(tide_cli *cli, const walk *w, tide_error *err)
{
    const bool is_stdout = strcmp(cli->args[1], "-") == 0;
    if (!cli->out.is_json || is_stdout) {
        tide_cli_print(is_stdout ? stderr : cli->out.file, "%" PRId64 " records of %s\n",
                       w->records, w->stream);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "stream", w->stream);
    tide_cli_json_text(&cli->out, "file", cli->args[1]);
    tide_cli_json_i64(&cli->out, "records", w->records);
    tide_cli_json_i64(&cli->out, "damaged", w->damaged);
    tide_cli_json_i64(&cli->out, "through_seq_id", w->position);
    return tide_cli_json_end(&cli->out, err);
}

tide_status tide_cli_feed_dump(tide_cli *cli, tide_error *err)
{
    const int64_t from = tide_cli_number(cli, TIDE_CLI_FROM);
    const int64_t to = tide_cli_number(cli, TIDE_CLI_TO);
    if (tide_cli_is_given(cli, TIDE_CLI_TO) && to < (from > 0 ? from : 1))
        return tide_fail(err, TIDE_E_INVALID,
                         "the range ends before it begins: %" PRId64 " to %" PRId64, from, to);
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    TIDE_CLEANUP(end_dump) dump d = {.file = {.fd = -1}};
    tide_buffer_init(&d.block, (size_t)FILE_BLOCK + LINE_MAX_LEN + 1);
    tide_cli_progress_begin(&d.progress, &cli->out, "dumping");
    TIDE_CLEANUP(end_walk) walk w = {.put = write_record, .arg = &d, .last_seq = to};
    tide_feed_stream state;
    TIDE_TRY(begin_walk(&w, handle.feed, cli->args[0], &state, err));
    /* What retention has dropped before is no hole of this dump, unless it was asked for. */
    w.position =
        tide_cli_is_given(cli, TIDE_CLI_FROM) ? (from > 0 ? from - 1 : 0) : state.oldest_seq - 1;
    TIDE_TRY(tide_cli_whole_file_open(&d.file, cli->args[1], err));
    TIDE_TRY(dump_all(&w, &d, &state, err));
    tide_cli_progress_end(&d.progress);
    TIDE_TRY(print_dumped(cli, &w, err));
    if (w.damaged > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%" PRId64 " records of %s could not be read",
                         w.damaged, w.stream);
    return TIDE_OK;
}
