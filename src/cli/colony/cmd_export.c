/* cmd_export.c - tidemark export --parquet DIR: a colony's rows as files, each row once. --lake appends them to a lake. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "cli/colony/colony_store.h"
#include "cli/lake/cmd_lake.h"
#include "cli/print/message_output.h"
#include "colony/export.h"
#include "colony/type.h"

/* ---- into a lake ---- */

/*
 *     colony ---- Export (colony/export.h) ----> DIR: manifest of ranges, a Parquet file each ---- one commit per range ----> CATALOG.SCHEMA.spans, ...
 *
 * The manifest is the checkpoint: a range is planned before anything of it is written, and keeps its place among the ranges of its source for ever. Its place makes the
 * request key of its commit, its numbers the request's hash. So the rows of a range, the key and the snapshot are one transaction of the lake, and whoever comes again finds the key.
 *
 *     it dies                                  then
 *     before a range is written                the manifest completes it (colony/export.h)
 *     before its commit                        its file is there: committed by the next run; files that the lake's own writer left are orphans
 *     after it, before anybody knew            the key answers: not a second time
 *     another directory, another colony        the key is there with another hash: refused, nothing is written
 *
 * Without --parquet the directory lies below the lake's data, hidden (.exports), and files are removed when they are in the lake. DIR/lake.NAME tells how many ranges of
 * the manifest are known to be there: a hint, which saves asking for each of them again. */
enum { TRIES_MAX = 4, COLUMNS_MAX = 64 };

typedef struct delivery {
    tide_cli *cli;
    tide_cli_metabase metabase;
    tide_lake_data *data;
    tide_lake_catalog catalog;
    const char *schema;
    char dir[PATH_MAX];
    bool is_own_dir; /* and its files are removed */
    int64_t written; /* ranges of the manifest so far */
    int64_t known;   /* of them in the lake, as the hint says */
    struct place *places;
    int place_count;
    tide_cli_table table;
} delivery;

/* How many ranges of a source the manifest has listed. */
typedef struct place {
    tide_export_range source;
    int64_t count;
} place;

static void delivery_done(delivery *d)
{
    free(d->places);
    tide_lake_data_close(d->data);
    tide_cli_close_lake(&d->metabase);
}

/* ---- where ---- */

static tide_status find_catalog(tide_tx *tx, void *arg, tide_error *err)
{
    delivery *d = arg;
    return tide_lake_find_catalog(tx, tide_cli_text(d->cli, TIDE_CLI_CATALOG), &d->catalog, err);
}

static tide_status open_catalog(delivery *d, tide_error *err)
{
    const char *name = tide_cli_text(d->cli, TIDE_CLI_CATALOG);
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_EXISTING,
                                  .is_inline = true};
    tide_cli_store_options(d->cli, &options);
    TIDE_TRY(
        tide_store_open(&d->metabase.store, tide_cli_text(d->cli, TIDE_CLI_LAKE), &options, err));
    TIDE_TRY(tide_lake_open(&d->metabase.lake, d->metabase.store, err));
    const tide_status status = tide_store_read(d->metabase.store, find_catalog, d, err);
    if (status != TIDE_E_NOT_FOUND || !tide_cli_is_given(d->cli, TIDE_CLI_CREATE))
        return status;
    tide_lake_created created;
    TIDE_TRY(tide_lake_create_catalog(d->metabase.lake, name, true, NULL, &created, err));
    return tide_store_read(d->metabase.store, find_catalog, d, err);
}

/* A schema's name as a part of a path. */
static void encode_name(char *out, size_t size, const char *name)
{
    size_t len = 0;
    for (; *name && len + 4 < size; name++) {
        const unsigned char c = (unsigned char)*name;
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-';
        len += (size_t)snprintf(out + len, size - len, is_plain ? "%c" : "%%%02X", c);
    }
    out[len] = '\0';
}

static tide_status make_directory(const char *path, tide_error *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "cannot make %s: %s",
                         path, strerror(errno));
    return TIDE_OK;
}

