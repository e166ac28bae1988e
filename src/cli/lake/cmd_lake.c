/* cmd_lake.c - tidemark lake: the table of its verbs, init and verify. */
#include "cli/lake/cmd_lake.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/frame/listener_options.h"
#include "cli/print/sql_output.h"
#include "lake/expose.h"
#include "lake/file_digest.h"
#include "runtime/listener.h"
#include "services/lake/laked.h"

/* ---- serve ---- */

static void close_component(void *component)
{
    tide_laked_close(component);
}

static tide_status cli_lake_serve(tide_cli *cli, tide_error *err)
{
    tide_log log;
    tide_listener_options options;
    const char *data_dir = tide_cli_text(cli, TIDE_CLI_DATA);
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options, err));
    options.ports[0] =
        (tide_listener_port){.name = "listen", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options.port_count = 1;
    options.steps = tidemark_lake_steps;
    tide_cli_block_signals();
    TIDE_CLI_STORE(store, cli, data_dir ? TIDE_STORE_CREATE : TIDE_STORE_EXISTING, err);
    options.store = store;
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_laked *laked = NULL;
    const tide_laked_options lake = {.store = store,
                                     .store_url = tide_cli_text(cli, TIDE_CLI_STORE),
                                     .data_dir = data_dir,
                                     .duckdb_library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY),
                                     .desks = (int)tide_cli_number(cli, TIDE_CLI_DESKS)};
    TIDE_TRY(tide_listener_open(&single.listener, &options, err));
    TIDE_TRY(tide_laked_open(&laked, single.listener, &lake, err));
    single.component = laked;
    return tide_cli_after_serving(tide_single_service_serve(&single, err));
}

/* ---- expose ---- */

/* An export reads everything in one closure. */
#define EXPORT_US INT64_C(86400000000)

static tide_status cli_lake_expose(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_exposed exposed = {0};
    TIDE_TRY(tide_lake_expose(metabase.lake, name.catalog, tide_cli_text(cli, TIDE_CLI_SCHEMA),
                              &exposed, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "catalog %s is exposed as schema %s%s: attach with METADATA_SCHEMA '%s'\n",
                       name.catalog, exposed.schema, exposed.was_there ? ", as before" : "",
                       exposed.schema);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "catalog_id", exposed.catalog_id);
    tide_cli_json_text(&cli->out, "schema", exposed.schema);
    tide_cli_json_bool(&cli->out, "was_there", exposed.was_there);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status cli_lake_unexpose(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    bool was_exposed = false;
    TIDE_TRY(tide_lake_unexpose(metabase.lake, name.catalog, &was_exposed, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "catalog %s %s\n", name.catalog,
                       was_exposed ? "is not exposed any more" : "was not exposed");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_bool(&cli->out, "was_exposed", was_exposed);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status cli_lake_export(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, EXPORT_US, err));
    tide_lake_exported exported = {0};
    const tide_lake_export_options options = {
        .data_dir = tide_cli_text(cli, TIDE_CLI_DATA),
        .is_reference = tide_cli_is_given(cli, TIDE_CLI_REFERENCE),
        .is_forced = tide_cli_is_given(cli, TIDE_CLI_FORCE),
    };
    if (options.is_reference && options.data_dir)
        return tide_fail(err, TIDE_E_INVALID,
                         "--reference names the lake's own files, --data a directory for copies: "
                         "give one of them");
    TIDE_TRY(tide_lake_export(metabase.lake, name.catalog, cli->args[1], &options, &exported, err));
    if (options.is_reference)
        (void)fputs("tidemark: lake export: the copy names the lake's own files: attach it "
                    "READ_ONLY, since a client that cleans up there deletes what the lake needs\n",
                    stderr);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%s: snapshot %" PRId64 ", %" PRId64 " snapshots, %" PRId64
                       " tables, %" PRId64 " files\n",
                       cli->args[1], exported.snapshot_id, exported.snapshots, exported.tables,
                       exported.files);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "snapshot_id", exported.snapshot_id);
    tide_cli_json_i64(&cli->out, "snapshots", exported.snapshots);
    tide_cli_json_i64(&cli->out, "tables", exported.tables);
    tide_cli_json_i64(&cli->out, "files", exported.files);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- query ---- */

enum { SQL_MAX = 1 << 20 }; /* bytes of the statement */

#define ANSWER_MAX (INT64_C(1) << 40)

