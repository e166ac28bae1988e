/* cmd_store.c - tidemark store info|check|migrate|backup|epochs|new-epoch. */
#include "cli/frame/cli.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "cli/frame/interrupt.h"
#include "runtime/store_verify.h"
#include "store/identity.h"
#include "store/sqlite/sqlite_file.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    VERSION_SIZE = 64,
    FACT_MAX = 64,
    FINDING_MAX = 1000, /* findings that are told; all are counted */
    WHY_MAX = 240,      /* the history may add which epoch it replaces */
};

static tide_status find_version(tide_tx *tx, void *arg, tide_error *err)
{
    char *version = arg;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_SCHEMA_LIST, err);
    TIDE_EACH(tide_query_step(query, err)) {
        (void)tide_query_col_i64(query);
        const tide_view text = tide_query_col_text(query);
        (void)snprintf(version, VERSION_SIZE, "%.*s", (int)text.len, text.ptr);
    }
    return TIDE_OK;
}

static tide_status read_version(char version[VERSION_SIZE], tide_store *store, tide_error *err)
{
    version[0] = '\0';
    return tide_store_read_local(store, find_version, version, err);
}

/* Also a server that lacks an epoch which was seen before: to look at it, or to begin one above. */
static tide_status open_any(tide_cli *cli, tide_store **out, tide_store_mode mode, tide_error *err)
{
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = mode, .is_inline = true,
                                  .is_mismatch_allowed = true};
    tide_cli_store_options(cli, &options);
    return tide_store_open(out, tide_cli_text(cli, TIDE_CLI_STORE), &options, err);
}

/* On a primary that returned, or an older copy. */
static void report_missing_epoch(tide_store *store)
{
    tide_identity missing;
    if (tide_identity_missing(store, &missing))
        tide_cli_print(stderr,
                       "warning: epoch %" PRId64 " (%s) was seen before and this server lacks it; "
                       "connect to the server that has it, or run 'tidemark store new-epoch --why "
                       "TEXT' to continue on this one\n",
                       missing.epoch, missing.epoch_id);
}

/* ---- info ---- */

typedef enum fact_group { FACT_TOP, FACT_DURABILITY, FACT_FILE } fact_group;

typedef struct fact {
    char *name;
    char *value;
    fact_group group;
} fact;

typedef struct facts {
    fact rows[FACT_MAX];
    int count;
} facts;

static void free_facts(facts *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->rows[i].name);
        free(list->rows[i].value);
    }
}

/* What a store says about itself is about durability, with these exceptions. */
static fact_group find_group(const char *name)
{
    static const char *const top[] = {"engine",      "engine_version", "schema_version",
                                      "commit_mode", "pooler",         "is_standby"};
    static const char *const file[] = {"page_size", "page_count", "freelist_count"};
    for (size_t i = 0; i < sizeof top / sizeof top[0]; i++)
        if (strcmp(name, top[i]) == 0)
            return FACT_TOP;
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (strcmp(name, file[i]) == 0)
            return FACT_FILE;
    return FACT_DURABILITY;
}

static void add_fact(void *arg, const char *name, const char *value)
{
    facts *list = arg;
    if (list->count == FACT_MAX)
        return;
    fact *row = &list->rows[list->count];
    *row = (fact){.name = strdup(name), .value = strdup(value), .group = find_group(name)};
    if (row->name && row->value) {
        list->count++;
        return;
    }
    free(row->name);
    free(row->value);
}

static void add_missing(facts *list, const char *name, const char *value)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->rows[i].name, name) == 0)
            return;
    add_fact(list, name, value);
}

/* A decimal number, and not the name of a version. */
static bool is_number(const fact *row)
{
    const size_t len = strlen(row->value);
    return len > 0 && len < 19 && strspn(row->value, "0123456789") == len &&
           (len == 1 || row->value[0] != '0') && !strstr(row->name, "version");
}

static void put_group(tide_cli_output *out, const facts *list, fact_group group, const char *key)
{
    if (key)
        tide_cli_json_object_begin(out, key);
    for (int i = 0; i < list->count; i++)
        if (list->rows[i].group == group && strncmp(list->rows[i].name, "is_", 3) == 0)
            tide_cli_json_bool(out, list->rows[i].name, strcmp(list->rows[i].value, "true") == 0);
        else if (list->rows[i].group == group && is_number(&list->rows[i]))
            tide_cli_json_i64(out, list->rows[i].name, strtoll(list->rows[i].value, NULL, 10));
        else if (list->rows[i].group == group)
            tide_cli_json_text(out, list->rows[i].name, list->rows[i].value);
    if (key)
        tide_cli_json_object_end(out);
}

