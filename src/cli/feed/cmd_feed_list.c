/* cmd_feed_list.c - tidemark feed ls|show. */
#include "cli/feed/cmd_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "cli/work/work_output.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- one stream, with what ls and show tell besides its state ---- */

typedef struct looked {
    tide_feed_stream stream;
    int64_t records;
    int64_t readers;
    int64_t lag;           /* of the slowest reader; -1: nobody reads */
    int64_t until_loss_us; /* INT64_MAX: nothing is unread, or it cannot be told */
} looked;

/* What is there, from one snapshot. */
typedef struct look {
    looked *rows;
    int count;
    const tide_feed_options *options; /* where nobody has left other settings */
} look;

static tide_status find_setting(tide_tx *tx, const char *key, int64_t otherwise, int64_t *out,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_FEED_LOOK_SETTING, err, tide_bind_text("key", key));
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_query_col_i64(query) : otherwise;
    return TIDE_OK;
}

static tide_status count_records(tide_tx *tx, looked *row, tide_error *err)
{
    return tide_tx_number(&row->records, tx, TIDE_SQL_FEED_LOOK_RECORDS, err,
                          tide_bind_text("name", row->stream.name));
}

/* When the first unread record is given up by its age. */
static tide_status find_loss(tide_tx *tx, looked *row, int64_t hard_us, int64_t now_us,
                             tide_error *err)
{
    row->until_loss_us = INT64_MAX;
    if (row->stream.settled_seq < 0 || now_us == INT64_MAX)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FEED_LOOK_ARRIVAL, err,
                                           tide_bind_text("name", row->stream.name),
                                           tide_bind_i64("after", row->stream.settled_seq));
    TIDE_TRY(status);
    if (status != TIDE_OK)
        return TIDE_OK;
    const int64_t left_us = tide_query_col_time(query) + hard_us - now_us;
    row->until_loss_us = left_us > 0 ? left_us : 0;
    return TIDE_OK;
}

static tide_status look_closer(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    int64_t hard_us = 0;
    int64_t now_us = 0;
    TIDE_TRY(find_setting(tx, "feed_hard_us", l->options->hard_us, &hard_us, err));
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    for (int i = 0; i < l->count; i++) {
        looked *row = &l->rows[i];
        row->lag =
            row->stream.settled_seq < 0 ? -1 : row->stream.head_seq - row->stream.settled_seq;
        TIDE_TRY(count_records(tx, row, err));
        TIDE_TRY(find_loss(tx, row, hard_us, now_us, err));
    }
    return TIDE_OK;
}