typedef struct answer {
    tide_cli_sql_output output;
    int count;
    bool is_begun;
} answer;

static tide_status begin_answer(void *arg, const char *const *names, int count, tide_error *err)
{
    answer *a = arg;
    a->count = count;
    a->is_begun = true;
    return tide_cli_sql_output_begin(&a->output, names, count, err);
}

static tide_status print_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    answer *a = arg;
    if (count != a->count)
        return tide_fail(err, TIDE_E_DAMAGED, "a row has %d values, and there are %d columns",
                         count, a->count);
    return tide_cli_sql_output_row(&a->output, cells, err);
}

static void answer_done(answer *a)
{
    tide_cli_sql_output_done(&a->output);
}

static tide_status ask(tide_cli *cli, const char *sql, answer *a, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_CLEANUP(tide_lake_data_closep) tide_lake_data *data = NULL;
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    const char *catalog = tide_cli_text(cli, TIDE_CLI_CATALOG);
    tide_lake_name name;
    if (catalog)
        TIDE_TRY(tide_lake_name_parse(&name, catalog, 1, err));
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    TIDE_TRY(tide_cli_open_lake_data(cli, metabase.lake, &data, err));
    const tide_lake_ask question = {.text = sql,
                                    .at = at ? at : "",
                                    .default_catalog = catalog ? name.catalog : NULL,
                                    .row_max = tide_cli_number(cli, TIDE_CLI_LIMIT),
                                    .bytes_max = ANSWER_MAX,
                                    .timeout_us = tide_cli_number(cli, TIDE_CLI_TIMEOUT),
                                    .columns = begin_answer,
                                    .row = print_row,
                                    .arg = a};
    return tide_lake_query(data, metabase.lake, &question, err);
}

static tide_status cli_lake_query(tide_cli *cli, tide_error *err)
{
    const bool is_csv = tide_cli_is_given(cli, TIDE_CLI_CSV);
    if (cli->out.is_json && is_csv)
        return tide_fail(err, TIDE_E_INVALID, "--csv and --json: choose one");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sql = tide_buffer_of(SQL_MAX);
    TIDE_TRY(tide_cli_input_read(&sql, cli->args[0], "SQL", err));
    if (tide_view_of(tide_buffer_text(&sql)).len != sql.len)
        return tide_fail(err, TIDE_E_INVALID, "the statement has a NUL in it");
    TIDE_CLEANUP(answer_done) answer a = {.count = 0};
    tide_cli_sql_output_init(&a.output, &cli->out,
                             cli->out.is_json ? TIDE_CLI_SQL_JSON
                             : is_csv         ? TIDE_CLI_SQL_CSV
                                              : TIDE_CLI_SQL_TABLE);
    const tide_status status = ask(cli, tide_buffer_text(&sql), &a, err);
    tide_error ignored;
    const tide_status ended =
        a.is_begun ? tide_cli_sql_output_end(&a.output, 0, status < TIDE_OK ? &ignored : err)
                   : TIDE_OK;
    if (status == TIDE_E_LIMIT)
        (void)snprintf(cli->hint, sizeof cli->hint, "--limit N lets more rows through");
    return status < TIDE_OK ? status : ended;
}

/* ---- catalogs ---- */

/* What is asked, for its key. */
static tide_status hash_words(tide_cli *cli, const char *verb, uint8_t out[TIDE_SHA256_LEN],
                              tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    const char *const words[] = {verb, cli->args[0], cli->arg_count > 1 ? cli->args[1] : "",
                                 at ? at : ""};
    TIDE_TRY(tide_sha256_init(&sha, err));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(words[i], strlen(words[i]) + 1), err));
    return tide_sha256_finish(&sha, out, err);
}

/* A name may be written in double quotes, as everywhere. */
static tide_status parse_name(const char *text, tide_lake_name *out, tide_error *err)
{
    return tide_lake_name_parse(out, text, 1, err);
}

static tide_status print_created(tide_cli *cli, const char *name, const tide_lake_created *created,
                                 tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "catalog %s (%" PRId64 ") at snapshot %" PRId64 "%s\n", name,
                       created->catalog_id, created->snapshot_id,
                       created->was_there ? ", there already" : "");
        return TIDE_OK;
    }
    LAKE(CreatedCatalog) row;
    tide_lake_message_created(&row, created);
    return tide_cli_print_message(&cli->out, &row.base, err);
}