/* The daemon that writes the files may stand in another directory than its caller. */
static tide_status cli_absolute(const char *dir, char out[PATH_MAX], tide_error *err)
{
    char here[PATH_MAX] = "";
    if (!*dir)
        return tide_fail(err, TIDE_E_INVALID, "--parquet wants a directory");
    if (*dir != '/' && !getcwd(here, sizeof here))
        return tide_fail(err, TIDE_E_IO, "the working directory has no path");
    const int len = snprintf(out, PATH_MAX, "%s%s%s", here, *here ? "/" : "", dir);
    return len < PATH_MAX ? TIDE_OK
                          : tide_fail(err, TIDE_E_LIMIT, "the path of '%.60s...' is too long", dir);
}

/* The catalog's own number names it: one that is dropped and made again begins anew. */
static tide_status choose_directory(delivery *d, tide_error *err)
{
    const char *wish = tide_cli_text(d->cli, TIDE_CLI_PARQUET);
    if (wish)
        return cli_absolute(wish, d->dir, err);
    char schema[3 * TIDE_LAKE_NAME_MAX + 8];
    encode_name(schema, sizeof schema, d->schema);
    const char *data = tide_lake_data_dir(d->metabase.lake);
    d->is_own_dir = true;
    int len = snprintf(d->dir, sizeof d->dir, "%s" TIDE_LAKE_EXPORTS, data);
    if (len > 0 && (size_t)len < sizeof d->dir)
        TIDE_TRY(make_directory(d->dir, err));
    len = snprintf(d->dir, sizeof d->dir, "%s" TIDE_LAKE_EXPORTS "/%s.%s", data, d->catalog.uuid,
                   schema);
    if ((size_t)len >= sizeof d->dir)
        return tide_fail(err, TIDE_E_LIMIT, "the path of the lake's data is too long");
    return make_directory(d->dir, err);
}

/* ---- the hint ---- */

static void name_hint(const delivery *d, char out[PATH_MAX], const char *end)
{
    (void)snprintf(out, PATH_MAX, "%.3900s/lake.%s%s", d->dir, d->catalog.uuid, end);
}

static void read_hint(delivery *d)
{
    char path[PATH_MAX];
    char text[32] = "";
    name_hint(d, path, "");
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(text, sizeof text, file) && strchr(text, '\n'))
        d->known = strtoll(text, NULL, 10);
    (void)fclose(file);
}

/* One that is too low, or lost, costs questions. It is never too high: what it counts is durable before. */
static void write_hint(const delivery *d)
{
    char path[PATH_MAX];
    char part[PATH_MAX];
    name_hint(d, path, "");
    name_hint(d, part, ".part");
    FILE *file = fopen(part, "we");
    if (!file)
        return;
    const bool is_written = fprintf(file, "%" PRId64 "\n", d->written) > 0;
    if (fclose(file) == 0 && is_written)
        (void)rename(part, path);
}

/* ---- a range's identity ---- */

static bool is_same_source(const tide_export_range *a, const tide_export_range *b)
{
    return strcmp(a->data_type, b->data_type) == 0 && strcmp(a->agent_id, b->agent_id) == 0 &&
           strcmp(a->session_id, b->session_id) == 0 && a->epoch == b->epoch;
}

/* The place of a range among those of its source, from 1. */
static tide_status count_place(delivery *d, const tide_export_range *range, int64_t *out,
                               tide_error *err)
{
    place *found = NULL;
    for (int i = 0; i < d->place_count && !found; i++)
        if (is_same_source(&d->places[i].source, range))
            found = &d->places[i];
    if (!found) {
        TIDE_TRY(tide_list_room(&d->places, d->place_count, sizeof *d->places, TIDE_LIST_MAX, err));
        found = &d->places[d->place_count++];
        *found = (place){.source = *range};
    }
    *out = ++found->count;
    return TIDE_OK;
}

typedef struct identity {
    char key[TIDE_LAKE_KEY_MAX + 1];
    uint8_t hash[TIDE_SHA256_LEN];
    char message[256];
    char extra[1024];
} identity;