static void list_group(tide_cli_output *out, const facts *list, fact_group group)
{
    for (int i = 0; i < list->count; i++)
        if (list->rows[i].group == group)
            tide_cli_print(out->file, "%-26s %s\n", list->rows[i].name, list->rows[i].value);
}

static tide_status print_info(tide_cli_output *out, const char *url, const tide_identity *identity,
                              const facts *list, tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%-26s %s\n", "store", url);
        list_group(out, list, FACT_TOP);
        tide_cli_print(out->file, "%-26s %s\n", "session_id", identity->session_id);
        tide_cli_print(out->file, "%-26s %" PRId64 " (%s)\n", "epoch", identity->epoch,
                       identity->epoch_id);
        list_group(out, list, FACT_FILE);
        tide_cli_print_styled(out, TIDE_CLI_BOLD, "durability");
        (void)fputc('\n', out->file);
        list_group(out, list, FACT_DURABILITY);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "store", url);
    put_group(out, list, FACT_TOP, NULL);
    tide_cli_json_text(out, "session_id", identity->session_id);
    tide_cli_json_i64(out, "epoch", identity->epoch);
    tide_cli_json_text(out, "epoch_id", identity->epoch_id);
    put_group(out, list, FACT_DURABILITY, "durability");
    put_group(out, list, FACT_FILE, "file");
    return tide_cli_json_end(out, err);
}

static tide_status info(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(open_any(cli, &store, TIDE_STORE_AS_IS, err));
    TIDE_CLEANUP(free_facts) facts list = {.count = 0};
    char version[VERSION_SIZE];
    tide_identity identity;
    TIDE_TRY(tide_store_describe(store, add_fact, &list, err));
    TIDE_TRY(read_version(version, store, err));
    add_missing(&list, "schema_version", version);
    add_missing(&list, "commit_mode", "synchronous");
    add_missing(&list, "pooler", "none");
    add_missing(&list, "is_standby", "false");
    tide_store_identity(store, &identity);
    report_missing_epoch(store);
    return print_info(&cli->out, tide_store_name(store), &identity, &list, err);
}

/* ---- check ---- */

typedef struct findings {
    tide_cli_output *out;
    int64_t count;
    tide_values_checked values;
} findings;

static void tell_finding(void *arg, const char *text)
{
    findings *list = arg;
    if (list->count++ >= FINDING_MAX)
        return;
    if (list->out->is_json)
        tide_cli_json_text(list->out, NULL, text);
    else
        tide_cli_print(list->out->file, "%s\n", text);
}

static tide_status look_for_damage(tide_cli *cli, findings *list, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    return tide_store_verify_all(store, tell_finding, list, &list->values, err);
}

/* With --json a damaged store is an answer too; any other failure leaves stdout empty. */
static tide_status verify(tide_cli *cli, tide_error *err)
{
    findings list = {.out = &cli->out};
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_array_begin(&cli->out, "findings");
    }
    tide_error problem = {.status = TIDE_OK};
    const tide_status status = look_for_damage(cli, &list, &problem);
    if (status < TIDE_OK) {
        if (status == TIDE_E_DAMAGED && list.count == 0)
            tell_finding(&list, problem.text);
        TIDE_IGNORE(tide_fail(err, status, "%s", problem.text));
    }
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    if (cli->out.is_json) {
        tide_cli_json_array_end(&cli->out);
        tide_cli_json_i64(&cli->out, "count", list.count);
        tide_cli_json_text(&cli->out, "status", status == TIDE_OK ? "sound" : "damaged");
        tide_cli_json_i64(&cli->out, "checked", list.values.checked);
        tide_cli_json_i64(&cli->out, "unchecked", list.values.unchecked);
        tide_cli_json_i64(&cli->out, "damaged", list.values.damaged);
        TIDE_TRY(tide_cli_json_end(&cli->out, err));
    } else if (status == TIDE_OK) {
        (void)fputs("sound\n", cli->out.file);
    }
    return status;
}

/* ---- migrate ---- */

static tide_status migrate(tide_cli *cli, tide_error *err)
{
    char from[VERSION_SIZE];
    char to[VERSION_SIZE];
    {
        TIDE_CLI_STORE(before, cli, TIDE_STORE_AS_IS, err);
        TIDE_TRY(read_version(from, before, err));
    }
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(read_version(to, store, err));
    const bool is_changed = strcmp(from, to) != 0;
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "from", from);
        tide_cli_json_text(&cli->out, "to", to);
        tide_cli_json_bool(&cli->out, "migrated", is_changed);
        return tide_cli_json_end(&cli->out, err);
    }
    if (is_changed)
        tide_cli_print(cli->out.file, "schema %s is now %s\n", from, to);
    else
        tide_cli_print(cli->out.file, "schema %s is current; nothing to do\n", to);
    return TIDE_OK;
}