static tide_status cli_lake_catalog_create(tide_cli *cli, tide_error *err)
{
    uint8_t hash[TIDE_SHA256_LEN];
    tide_lake_name name;
    TIDE_TRY(parse_name(cli->args[0], &name, err));
    TIDE_TRY(hash_words(cli, "create", hash, err));
    const tide_lake_commit_options options =
        tide_cli_lake_options(cli, tide_view_bytes((const char *)hash, sizeof hash));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_created created;
    TIDE_TRY(tide_lake_create_catalog(metabase.lake, name.catalog, false, &options, &created, err));
    return print_created(cli, name.catalog, &created, err);
}

static tide_status cli_lake_catalog_fork(tide_cli *cli, tide_error *err)
{
    uint8_t hash[TIDE_SHA256_LEN];
    tide_lake_name parent;
    tide_lake_name child;
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    TIDE_TRY(parse_name(cli->args[0], &parent, err));
    TIDE_TRY(parse_name(cli->args[1], &child, err));
    TIDE_TRY(hash_words(cli, "fork", hash, err));
    const tide_lake_commit_options options =
        tide_cli_lake_options(cli, tide_view_bytes((const char *)hash, sizeof hash));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_created created;
    TIDE_TRY(tide_lake_fork(metabase.lake, parent.catalog, child.catalog, at ? at : "", &options,
                            &created, err));
    return print_created(cli, child.catalog, &created, err);
}

static tide_status cli_lake_catalog_drop(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(parse_name(cli->args[0], &name, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    TIDE_TRY(tide_lake_drop_catalog(metabase.lake, name.catalog, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "dropped %s\n", name.catalog);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "dropped", name.catalog);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- ls ---- */

static tide_status print_catalog(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    const bool is_fork = catalog->parent_id != 0;
    if (!out->is_json) {
        tide_cli_table_number(table, catalog->catalog_id);
        tide_cli_table_cell(table, catalog->name);
        tide_cli_table_number(table, catalog->head);
        tide_cli_table_time(table, catalog->head_time_us);
        tide_cli_table_cell(table, is_fork ? catalog->parent_name : NULL);
        if (is_fork)
            tide_cli_table_number(table, catalog->fork_snapshot);
        else
            tide_cli_table_cell(table, NULL);
        return TIDE_OK;
    }
    LAKE(Catalog) row;
    tide_lake_message_catalog(&row, catalog);
    return tide_cli_print_message(out, &row.base, err);
}

static tide_status list_catalogs(tide_tx *tx, void *arg, tide_error *err)
{
    tide_cli_table table;
    tide_cli_table_begin(&table, &((tide_cli *)arg)->out, "ID#,NAME,SNAPSHOT#,CHANGED,PARENT,AT#");
    const tide_status status = tide_lake_each_catalog(tx, print_catalog, &table, err);
    return tide_cli_table_end(&table, status, err);
}

static tide_status cli_lake_catalog_ls(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    return tide_cli_lake_print(cli, metabase.store, list_catalogs, cli, err);
}

/* The checker reads everything in one closure. */
#define VERIFY_US INT64_C(86400000000)

tide_status tide_cli_open_lake(tide_cli *cli, tide_cli_metabase *out, int64_t closure_us,
                               tide_error *err)
{
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_EXISTING,
                                  .is_inline = true, .closure_us = closure_us};
    tide_cli_store_options(cli, &options);
    TIDE_TRY(tide_store_open(&out->store, tide_cli_text(cli, TIDE_CLI_STORE), &options, err));
    return tide_lake_open(&out->lake, out->store, err);
}

void tide_cli_close_lake(tide_cli_metabase *metabase)
{
    tide_lake_close(metabase->lake);
    tide_store_close(metabase->store);
}

tide_status tide_cli_open_lake_data(tide_cli *cli, tide_lake *lake, tide_lake_data **out,
                                    tide_error *err)
{
    const tide_lake_data_options options = {.library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY)};
    return tide_lake_data_open(out, tide_lake_data_dir(lake), &options, err);
}

/* ---- init ---- */

static tide_status take_over(tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_closep) tide_lake *lake = NULL;
    TIDE_TRY(tide_lake_open(&lake, store, err));
    return tide_lake_take_over(store, tide_lake_data_dir(lake), err);
}