/* Fields end with a byte that no name has. */
static tide_status identify(const delivery *d, const tide_export_range *range, int64_t nth,
                            identity *out, tide_error *err)
{
    char words[2048];
    uint8_t digest[TIDE_SHA256_LEN];
    int len =
        snprintf(words, sizeof words, "%s\x1f%s\x1f%s\x1f%s\x1f%" PRId64 "\x1f%" PRId64, d->schema,
                 range->data_type, range->agent_id, range->session_id, range->epoch, nth);
    TIDE_TRY(tide_sha256_of(tide_view_bytes(words, (size_t)len), digest, err));
    len = snprintf(out->key, sizeof out->key, "colony-export/");
    for (int i = 0; i < TIDE_SHA256_LEN; i++)
        len += snprintf(out->key + len, sizeof out->key - (size_t)len, "%02x", digest[i]);
    len = snprintf(words, sizeof words, "%" PRId64 "-%" PRId64 " %" PRId64, range->first_seq,
                   range->last_seq, range->rows);
    TIDE_TRY(tide_sha256_of(tide_view_bytes(words, (size_t)len), out->hash, err));
    (void)snprintf(out->message, sizeof out->message,
                   "export: %s of %.120s, %" PRId64 " to %" PRId64, range->data_type,
                   range->agent_id, range->first_seq, range->last_seq);
    (void)snprintf(out->extra, sizeof out->extra,
                   "export\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64,
                   range->data_type, range->agent_id, range->session_id, range->epoch,
                   range->first_seq, range->last_seq, nth);
    return TIDE_OK;
}

/* ---- the table ---- */

static const char *type_of(const tide_stream_type *stream, int column)
{
    if (column == stream->time_column)
        return "timestamp";
    switch (stream->columns[column].kind) {
    case TIDE_COLUMN_I64:
        return "int64";
    case TIDE_COLUMN_I32:
        return "int32";
    case TIDE_COLUMN_U64:
        return "uint64";
    case TIDE_COLUMN_F64:
        return "float64";
    case TIDE_COLUMN_BOOL:
        return "boolean";
    case TIDE_COLUMN_BLOB:
        return "blob";
    case TIDE_COLUMN_TEXT:
    case TIDE_COLUMN_MAP:
    case TIDE_COLUMN_IDS: /* "[1, 2]": the lake has no lists */
        return "varchar";
    }
    return "varchar";
}

static tide_status create_table(tide_lake_change *change, const char *schema,
                                const tide_colony_type *type, tide_error *err)
{
    tide_lake_column_def columns[COLUMNS_MAX] = {{.name = "agent_id", .type = "varchar"}};
    const tide_stream_type *stream = type->stream;
    int count = 1;
    if (stream->kind == TIDE_STREAM_OPAQUE)
        columns[count++] = (tide_lake_column_def){.name = "data_type", .type = "varchar"};
    columns[count++] = (tide_lake_column_def){.name = "session_id", .type = "varchar"};
    columns[count++] = (tide_lake_column_def){.name = "epoch", .type = "int64"};
    columns[count++] = (tide_lake_column_def){.name = "seq_id", .type = "int64"};
    for (int i = 0; i < stream->column_count && count < COLUMNS_MAX; i++)
        columns[count++] =
            (tide_lake_column_def){.name = stream->columns[i].name, .type = type_of(stream, i)};
    const tide_status status = tide_lake_create_schema(change, schema, err);
    if (status < TIDE_OK && status != TIDE_E_EXISTS)
        return status;
    return tide_lake_create_table(change, schema, type->table, columns, count, err);
}

static tide_status need_table(const delivery *d, tide_lake_change *change,
                              const tide_colony_type *type, tide_error *err)
{
    tide_lake_table_seen seen = {0};
    const tide_status status = tide_lake_change_table(change, d->schema, type->table, &seen, err);
    tide_lake_table_done(&seen);
    return status == TIDE_E_NOT_FOUND ? create_table(change, d->schema, type, err) : status;
}

/* ---- one range ---- */

static tide_status open_data(void *arg, tide_lake_data **out, tide_error *err)
{
    delivery *d = arg;
    if (!d->data)
        TIDE_TRY(tide_cli_open_lake_data(d->cli, d->metabase.lake, &d->data, err));
    *out = d->data;
    return TIDE_OK;
}