/* ---- backup ---- */

static tide_status backup(tide_cli *cli, tide_error *err)
{
    const char *path = cli->args[0];
    if (!*path)
        return tide_fail(err, TIDE_E_INVALID, "FILE is empty; name the file to write");
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    char partial[PATH_MAX];
    if (!tide_sqlite_backup_part(path, partial, sizeof partial))
        return tide_fail(err, TIDE_E_INVALID, "the path %.64s... is too long", path);
    tide_cli_interrupt_partial(partial);
    const tide_status status = tide_store_backup(store, path, err);
    tide_cli_interrupt_partial(NULL);
    TIDE_TRY(status);
    struct stat made = {0};
    (void)stat(path, &made);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: %" PRId64 " bytes\n", path, (int64_t)made.st_size);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "path", path);
    tide_cli_json_i64(&cli->out, "bytes", (int64_t)made.st_size);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- epochs ---- */

static tide_status list_epoch(void *arg, const tide_epoch *epoch, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    if (out->is_json) {
        tide_cli_json_begin(out);
        tide_cli_json_i64(out, "epoch", epoch->epoch);
        tide_cli_json_text(out, "epoch_id", epoch->epoch_id);
        tide_cli_json_time(out, "started_at", epoch->started_at_us);
        tide_cli_json_text(out, "reason", epoch->reason);
        tide_cli_json_text(out, "evidence", epoch->evidence);
        return tide_cli_json_end(out, err);
    }
    char at[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(at, epoch->started_at_us);
    tide_cli_table_number(table, epoch->epoch);
    tide_cli_table_cell(table, at);
    tide_cli_table_cell(table, epoch->reason);
    tide_cli_table_cell(table, epoch->evidence);
    return TIDE_OK;
}

static tide_status epochs(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(open_any(cli, &store, TIDE_STORE_AS_IS, err));
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "EPOCH#,STARTED,REASON,EVIDENCE");
    const tide_status status = tide_identity_history(store, list_epoch, &table, err);
    report_missing_epoch(store);
    return tide_cli_table_end(&table, status, err);
}

static tide_status new_epoch(tide_cli *cli, tide_error *err)
{
    const char *why = tide_cli_text(cli, TIDE_CLI_WHY);
    if (!*why || strlen(why) > WHY_MAX || !tide_utf8_valid(tide_view_of(why)))
        return tide_fail(err, TIDE_E_INVALID, "--why wants 1 to %d bytes of UTF-8 text",
                         (int)WHY_MAX);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    tide_identity identity;
    TIDE_TRY(open_any(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_identity_raise_above(store, tide_cli_number(cli, TIDE_CLI_ABOVE), "operator", why,
                                       &identity, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "epoch %" PRId64 " (%s)\n", identity.epoch,
                       identity.epoch_id);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "epoch", identity.epoch);
    tide_cli_json_text(&cli->out, "epoch_id", identity.epoch_id);
    return tide_cli_json_end(&cli->out, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "info",
     .summary = "print engine, identity, schema and every durability setting",
     .run = info},
    {.name = "verify",
     .summary = "read everything and look for damage",
     .details = "Ends with 0 when the store is sound, and with 8 after listing what is damaged.",
     .run = verify},
    {.name = "migrate",
     .summary = "bring an older schema up to this program's",
     .details = "All missing steps are made in one transaction. A schema newer than this program "
                "is refused.",
     .run = migrate},
    {.name = "backup",
     .arguments = "FILE",
     .summary = "write a consistent copy while others go on working",
     .details = "SQLite only. FILE must not exist; it appears when it is complete and synced. "
                "Opening the\n"
                "copy begins a new epoch, so that its numbers are never taken for the original's.",
     .run = backup},
    {.name = "epochs", .summary = "list the epochs and why each began", .run = epochs},
    {.name = "new-epoch",
     .takes = TIDE_CLI_LIST(WHY, ABOVE),
     .needs = TIDE_CLI_LIST(WHY),
     .summary = "begin a new epoch: history before it may have been cut",
     .details =
         "For a cut that the store cannot notice by itself, such as a volume put back to an "
         "earlier\n"
         "state. A program that has the store open sees it in its next transaction. The new epoch "
         "is above\n"
         "every epoch that this host has seen of the store, and above --above.",
     .run = new_epoch},
    {.name = NULL},
};

const tide_cli_command tide_cli_store = {
    .name = "store",
    .summary = "Look after a store: describe, check, migrate, back up.",
    .verbs = verbs,
};