static tide_status init(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    /* First the directory: where it cannot be, no store is made. */
    TIDE_TRY(tide_lake_check_directory(tide_cli_text(cli, TIDE_CLI_DATA), err));
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    bool was_there = false;
    TIDE_TRY(tide_lake_init(store, tide_cli_text(cli, TIDE_CLI_DATA), &was_there, err));
    if (was_there && tide_cli_is_given(cli, TIDE_CLI_FORCE))
        TIDE_TRY(take_over(store, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%s\n", was_there ? "there already" : "made");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_bool(&cli->out, "was_there", was_there);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- verify ---- */

static void print_finding(void *arg, const tide_lake_finding *finding)
{
    tide_cli *cli = arg;
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: catalog %" PRId64 ", snapshot %" PRId64 ": %s\n",
                       finding->rule, finding->catalog_id, finding->snapshot_id, finding->words);
        return;
    }
    tide_error ignored;
    LAKE(Finding) row;
    tide_lake_message_finding(&row, finding);
    TIDE_IGNORE(tide_cli_print_message(&cli->out, &row.base, &ignored));
}

static tide_status verify(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    if (cli->arg_count > 0)
        TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, VERIFY_US, err));
    tide_lake_checked checked = {0};
    const char *catalog = cli->arg_count > 0 ? name.catalog : NULL;
    const bool is_recording = tide_cli_is_given(cli, TIDE_CLI_RECORD_DIGESTS);
    const bool has_files = is_recording || tide_cli_is_given(cli, TIDE_CLI_FILES);
    tide_status status =
        tide_lake_check_history(metabase.lake, catalog, print_finding, cli, &checked, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    tide_lake_files_checked files = {0};
    if (has_files) {
        const tide_status found = tide_lake_verify_files(metabase.lake, catalog, is_recording,
                                                         print_finding, cli, &files, err);
        if (found < TIDE_OK && found != TIDE_E_DAMAGED)
            return found;
        status = found < TIDE_OK ? found : status;
        checked.findings += files.damaged;
    }
    if (cli->out.is_json) {
        tide_error print_err;
        tide_cli_json_begin(&cli->out);
        tide_cli_json_i64(&cli->out, "catalogs", checked.catalogs);
        tide_cli_json_i64(&cli->out, "snapshots", checked.snapshots);
        tide_cli_json_i64(&cli->out, "rows", checked.rows);
        tide_cli_json_i64(&cli->out, "files", files.checked + files.unchecked);
        tide_cli_json_i64(&cli->out, "findings", checked.findings);
        if (has_files) {
            tide_cli_json_text(&cli->out, "status", status < TIDE_OK ? "damaged" : "sound");
            tide_cli_json_i64(&cli->out, "checked", files.checked);
            tide_cli_json_i64(&cli->out, "unchecked", files.unchecked);
            tide_cli_json_i64(&cli->out, "damaged", files.damaged);
        }
        TIDE_TRY(tide_cli_json_end(&cli->out, status < TIDE_OK ? &print_err : err));
    } else if (has_files) {
        tide_cli_print(cli->out.file,
                       "files: %" PRId64 " checked, %" PRId64 " without a digest, %" PRId64
                       " damaged%s\n",
                       files.checked, files.unchecked, files.damaged,
                       files.unchecked > 0 ? " (--record-digests gives them one)" : "");
    }
    if (!cli->out.is_json && status == TIDE_OK) {
        (void)fprintf(cli->out.file,
                      "sound: %" PRId64 " catalogs, %" PRId64 " snapshots, %" PRId64 " rows\n",
                      checked.catalogs, checked.snapshots, checked.rows);
    }
    return status;
}

#define COMMIT_OPTIONS REQUEST_KEY, AUTHOR, MESSAGE
#define LIBRARY                                                                                    \
    {                                                                                              \
        .id = TIDE_CLI_DUCKDB_LIBRARY, .help = "where libduckdb.so is"                             \
    }