static tide_status commit_once(delivery *d, const tide_export_range *range, const char *path,
                               const identity *who, tide_lake_committed *out, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_work_done)
    tide_lake_work work = {
        .lake = d->metabase.lake,
        .open_data = open_data,
        .arg = d,
        .holder = "export",
        .commit = {.request_key = who->key,
                   .request_hash = tide_view_bytes((const char *)who->hash, sizeof who->hash),
                   .author = "tidemark export",
                   .message = who->message,
                   .extra = who->extra}};
    const tide_colony_type *type = tide_colony_type_find(range->data_type);
    TIDE_TRY(tide_lake_work_begin(&work, d->catalog.name, err));
    if (!work.is_answered) {
        TIDE_TRY(need_table(d, work.change, type, err));
        TIDE_TRY(
            tide_lake_work_append(&work, d->schema, type->table, path, TIDE_LAKE_PARQUET, err));
        if (work.files == 0)
            return tide_fail(err, TIDE_E_DAMAGED, "%s has no rows, and should have %" PRId64, path,
                             range->rows);
    }
    TIDE_TRY(tide_lake_work_commit(&work, err));
    *out = work.result;
    return TIDE_OK;
}

/* Somebody altered the table, or another run was first: looked at again, and then it is there, or it goes. */
static tide_status commit_range(delivery *d, const tide_export_range *range, const char *path,
                                const identity *who, tide_lake_committed *out, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int attempt = 0; attempt < TRIES_MAX; attempt++) {
        status = commit_once(d, range, path, who, out, err);
        if (status != TIDE_E_CONFLICT && status != TIDE_E_NOT_FOUND && status != TIDE_E_EXISTS)
            return status;
    }
    if (status == TIDE_E_NOT_FOUND && access(path, F_OK) != 0)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "numbers %" PRId64 " to %" PRId64 " of %s of %s are in %s, which is gone, "
                         "and not in catalog %s: put it back",
                         range->first_seq, range->last_seq, range->data_type, range->agent_id, path,
                         d->catalog.name);
    return status;
}

static tide_status print_range(delivery *d, const tide_export_range *range,
                               const tide_lake_committed *done, tide_error *err)
{
    tide_cli_output *out = &d->cli->out;
    const char *table = tide_colony_type_find(range->data_type)->table;
    if (!out->is_json) {
        tide_cli_table_cell(&d->table, table);
        tide_cli_table_cell(&d->table, range->agent_id);
        tide_cli_table_number(&d->table, range->first_seq);
        tide_cli_table_number(&d->table, range->last_seq);
        tide_cli_table_number(&d->table, range->rows);
        tide_cli_table_number(&d->table, done->snapshot_id);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "table", table);
    tide_cli_json_text(out, "agent_id", range->agent_id);
    tide_cli_json_text(out, "data_type", range->data_type);
    tide_cli_json_text(out, "session_id", range->session_id);
    tide_cli_json_i64(out, "epoch", range->epoch);
    tide_cli_json_i64(out, "first_seq_id", range->first_seq);
    tide_cli_json_i64(out, "last_seq_id", range->last_seq);
    tide_cli_json_i64(out, "rows", range->rows);
    tide_cli_json_i64(out, "snapshot_id", done->snapshot_id);
    if (done->is_replay)
        tide_cli_json_bool(out, "replayed", true);
    return tide_cli_json_end(out, err);
}

static tide_status deliver_range(void *arg, const tide_export_range *range, const char *path,
                                 tide_error *err)
{
    delivery *d = arg;
    int64_t nth = 0;
    if (!range->is_written || range->rows == 0)
        return TIDE_OK;
    TIDE_TRY(count_place(d, range, &nth, err));
    if (d->written++ < d->known)
        return TIDE_OK;
    identity who;
    tide_lake_committed done = {0};
    TIDE_TRY(identify(d, range, nth, &who, err));
    TIDE_TRY(commit_range(d, range, path, &who, &done, err));
    if (d->is_own_dir)
        (void)unlink(path);
    write_hint(d);
    return print_range(d, range, &done, err);
}