static tide_status keep_stream(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    look *l = arg;
    if (l->count == TIDE_FEED_STREAMS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d streams", TIDE_FEED_STREAMS_MAX);
    l->rows[l->count++] = (looked){.stream = *stream};
    return TIDE_OK;
}

static tide_status count_reader(void *arg, const tide_feed_reader *reader, tide_error *err)
{
    (void)reader;
    (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

/* ---- ls ---- */

static void put_stream(tide_cli_output *out, const looked *row)
{
    const tide_feed_stream *stream = &row->stream;
    tide_cli_json_text(out, "stream", stream->name);
    tide_cli_json_text(out, "sequence", stream->sequence);
    tide_cli_json_bool(out, "built_in", stream->is_built_in);
    tide_cli_json_i64(out, "oldest_seq_id", stream->oldest_seq);
    tide_cli_json_i64(out, "head_seq_id", stream->head_seq);
    tide_cli_json_i64(out, "records", row->records);
    tide_cli_json_i64(out, "batches", stream->batches);
    tide_cli_json_i64(out, "bytes", stream->bytes);
    tide_cli_json_i64(out, "epoch", stream->epoch);
    tide_cli_json_i64(out, "epoch_first_seq_id", stream->epoch_first_seq);
    tide_cli_json_moment(out, "oldest_arrived_at", stream->oldest_arrived_us);
    tide_cli_json_moment(out, "head_arrived_at", stream->head_arrived_us);
    if (row->lag >= 0)
        tide_cli_json_i64(out, "lag", row->lag);
    else
        tide_cli_json_null(out, "lag");
    if (row->until_loss_us < INT64_MAX)
        tide_cli_json_double(out, "seconds_until_loss", (double)row->until_loss_us / 1e6);
    else
        tide_cli_json_null(out, "seconds_until_loss");
}

static void list_stream(tide_cli_table *table, const looked *row)
{
    char until[TIDE_CLI_DURATION_SIZE];
    tide_cli_duration_text(until, row->until_loss_us);
    tide_cli_table_cell(table, row->stream.name);
    tide_cli_table_number(table, row->stream.oldest_seq);
    tide_cli_table_number(table, row->stream.head_seq);
    tide_cli_table_number(table, row->records);
    tide_cli_table_number(table, row->stream.bytes);
    tide_cli_table_number(table, row->readers);
    if (row->lag >= 0)
        tide_cli_table_number(table, row->lag);
    else
        tide_cli_table_cell(table, NULL);
    tide_cli_table_cell(table, row->until_loss_us < INT64_MAX ? until : NULL);
}

static tide_status print_streams(tide_cli_output *out, const look *l, tide_error *err)
{
    tide_cli_table table;
    tide_cli_table_begin(&table, out,
                         "STREAM,OLDEST#,HEAD#,RECORDS#,BYTES#,READERS#,LAG#,UNTIL LOSS#");
    tide_status status = TIDE_OK;
    for (int i = 0; i < l->count && status == TIDE_OK; i++) {
        if (!out->is_json) {
            list_stream(&table, &l->rows[i]);
            continue;
        }
        tide_cli_json_begin(out);
        put_stream(out, &l->rows[i]);
        tide_cli_json_i64(out, "readers", l->rows[i].readers);
        status = tide_cli_json_end(out, err);
    }
    return tide_cli_table_end(&table, status, err);
}

tide_status tide_cli_feed_ls(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    TIDE_CLEANUP(tide_freep) looked *rows = calloc(TIDE_FEED_STREAMS_MAX, sizeof *rows);
    TIDE_NEED_MEMORY(rows, err);
    look l = {.rows = rows, .options = tide_feed_get_options(handle.feed)};
    TIDE_TRY(tide_feed_list(handle.feed, keep_stream, &l, err));
    for (int i = 0; i < l.count; i++)
        TIDE_TRY(tide_feed_readers(handle.feed, rows[i].stream.name, count_reader, &rows[i].readers,
                                   err));
    TIDE_TRY(tide_store_read(handle.store, look_closer, &l, err));
    return print_streams(&cli->out, &l, err);
}

/* ---- show ---- */

typedef struct showing {
    tide_cli_output *out;
    looked row;
    int64_t limit;
    bool has_rows; /* of the table under way */
    tide_cli_table table;
} showing;

/* A table stands behind an empty line; one without rows is not there at all. */
static void begin_row(showing *s)
{
    if (!s->has_rows)
        (void)fputc('\n', s->out->file);
    s->has_rows = true;
}

static tide_status put_reader(void *arg, const tide_feed_reader *reader, tide_error *err)
{
    (void)err;
    showing *s = arg;
    const int64_t lag = s->row.stream.head_seq - reader->position;
    if (!s->out->is_json) {
        begin_row(s);
        tide_cli_table_cell(&s->table, reader->name);
        tide_cli_table_number(&s->table, reader->position);
        tide_cli_table_number(&s->table, lag);
        tide_cli_table_number(&s->table, reader->lease_token);
        tide_cli_table_time(&s->table, reader->seen_at_us);
        return TIDE_OK;
    }
    tide_cli_json_object_begin(s->out, NULL);
    tide_cli_json_text(s->out, "reader", reader->name);
    tide_cli_json_i64(s->out, "epoch", reader->epoch);
    tide_cli_json_i64(s->out, "position", reader->position);
    tide_cli_json_i64(s->out, "lag", lag);
    tide_cli_json_i64(s->out, "lease_token", reader->lease_token);
    tide_cli_json_time(s->out, "seen_at", reader->seen_at_us);
    tide_cli_json_object_end(s->out);
    return TIDE_OK;
}

/* One row of feed_look_losses, columns in order. */
static void put_hole(showing *s, tide_query *query)
{
    const int64_t first_seq = tide_query_col_i64(query);
    const int64_t last_seq = tide_query_col_i64(query);
    const tide_view reason = tide_query_col_text(query);
    const tide_view detail = tide_query_col_text(query);
    const int64_t found_at_us = tide_query_col_time(query);
    if (!s->out->is_json) {
        begin_row(s);
        tide_cli_table_number(&s->table, first_seq);
        tide_cli_table_number(&s->table, last_seq);
        tide_cli_table_view(&s->table, reason);
        tide_cli_table_time(&s->table, found_at_us);
        tide_cli_table_view(&s->table, detail);
        return;
    }
    tide_cli_json_object_begin(s->out, NULL);
    tide_cli_json_i64(s->out, "first_seq_id", first_seq);
    tide_cli_json_i64(s->out, "last_seq_id", last_seq);
    tide_cli_json_view(s->out, "reason", reason);
    tide_cli_json_view(s->out, "detail", detail);
    tide_cli_json_time(s->out, "found_at", found_at_us);
    tide_cli_json_object_end(s->out);
}

/* One row of feed_look_batches, columns in order. */
static void put_batch(showing *s, tide_query *query)
{
    static const char *const codecs[] = {"none", "lz4", "zstd"};
    const int64_t id = tide_query_col_i64(query);
    const int64_t first_seq = tide_query_col_i64(query);
    const int64_t last_seq = tide_query_col_i64(query);
    const int64_t epoch = tide_query_col_i64(query);
    const int64_t arrived_us = tide_query_col_time(query);
    const int64_t codec = tide_query_col_i64(query);
    const int64_t raw_len = tide_query_col_i64(query);
    const int64_t len = tide_query_col_i64(query);
    const char *codec_name = codec >= 0 && codec <= 2 ? codecs[codec] : "?";
    if (!s->out->is_json) {
        begin_row(s);
        tide_cli_table_number(&s->table, id);
        tide_cli_table_number(&s->table, first_seq);
        tide_cli_table_number(&s->table, last_seq);
        tide_cli_table_time(&s->table, arrived_us);
        tide_cli_table_cell(&s->table, codec_name);
        tide_cli_table_number(&s->table, raw_len);
        tide_cli_table_number(&s->table, len);
        return;
    }
    tide_cli_json_object_begin(s->out, NULL);
    tide_cli_json_i64(s->out, "batch_id", id);
    tide_cli_json_i64(s->out, "first_seq_id", first_seq);
    tide_cli_json_i64(s->out, "last_seq_id", last_seq);
    tide_cli_json_i64(s->out, "epoch", epoch);
    tide_cli_json_time(s->out, "arrived_at", arrived_us);
    tide_cli_json_text(s->out, "codec", codec_name);
    tide_cli_json_i64(s->out, "raw_bytes", raw_len);
    tide_cli_json_i64(s->out, "stored_bytes", len);
    tide_cli_json_object_end(s->out);
}

static tide_status put_rows(tide_tx *tx, showing *s, const tide_sql *sql,
                            void (*put)(showing *s, tide_query *query), tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_text("name", s->row.stream.name),
               tide_bind_i64("limit", s->limit));
    TIDE_EACH(tide_query_step(query, err))
        put(s, query);
    return TIDE_OK;
}

static tide_status put_holes(tide_tx *tx, void *arg, tide_error *err)
{
    return put_rows(tx, arg, TIDE_SQL_FEED_LOOK_LOSSES, put_hole, err);
}

static tide_status put_batches(tide_tx *tx, void *arg, tide_error *err)
{
    return put_rows(tx, arg, TIDE_SQL_FEED_LOOK_BATCHES, put_batch, err);
}

static void print_state(tide_cli_output *out, const looked *row)
{
    const tide_feed_stream *stream = &row->stream;
    char oldest[TIDE_CLI_TIME_SIZE];
    char head[TIDE_CLI_TIME_SIZE];
    char until[TIDE_CLI_DURATION_SIZE];
    tide_cli_time_text(oldest, stream->oldest_arrived_us);
    tide_cli_time_text(head, stream->head_arrived_us);
    tide_cli_duration_text(until, row->until_loss_us);
    tide_cli_print(out->file, "%s (%s, %s)\n", stream->name, stream->sequence,
                   stream->is_built_in ? "built in" : "declared");
    tide_cli_print(out->file, "oldest      %" PRId64 "%s%s\n", stream->oldest_seq,
                   stream->oldest_arrived_us ? ", arrived " : "",
                   stream->oldest_arrived_us ? oldest : "");
    tide_cli_print(out->file, "head        %" PRId64 "%s%s\n", stream->head_seq,
                   stream->head_arrived_us ? ", arrived " : "",
                   stream->head_arrived_us ? head : "");
    tide_cli_print(out->file, "records     %" PRId64 " in %" PRId64 " batches, %" PRId64 " bytes\n",
                   row->records, stream->batches, stream->bytes);
    tide_cli_print(out->file, "epoch       %" PRId64 ", from number %" PRId64 " on\n",
                   stream->epoch, stream->epoch_first_seq);
    tide_cli_print(out->file, "until loss  %s\n", row->until_loss_us < INT64_MAX ? until : "-");
}

static tide_status put_readers(tide_cli_feed_handle *handle, showing *s, tide_error *err)
{
    return tide_feed_readers(handle->feed, s->row.stream.name, put_reader, s, err);
}

static tide_status show_json(tide_cli_feed_handle *handle, showing *s, tide_error *err)
{
    tide_cli_output *out = s->out;
    tide_cli_json_begin(out);
    put_stream(out, &s->row);
    tide_cli_json_array_begin(out, "readers");
    TIDE_TRY(put_readers(handle, s, err));
    tide_cli_json_array_end(out);
    tide_cli_json_array_begin(out, "holes");
    TIDE_TRY(tide_store_read(handle->store, put_holes, s, err));
    tide_cli_json_array_end(out);
    tide_cli_json_array_begin(out, "newest_batches");
    TIDE_TRY(tide_store_read(handle->store, put_batches, s, err));
    tide_cli_json_array_end(out);
    return tide_cli_json_end(out, err);
}

static void begin_table(showing *s, const char *titles)
{
    s->has_rows = false;
    tide_cli_table_begin(&s->table, s->out, titles);
}

static tide_status show_text(tide_cli_feed_handle *handle, showing *s, tide_error *err)
{
    print_state(s->out, &s->row);
    begin_table(s, "READER,POSITION#,LAG#,TOKEN#,SEEN");
    TIDE_TRY(tide_cli_table_end(&s->table, put_readers(handle, s, err), err));
    begin_table(s, "GONE FROM#,TO#,REASON,FOUND,DETAIL");
    TIDE_TRY(tide_cli_table_end(&s->table, tide_store_read(handle->store, put_holes, s, err), err));
    begin_table(s, "BATCH#,FIRST#,LAST#,ARRIVED,CODEC,BYTES#,STORED#");
    return tide_cli_table_end(&s->table, tide_store_read(handle->store, put_batches, s, err), err);
}

tide_status tide_cli_feed_show(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_feed_close) tide_cli_feed_handle handle = {.store = NULL};
    TIDE_TRY(tide_cli_feed_open(cli, &handle, err));
    showing s = {.out = &cli->out, .limit = tide_cli_number(cli, TIDE_CLI_LIMIT)};
    TIDE_TRY(tide_feed_show(handle.feed, cli->args[0], &s.row.stream, err));
    look l = {.rows = &s.row, .count = 1, .options = tide_feed_get_options(handle.feed)};
    TIDE_TRY(tide_store_read(handle.store, look_closer, &l, err));
    return cli->out.is_json ? show_json(&handle, &s, err) : show_text(&handle, &s, err);
}