static const tide_cli_verb verbs[] = {
    {.name = "init",
     .takes = TIDE_CLI_LIST(DATA, FORCE),
     .needs = TIDE_CLI_LIST(DATA),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_DATA,
          .value = "DIR",
          .help = "where data files lie, below this directory"},
         {.id = TIDE_CLI_FORCE,
          .help = "this metabase was copied or restored, and is the one in use: the data "
                  "directory is its own"}),
     .summary = "make a metabase in the store; fine when it is there",
     .details = "A data directory belongs to one metabase, which alone removes files there.",
     .run = init},
    {.name = "catalog create",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(COMMIT_OPTIONS),
     .summary = "make a catalog, with one snapshot and the schema main",
     .run = cli_lake_catalog_create},
    {.name = "catalog ls",
     .summary = "list catalogs, with their newest snapshots",
     .run = cli_lake_catalog_ls},
    {.name = "catalog fork",
     .arguments = "PARENT CHILD",
     .takes = TIDE_CLI_LIST(AT, COMMIT_OPTIONS),
     .summary = "make a catalog that begins as another one is, or was; no data is copied",
     .run = cli_lake_catalog_fork},
    {.name = "catalog drop",
     .arguments = "NAME",
     .summary = "drop a catalog; what its forks need stays",
     .run = cli_lake_catalog_drop},
    {.name = "schema create",
     .arguments = "CATALOG.SCHEMA",
     .takes = TIDE_CLI_LIST(CREATE, COMMIT_OPTIONS),
     .summary = "make a schema",
     .run = tide_cli_lake_schema_create},
    {.name = "schema ls",
     .arguments = "CATALOG",
     .takes = TIDE_CLI_LIST(AT),
     .summary = "list schemas",
     .run = tide_cli_lake_schema_ls},
    {.name = "schema drop",
     .arguments = "CATALOG.SCHEMA",
     .takes = TIDE_CLI_LIST(CASCADE, COMMIT_OPTIONS),
     .summary = "drop a schema that is empty",
     .run = tide_cli_lake_schema_drop},
    {.name = "table create",
     .arguments = "CATALOG.SCHEMA.TABLE COLUMNS",
     .takes = TIDE_CLI_LIST(CREATE, COMMIT_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_CREATE, .help = "make catalog and schema if they are not there"}),
     .summary = "make a table: COLUMNS is \"a BIGINT, b VARCHAR NOT NULL DEFAULT 'x'\"",
     .run = tide_cli_lake_table_create},
    {.name = "table alter",
     .arguments = "CATALOG.SCHEMA.TABLE ACTION [VALUE...]",
     .takes = TIDE_CLI_LIST(COMMIT_OPTIONS),
     .summary = "change a table's columns, name or partitions",
     .details = "    add \"COLUMN TYPE [NOT NULL] [DEFAULT VALUE]\"\n"
                "    drop COLUMN\n"
                "    rename NEW-NAME\n"
                "    rename-column COLUMN NEW-NAME\n"
                "    type COLUMN TYPE                 to a wider one: INTEGER to BIGINT, ...\n"
                "    partition [KEY...]               COLUMN, year(COLUMN), month, day, hour, "
                "bucket(N, COLUMN);\n"
                "                                     without keys: no partitions from here on",
     .run = tide_cli_lake_table_alter},
    {.name = "table drop",
     .arguments = "CATALOG.SCHEMA.TABLE",
     .takes = TIDE_CLI_LIST(COMMIT_OPTIONS),
     .summary = "drop a table; older snapshots keep it",
     .run = tide_cli_lake_table_drop},
    {.name = "table ls",
     .arguments = "CATALOG[.SCHEMA]",
     .takes = TIDE_CLI_LIST(AT),
     .summary = "list tables and views, with --json their columns too",
     .run = tide_cli_lake_table_ls},
    {.name = "table append",
     .arguments = "CATALOG.SCHEMA.TABLE FILE",
     .takes = TIDE_CLI_LIST(FORMAT, DUCKDB_LIBRARY, COMMIT_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(LIBRARY),
     .summary = "add rows of a Parquet, CSV or JSON file, or of stdin (-), as one snapshot",
     .details = "Columns are matched by name and cast to the table's types. CSV has a first line "
                "with names. A row\n"
                "that does not fit is named, and nothing is added.",
     .run = tide_cli_lake_table_append},
    {.name = "table delete",
     .arguments = "CATALOG.SCHEMA.TABLE",
     .takes = TIDE_CLI_LIST(WHERE, ISOLATION, DUCKDB_LIBRARY, COMMIT_OPTIONS),
     .needs = TIDE_CLI_LIST(WHERE),
     .overrides = TIDE_CLI_OVERRIDES(LIBRARY),
     .summary = "delete rows that meet a condition; older snapshots keep them",
     .run = tide_cli_lake_table_delete},
    {.name = "delete",
     .arguments = "CATALOG.SCHEMA.TABLE",
     .takes = TIDE_CLI_LIST(WHERE, ISOLATION, DUCKDB_LIBRARY, COMMIT_OPTIONS),
     .needs = TIDE_CLI_LIST(WHERE),
     .overrides = TIDE_CLI_OVERRIDES(LIBRARY),
     .summary = "the same as table delete",
     .run = tide_cli_lake_table_delete},
    {.name = "view create",
     .arguments = "CATALOG.SCHEMA.VIEW SQL",
     .takes = TIDE_CLI_LIST(COMMIT_OPTIONS),
     .summary = "make a view: SQL is a SELECT",
     .run = tide_cli_lake_view_create},
    {.name = "view drop",
     .arguments = "CATALOG.SCHEMA.VIEW",
     .takes = TIDE_CLI_LIST(COMMIT_OPTIONS),
     .summary = "drop a view",
     .run = tide_cli_lake_view_drop},
    {.name = "commit",
     .arguments = "CATALOG",
     .takes = TIDE_CLI_LIST(FILE, CREATE, DUCKDB_LIBRARY, COMMIT_OPTIONS),
     .needs = TIDE_CLI_LIST(FILE),
     .overrides = TIDE_CLI_OVERRIDES(LIBRARY),
     .summary = "several operations, as one snapshot or not at all",
     .details =
         "One JSON object per line:\n"
         "    {\"op\":\"create_schema\",\"schema\":\"s\"}            drop_schema: schema, cascade\n"
         "    {\"op\":\"create_table\",\"table\":\"s.t\",\"columns\":\"a BIGINT, b VARCHAR\"}\n"
         "    {\"op\":\"append\",\"table\":\"s.t\",\"file\":\"rows.csv\"}    format: auto, "
         "parquet, "
         "csv, json\n"
         "    {\"op\":\"delete\",\"table\":\"s.t\",\"where\":\"a > 1\"}\n"
         "    {\"op\":\"drop\",\"table\":\"s.t\"}                   or schema, or view\n"
         "    rename_table: to; add_column, drop_column: column; rename_column: column, to; "
         "set_type: column,\n"
         "    type; partition: by; create_view, alter_view: view, sql\n"
         "Rows are deleted from what was there before; a table's delete comes first, and once.",
     .run = tide_cli_lake_commit},
    {.name = "query",
     .arguments = "SQL",
     .takes = TIDE_CLI_LIST(AT, CATALOG, CSV, LIMIT, TIMEOUT, DUCKDB_LIBRARY),
     .overrides = TIDE_CLI_OVERRIDES(
         LIBRARY, {.id = TIDE_CLI_CATALOG, .help = "of names without one"},
         {.id = TIDE_CLI_LIMIT,
          .fallback = "100000000",
          .help = "fail when there are more rows than this"},
         {.id = TIDE_CLI_TIMEOUT, .fallback = "1h", .help = "stop after this long"}),
     .summary = "run a query over CATALOG.SCHEMA.TABLE names, now or at a snapshot",
     .details = "SQL is one SELECT in DuckDB's language, @FILE, or - for stdin.",
     .run = cli_lake_query},
    {.name = "snapshots",
     .arguments = "CATALOG",
     .takes = TIDE_CLI_LIST(FROM, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT, .is_bare = true},
                                     {.id = TIDE_CLI_FROM, .help = "from this snapshot on"}),
     .summary = "list snapshots, oldest first: when, what, by whom",
     .run = tide_cli_lake_snapshots},
    {.name = "diff",
     .arguments = "[CATALOG] A B",
     .takes = TIDE_CLI_LIST(CATALOG),
     .summary = "what is at snapshot B and not at A (+), or at A and not at B (-)",
     .details = "A and B are numbers of snapshots, or times where the catalog is named.",
     .run = tide_cli_lake_diff},
    {.name = "expire",
     .arguments = "[CATALOG]",
     .takes = TIDE_CLI_LIST(OLDER_THAN, KEEP, CONFLICT_RETENTION, DRY_RUN),
     .summary = "forget old snapshots; never the newest, a pinned one or a fork's point",
     .details = "Without a catalog: all of them, and what dropped ones have left behind.",
     .run = tide_cli_lake_expire},
    {.name = "cleanup",
     .takes = TIDE_CLI_LIST(ORPHANS, GRACE, DRY_RUN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_GRACE,
          .is_bare = true,
          .help = "leave files alone for so long; 1h, orphans 24h, where nothing is said"}),
     .summary = "remove files that no snapshot of any catalog needs any more",
     .run = tide_cli_lake_cleanup},
    {.name = "compact",
     .arguments = "CATALOG",
     .takes = TIDE_CLI_LIST(AUTHOR, DUCKDB_LIBRARY),
     .overrides = TIDE_CLI_OVERRIDES(LIBRARY),
     .summary = "make small files larger ones; the rows stay the same",
     .run = tide_cli_lake_compact},
    {.name = "expose",
     .arguments = "CATALOG",
     .takes = TIDE_CLI_LIST(SCHEMA),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_SCHEMA, .help = "the schema of views; lake_CATALOG where it is not said"}),
     .summary = "let stock DuckLake clients read and write a catalog (PostgreSQL)",
     .details = "Makes a schema of views with DuckLake 1.0's tables. A client attaches with\n"
                "    ATTACH 'ducklake:postgres:dbname=... host=...' AS lake (METADATA_SCHEMA "
                "'lake_CATALOG')\n"
                "Run again, it brings the views up to date. docs/lake-compatibility.md says what "
                "works and what does not.",
     .run = cli_lake_expose},
    {.name = "unexpose",
     .arguments = "CATALOG",
     .summary = "take the views of expose back; the history stays",
     .run = cli_lake_unexpose},
    {.name = "export",
     .arguments = "CATALOG FILE",
     .takes = TIDE_CLI_LIST(DATA, REFERENCE, FORCE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_DATA,
          .value = "DIR",
          .help = "directory for its data files: hard links, else copies (default FILE.files)"},
         {.id = TIDE_CLI_FORCE,
          .help = "replace a file that is there, and take over a directory that is not empty"}),
     .summary = "write a catalog file (SQLite) that a stock DuckLake client reads",
     .details = "All snapshots, forks made flat, with data files of its own: what a client does "
                "there does not touch the lake.\n"
                "With --reference it names the lake's files, for readers alone. A client attaches "
                "with\n"
                "    ATTACH 'ducklake:sqlite:FILE' AS lake",
     .run = cli_lake_export},
    {.name = "verify",
     .arguments = "[CATALOG]",
     .takes = TIDE_CLI_LIST(FILES, RECORD_DIGESTS),
     .summary = "prove the history: nothing lost, doubled or changed; exit code 8 where it is",
     .details = "Recomputes every snapshot from its rows, and checks order, names, files, counters "
                "and that no two\n"
                "commits collide. Prints one line per finding. --files also reads all data and "
                "delete files and\n"
                "compares them with the digests that they had when they were written.",
     .run = verify},
    {.name = "serve",
     .takes = TIDE_CLI_LIST(LISTEN, DATA, DESKS, DUCKDB_LIBRARY, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         LIBRARY, {.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4322"},
         {.id = TIDE_CLI_DATA,
          .value = "DIR",
          .help = "make a metabase with its data files here, if the store has none"},
         {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "serve catalogs over the network",
     .details = "tidemark.lake.v1 as gRPC (with reflection and health) and as JSON or protobuf by "
                "POST to\n"
                "/package.Service/Method, on one port. Rows are written and read on this machine. "
                "Prints `ready\n"
                "listen=HOST:PORT`.",
     .run = cli_lake_serve},
    {.name = "stress",
     .takes = TIDE_CLI_LIST(CATALOGS, WRITERS, SECONDS, KILL),
     .summary = "many processes write at once; then prove that nothing was lost",
     .details =
         "Makes catalogs of its own and leaves them there. Prints commits, conflicts, retries "
         "and errors;\n"
         "ends with 8 when a commit is lost, one is there that nobody asked for, or the "
         "history breaks a rule.",
     .run = tide_cli_lake_stress},
    {.name = "stress-writer",
     .arguments = "PREFIX CATALOGS WRITER TURN SECONDS DIR",
     .summary = "one writer of a stress run; started by `lake stress`",
     .run = tide_cli_lake_stress_writer},
    {.name = NULL},
};

const tide_cli_command tide_cli_lake = {
    .name = "lake",
    .summary = "Lake: catalogs of tables whose commits never collide and never rewrite history.",
    .verbs = verbs,
};
