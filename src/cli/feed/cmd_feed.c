/* cmd_feed.c - tidemark feed: the table of its verbs. */
#include "cli/feed/cmd_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "cli/frame/interrupt.h"
#include "cli/print/atomic_file.h"
#include "cli/print/progress.h"
#include "feed/record.h"

/* ---- check ---- */

/* ---- verify ---- */

typedef struct verification {
    tide_cli_output *out;
    tide_cli_progress progress;
    tide_feed *feed;
    int64_t findings;
    int stream_count;
    char names[TIDE_FEED_STREAMS_MAX][TIDE_FEED_NAME_MAX + 1];
} verification;

static void tell_finding(void *arg, const char *stream, const char *finding)
{
    verification *v = arg;
    v->findings++;
    if (!v->out->is_json) {
        tide_cli_print(v->out->file, "%s: %s\n", stream, finding);
        return;
    }
    tide_cli_json_begin(v->out);
    tide_cli_json_text(v->out, "stream", stream);
    tide_cli_json_text(v->out, "finding", finding);
    TIDE_IGNORE(tide_cli_json_end(v->out, NULL)); /* told by the flush */
}

static tide_status keep_name(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    verification *v = arg;
    if (v->stream_count == TIDE_FEED_STREAMS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d streams", TIDE_FEED_STREAMS_MAX);
    memcpy(v->names[v->stream_count++], stream->name, sizeof stream->name);
    return TIDE_OK;
}

static tide_status verify_all(verification *v, tide_error *err)
{
    tide_status worst = TIDE_OK;
    for (int i = 0; i < v->stream_count; i++) {
        tide_cli_progress_update(&v->progress, i, v->stream_count);
        const tide_status status = tide_feed_verify(v->feed, v->names[i], tell_finding, v, err);
        if (status < TIDE_OK && status != TIDE_E_DAMAGED)
            return status;
        worst = status < TIDE_OK ? status : worst;
    }
    tide_cli_progress_end(&v->progress);
    return worst;
}

static tide_status print_verdict(verification *v, bool is_sound, tide_error *err)
{
    if (!v->out->is_json) {
        if (is_sound)
            tide_cli_print(v->out->file, "sound: %d %s\n", v->stream_count,
                           v->stream_count == 1 ? "stream" : "streams");
        else
            tide_cli_print(v->out->file, "%" PRId64 " findings\n", v->findings);
        return TIDE_OK;
    }
    tide_cli_json_begin(v->out);
    tide_cli_json_i64(v->out, "streams", v->stream_count);
    tide_cli_json_i64(v->out, "findings", v->findings);
    tide_cli_json_bool(v->out, "sound", is_sound);
    return tide_cli_json_end(v->out, err);
}

static tide_status cli_feed_verify(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(verification, v, err);
    v->out = &cli->out;
    v->feed = handle.feed;
    tide_feed_stream one;
    if (cli->arg_count > 0) {
        TIDE_TRY(tide_feed_show(handle.feed, cli->args[0], &one, err));
        TIDE_TRY(keep_name(v, &one, err));
    } else {
        TIDE_TRY(tide_feed_list(handle.feed, keep_name, v, err));
    }
    tide_cli_progress_begin(&v->progress, &cli->out, "verifying streams");
    const tide_status status = verify_all(v, err);
    tide_cli_progress_end(&v->progress);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    TIDE_TRY(print_verdict(v, status == TIDE_OK, status < TIDE_OK ? NULL : err));
    if (status < TIDE_OK) /* of all streams, not of the last one */
        TIDE_IGNORE(tide_fail(err, status, "%" PRId64 " findings", v->findings));
    (void)snprintf(cli->hint, sizeof cli->hint,
                   "the other records are served; 'tidemark feed salvage OUT' copies them");
    return status;
}

/* ---- salvage ---- */

static tide_status print_salvaged(tide_cli *cli, const tide_feed_salvaged *saved, tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 " records in %" PRId64 " batches of %" PRId64
                       " streams saved, %" PRId64 " batches and %" PRId64 " records lost\n",
                       saved->records, saved->batches, saved->streams, saved->lost_batches,
                       saved->lost_records);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "store", cli->args[0]);
    tide_cli_json_i64(&cli->out, "streams", saved->streams);
    tide_cli_json_i64(&cli->out, "batches", saved->batches);
    tide_cli_json_i64(&cli->out, "records", saved->records);
    tide_cli_json_i64(&cli->out, "lost_batches", saved->lost_batches);
    tide_cli_json_i64(&cli->out, "lost_records", saved->lost_records);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status cli_feed_salvage(tide_cli *cli, tide_error *err)
{
    const char *path = cli->args[0];
    if (!*path)
        return tide_fail(err, TIDE_E_INVALID, "OUT is empty; name the store to write");
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    tide_feed_salvaged saved = {.streams = 0};
    /* Half a copy must not be taken for one. */
    if (access(path, F_OK) != 0)
        tide_cli_interrupt_partial(path);
    const tide_status status = tide_feed_salvage(handle.feed, path, &saved, err);
    tide_cli_interrupt_partial(NULL);
    TIDE_TRY(status);
    TIDE_TRY(print_salvaged(cli, &saved, err));
    if (saved.lost_batches > 0 || saved.lost_records > 0) {
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "'tidemark feed show STREAM --store %.200s' lists what is missing", path);
        return tide_fail(err, TIDE_E_PARTIAL, "%" PRId64 " records could not be saved",
                         saved.lost_records);
    }
    return TIDE_OK;
}