/* ---- the command ---- */

static tide_status deliver(delivery *d, tide_error *err)
{
    read_hint(d);
    tide_cli_table_begin(&d->table, &d->cli->out, "TABLE,AGENT,FIRST#,LAST#,ROWS#,SNAPSHOT#");
    tide_status status = tide_export_list(d->dir, deliver_range, d, err);
    if (status == TIDE_E_NOT_FOUND && d->written == 0)
        status = TIDE_OK; /* nothing was ever exported */
    return tide_cli_table_end(&d->table, status, err);
}

static tide_status cli_export_files(tide_cli *cli, char *dir, tide_cli_colony_fn *fn,
                                    tide_error *err)
{
    COLONY(ExportRequest) request = COLONY_INIT(EXPORT_REQUEST);
    request.directory = dir;
    request.data_type = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_DATA_TYPE));
    return tide_cli_colony_ask(cli, "Export", &request.base,
                               &tidemark__colony__v1__export_response__descriptor, fn, err);
}

static tide_status cli_export_lake(tide_cli *cli, tide_error *err)
{
    const char *schema = tide_cli_text(cli, TIDE_CLI_SCHEMA);
    TIDE_CLEANUP(delivery_done) delivery d = {.cli = cli, .schema = schema ? schema : "main"};
    if (!tide_cli_text(cli, TIDE_CLI_CATALOG))
        return tide_fail(err, TIDE_E_INVALID,
                         "--lake wants --catalog NAME: which one of its catalogs");
    TIDE_TRY(tide_lake_check_name(d.schema, "schema", err));
    TIDE_TRY(open_catalog(&d, err));
    TIDE_TRY(choose_directory(&d, err));
    TIDE_TRY(cli_export_files(cli, d.dir, NULL, err));
    return deliver(&d, err);
}

static tide_status print_files(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ExportResponse) *answer = (const COLONY(ExportResponse) *)response;
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < answer->n_files; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &answer->files[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out, "FILE,FIRST#,LAST#,ROWS#,BYTES#");
    for (size_t i = 0; i < answer->n_files; i++) {
        const COLONY(ExportedFile) *file = answer->files[i];
        tide_cli_table_cell(&table, *file->path ? file->path : NULL);
        tide_cli_table_number(&table, (int64_t)file->first_seq_id);
        tide_cli_table_number(&table, (int64_t)file->last_seq_id);
        tide_cli_table_number(&table, (int64_t)file->rows);
        tide_cli_table_number(&table, (int64_t)file->bytes);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status run_export(tide_cli *cli, tide_error *err)
{
    char dir[PATH_MAX];
    if (tide_cli_text(cli, TIDE_CLI_LAKE))
        return cli_export_lake(cli, err);
    if (!tide_cli_text(cli, TIDE_CLI_PARQUET))
        return tide_fail(err, TIDE_E_INVALID,
                         "where to? --parquet DIR writes files, --lake URL --catalog NAME appends "
                         "to tables of a lake");
    TIDE_TRY(cli_absolute(tide_cli_text(cli, TIDE_CLI_PARQUET), dir, err));
    return cli_export_files(cli, dir, print_files, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes =
         TIDE_CLI_LIST(PARQUET, LAKE, CATALOG, SCHEMA, CREATE, DATA_TYPE, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "write a colony's rows that were not exported yet as Parquet files, or into a lake",
     .details = "Needs DuckDB, whatever the store is. DIR/manifest.tsv lists what was written; a "
                "row is in one file,\n"
                "also after a crash. Run it again for what has come since.\n"
                "With --lake rows are appended to tables spans, logs, ... of a catalog, each once, "
                "a snapshot per range of\n"
                "numbers; --parquet then names where files are kept on the way (else below the "
                "lake's data, and removed).",
     .run = run_export},
    {.name = NULL},
};

const tide_cli_command tide_cli_export = {
    .name = "export",
    .summary = "write a colony's rows that were not exported yet as Parquet files, or into a lake",
    .verbs = verbs,
};
