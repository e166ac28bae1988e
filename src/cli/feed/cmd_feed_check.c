/* cmd_feed_check.c - tidemark feed verify|salvage. */
#include "cli/feed/cmd_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/frame/interrupt.h"
#include "cli/print/progress.h"

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

tide_status tide_cli_feed_verify(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    TIDE_CLEANUP(tide_freep) verification *v = calloc(1, sizeof *v);
    TIDE_NEED_MEMORY(v, err);
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

tide_status tide_cli_feed_salvage(tide_cli *cli, tide_error *err)
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