/* ---- files ---- */

/* Pages of records are read by number, as any reader does; numbers that are gone are told on
 * stderr, so that nobody takes a hole for the end of the story. */
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

static tide_status cli_feed_tail(tide_cli *cli, tide_error *err)
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
    TIDE_TRY(tide_buffer_check(status, err));
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

static tide_status cli_feed_dump(tide_cli *cli, tide_error *err)
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

tide_status tide_cli_feed_open(tide_cli *cli, tide_cli_feed_handle *out, tide_error *err)
{
    const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1};
    TIDE_TRY(tide_cli_open_store(cli, &out->store, TIDE_STORE_AS_IS, err));
    return tide_feed_open(&out->feed, out->store, &options, err);
}

void tide_cli_feed_close(tide_cli_feed_handle *handle)
{
    tide_feed_close(handle->feed);
    tide_store_close(handle->store);
}

static const tide_cli_verb verbs[] = {
    {.name = "ls",
     .summary = "list the streams: what is there, who lags, how long until something is lost",
     .details =
         "LAG is how many records the slowest reader has not settled. UNTIL LOSS is when the first "
         "of them\n"
         "is given up by age, by the retention that the agent last applied to this store; size may "
         "cut in\n"
         "earlier. Streams that nobody reads lose nothing.",
     .run = tide_cli_feed_ls},
    {.name = "show",
     .arguments = "STREAM",
     .takes = TIDE_CLI_LIST(LIMIT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT,
                                      .fallback = "10",
                                      .max = 10000,
                                      .help = "so many of the newest holes and batches"}),
     .summary = "one stream: where it stands, its readers, its holes, its newest batches",
     .run = tide_cli_feed_show},
    {.name = "tail",
     .arguments = "STREAM",
     .takes = TIDE_CLI_LIST(FROM, FOLLOW, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LIMIT, .fallback = "10", .help = "so many of the newest, without --from"}),
     .summary = "the newest records, or those from a number on; with --follow also what comes",
     .details = "Numbers that are gone are told on stderr. Nobody is remembered as a reader.",
     .run = cli_feed_tail},
    {.name = "verify",
     .arguments = "[STREAM]",
     .summary = "read every batch and hold it against checksums, numbers, chain and counters",
     .details = "Ends with 0 when everything is sound, and with 8 after telling what is not. "
                "Others may go on writing.",
     .run = cli_feed_verify},
    {.name = "dump",
     .arguments = "STREAM FILE",
     .takes = TIDE_CLI_LIST(FROM, TO),
     .summary = "write records as lines of JSON to FILE, or to stdout (-)",
     .details = "FILE must not exist; it appears when it is whole and synced. Damaged batches are "
                "passed over\n"
                "and told on stderr; it then ends with 8.",
     .run = cli_feed_dump},
    {.name = "salvage",
     .arguments = "OUT",
     .summary = "copy what is readable of all streams into a new store",
     .details =
         "The same numbers and chains, under a new session. What cannot be read becomes a hole "
         "there, with a\n"
         "receipt; it then ends with 7.",
     .run = cli_feed_salvage},
    {.name = NULL},
};

const tide_cli_command tide_cli_feed = {
    .name = "feed",
    .summary = "Streams of numbered records: look, follow, check, export, rescue.",
    .verbs = verbs,
};
