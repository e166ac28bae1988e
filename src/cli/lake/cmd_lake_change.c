/* cmd_lake_change.c - verbs that change a catalog: one operation each, or a file of them; one snapshot. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_canon.h"
#include "base/text/utf8.h"
#include "cli/frame/input.h"
#include "cli/lake/cmd_lake.h"
#include "lake/types.h"

/* ---- operations ---- */

/* ---- members ---- */

/* A text that must be there. */
static tide_status take_text(const tide_json_node *op, const char *key, const char **out,
                             tide_error *err)
{
    const tide_json_node *value = tide_json_node_find(op, key);
    if (!tide_json_node_is(value, TIDE_JSON_TYPE_TEXT))
        return tide_fail(err, TIDE_E_INVALID, "\"%s\" is %s: it has to be a text", key,
                         value ? "not a text" : "missing");
    *out = tide_json_node_text(value);
    return TIDE_OK;
}

static tide_status take_truth(const tide_json_node *op, const char *key, bool *out, tide_error *err)
{
    const tide_json_node *value = tide_json_node_find(op, key);
    if (value && !tide_json_node_is(value, TIDE_JSON_TYPE_TRUE) &&
        !tide_json_node_is(value, TIDE_JSON_TYPE_FALSE))
        return tide_fail(err, TIDE_E_INVALID, "\"%s\" has to be true or false", key);
    *out = tide_json_node_is(value, TIDE_JSON_TYPE_TRUE);
    return TIDE_OK;
}

static tide_status check_catalog(const tide_cli_lake_work *work, const char *name, tide_error *err)
{
    const char *catalog = tide_lake_change_catalog(work->work.change)->name;
    if (strcasecmp(catalog, name) == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "it names catalog '%s', and this change is of catalog '%s': a change has one "
                     "catalog",
                     name, catalog);
}

/* SCHEMA or CATALOG.SCHEMA. */
static tide_status take_schema(const tide_cli_lake_work *work, const tide_json_node *op,
                               tide_lake_name *out, tide_error *err)
{
    const char *text = "";
    tide_error ignored;
    TIDE_TRY(take_text(op, "schema", &text, err));
    if (tide_lake_name_parse(out, text, 2, &ignored) == TIDE_OK)
        return check_catalog(work, out->catalog, err);
    tide_lake_name name;
    if (tide_lake_name_parse(&name, text, 1, &ignored) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "'%.100s' is not a name of the form SCHEMA", text);
    *out = (tide_lake_name){.catalog = ""};
    memcpy(out->schema, name.catalog, sizeof out->schema);
    return TIDE_OK;
}

/* SCHEMA.TABLE or CATALOG.SCHEMA.TABLE, under "table" or "view". */
static tide_status take_object(const tide_cli_lake_work *work, const tide_json_node *op,
                               const char *key, tide_lake_name *out, tide_error *err)
{
    const char *text = "";
    tide_error ignored;
    TIDE_TRY(take_text(op, key, &text, err));
    if (tide_lake_name_parse(out, text, 3, &ignored) == TIDE_OK)
        return check_catalog(work, out->catalog, err);
    tide_lake_name name;
    if (tide_lake_name_parse(&name, text, 2, &ignored) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.100s' is not a name of the form SCHEMA.TABLE or CATALOG.SCHEMA.TABLE",
                         text);
    *out = (tide_lake_name){.catalog = ""};
    memcpy(out->schema, name.catalog, sizeof out->schema);
    memcpy(out->object, name.schema, sizeof out->object);
    return TIDE_OK;
}

/* ---- schemas and views ---- */

static tide_status create_schema(tide_cli_lake_work *work, const tide_json_node *op,
                                 tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(take_schema(work, op, &name, err));
    return tide_lake_create_schema(work->work.change, name.schema, err);
}

static tide_status drop_schema(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    bool cascade = false;
    TIDE_TRY(take_schema(work, op, &name, err));
    TIDE_TRY(take_truth(op, "cascade", &cascade, err));
    return tide_lake_drop_schema(work->work.change, name.schema, cascade, err);
}

static tide_status create_view(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *sql = "";
    TIDE_TRY(take_object(work, op, "view", &name, err));
    TIDE_TRY(take_text(op, "sql", &sql, err));
    return tide_lake_create_view(work->work.change, name.schema, name.object, sql, err);
}

static tide_status alter_view(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *sql = "";
    TIDE_TRY(take_object(work, op, "view", &name, err));
    TIDE_TRY(take_text(op, "sql", &sql, err));
    return tide_lake_alter_view(work->work.change, name.schema, name.object, sql, err);
}

static tide_status drop_view(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(take_object(work, op, "view", &name, err));
    return tide_lake_drop_view(work->work.change, name.schema, name.object, err);
}

/* ---- tables ---- */

typedef struct column_list {
    tide_lake_column_def *all;
    int count;
} column_list;

static void column_list_done(column_list *list)
{
    tide_lake_column_defs_free(list->all, list->count);
}

static tide_status create_table(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *text = "";
    bool with_schema = false;
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "columns", &text, err));
    TIDE_TRY(take_truth(op, "create_schema", &with_schema, err));
    TIDE_CLEANUP(column_list_done) column_list columns = {NULL, 0};
    TIDE_TRY(tide_lake_columns_parse(text, &columns.all, &columns.count, err));
    if (with_schema) {
        const tide_status status = tide_lake_create_schema(work->work.change, name.schema, err);
        if (status != TIDE_E_EXISTS)
            TIDE_TRY(status);
    }
    return tide_lake_create_table(work->work.change, name.schema, name.object, columns.all,
                                  columns.count, err);
}

static tide_status drop_table(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(take_object(work, op, "table", &name, err));
    return tide_lake_drop_table(work->work.change, name.schema, name.object, err);
}

static tide_status drop_any(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    if (tide_json_node_find(op, "table"))
        return drop_table(work, op, err);
    return tide_json_node_find(op, "view") ? drop_view(work, op, err) : drop_schema(work, op, err);
}

static tide_status rename_table(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *to = "";
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "to", &to, err));
    return tide_lake_rename_table(work->work.change, name.schema, name.object, to, err);
}

static tide_status add_column(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *text = "";
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "column", &text, err));
    TIDE_CLEANUP(column_list_done) column_list columns = {NULL, 0};
    TIDE_TRY(tide_lake_columns_parse(text, &columns.all, &columns.count, err));
    for (int i = 0; i < columns.count; i++)
        TIDE_TRY(tide_lake_add_column(work->work.change, name.schema, name.object, &columns.all[i],
                                      err));
    return TIDE_OK;
}

static tide_status drop_column(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *column = "";
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "column", &column, err));
    return tide_lake_drop_column(work->work.change, name.schema, name.object, column, err);
}

static tide_status rename_column(tide_cli_lake_work *work, const tide_json_node *op,
                                 tide_error *err)
{
    tide_lake_name name;
    const char *column = "";
    const char *to = "";
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "column", &column, err));
    TIDE_TRY(take_text(op, "to", &to, err));
    return tide_lake_rename_column(work->work.change, name.schema, name.object, column, to, err);
}

static tide_status widen_column(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *column = "";
    const char *sql = "";
    char type[256];
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "column", &column, err));
    TIDE_TRY(take_text(op, "type", &sql, err));
    TIDE_TRY(tide_lake_type_parse(type, sql, err));
    return tide_lake_widen_column(work->work.change, name.schema, name.object, column, type, err);
}

/* ---- partitions ---- */

typedef struct partition_key {
    char column[TIDE_LAKE_NAME_MAX + 1];
    char transform[64];
} partition_key;

/* What stands from here to the parenthesis that closes the text. */
static bool read_column(const char *text, char out[TIDE_LAKE_NAME_MAX + 1])
{
    const size_t len = strlen(text);
    if (len < 2 || len > TIDE_LAKE_NAME_MAX || text[len - 1] != ')')
        return false;
    (void)snprintf(out, TIDE_LAKE_NAME_MAX + 1, "%.*s", (int)(len - 1), text);
    return true;
}

/* column, day(column), bucket(16, column). */
static bool read_key(const char *text, partition_key *out)
{
    const char *open = strchr(text, '(');
    if (strlen(text) > TIDE_LAKE_NAME_MAX || !text[0])
        return false;
    if (!open) {
        (void)snprintf(out->transform, sizeof out->transform, "identity");
        (void)snprintf(out->column, sizeof out->column, "%s", text);
        return true;
    }
    if (strncmp(text, "bucket(", 7) == 0) {
        char *end = NULL;
        const long buckets = strtol(open + 1, &end, 10);
        end += strspn(end, " ");
        (void)snprintf(out->transform, sizeof out->transform, "bucket(%ld)", buckets);
        return *end == ',' && read_column(end + 1 + strspn(end + 1, " "), out->column);
    }
    (void)snprintf(out->transform, sizeof out->transform, "%.*s", (int)(open - text), text);
    return read_column(open + 1, out->column);
}

static tide_status parse_key(const char *text, partition_key *out, tide_error *err)
{
    if (read_key(text, out))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "'%.100s' is not a partition: COLUMN, year(COLUMN), month(COLUMN), "
                     "day(COLUMN), hour(COLUMN) or bucket(N, COLUMN)",
                     text);
}

static tide_status partition_table(tide_cli_lake_work *work, const tide_json_node *op,
                                   tide_error *err)
{
    tide_lake_name name;
    partition_key keys[TIDE_LAKE_PARTITION_KEYS_MAX];
    const char *columns[TIDE_LAKE_PARTITION_KEYS_MAX];
    const char *transforms[TIDE_LAKE_PARTITION_KEYS_MAX];
    const tide_json_node *by = tide_json_node_find(op, "by");
    TIDE_TRY(take_object(work, op, "table", &name, err));
    const size_t count = tide_json_node_count(by);
    if (!tide_json_node_is(by, TIDE_JSON_TYPE_ARRAY) || count > TIDE_LAKE_PARTITION_KEYS_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "\"by\" has to be an array of at most %d texts; [] ends partitions",
                         TIDE_LAKE_PARTITION_KEYS_MAX);
    for (size_t i = 0; i < count; i++) {
        const tide_json_node *item = tide_json_node_at(by, i);
        if (!tide_json_node_is(item, TIDE_JSON_TYPE_TEXT))
            return tide_fail(err, TIDE_E_INVALID, "\"by\" holds something that is not a text");
        TIDE_TRY(parse_key(tide_json_node_text(item), &keys[i], err));
        columns[i] = keys[i].column;
        transforms[i] = keys[i].transform;
    }
    return tide_lake_partition_table(work->work.change, name.schema, name.object, columns,
                                     transforms, (int)count, err);
}

/* ---- rows ---- */

static tide_status append(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    static const char *const formats[] = {"auto", "parquet", "csv", "json"};
    tide_lake_name name;
    const char *file = "";
    const char *format = "auto";
    size_t which = 0;
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "file", &file, err));
    if (tide_json_node_find(op, "format"))
        TIDE_TRY(take_text(op, "format", &format, err));
    while (which < 4 && strcmp(formats[which], format) != 0)
        which++;
    if (which == 4)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.50s' is not a format: choose auto, parquet, csv or json", format);
    if (work->reads_stdin && strcmp(file, "-") == 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "standard input has the operations: name a file for the rows");
    return tide_cli_lake_append(work, name.schema, name.object, file, (tide_lake_format)which, err);
}

static tide_status delete_rows(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    tide_lake_name name;
    const char *isolation = "";
    tide_lake_delete request = {.schema = name.schema, .table = name.object};
    TIDE_TRY(take_object(work, op, "table", &name, err));
    TIDE_TRY(take_text(op, "where", &request.condition, err));
    if (tide_json_node_find(op, "isolation"))
        TIDE_TRY(take_text(op, "isolation", &isolation, err));
    TIDE_TRY(tide_lake_isolation_parse(isolation, &request.isolation, err));
    return tide_lake_work_delete(&work->work, &request, err);
}

/* ---- the table ---- */

typedef struct op_row {
    const char *name;
    const char *members; /* besides op, each between blanks */
    tide_status (*run)(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err);
} op_row;

static const op_row ops[] = {
    {"create_schema", " schema ", create_schema},
    {"drop_schema", " schema cascade ", drop_schema},
    {"create_table", " table columns create_schema ", create_table},
    {"drop_table", " table ", drop_table},
    {"drop", " table view schema cascade ", drop_any},
    {"rename_table", " table to ", rename_table},
    {"add_column", " table column ", add_column},
    {"drop_column", " table column ", drop_column},
    {"rename_column", " table column to ", rename_column},
    {"set_type", " table column type ", widen_column},
    {"partition", " table by ", partition_table},
    {"create_view", " view sql ", create_view},
    {"alter_view", " view sql ", alter_view},
    {"drop_view", " view ", drop_view},
    {"append", " table file format ", append},
    {"delete", " table where isolation ", delete_rows},
};

static tide_status check_members(const op_row *row, const tide_json_node *op, tide_error *err)
{
    char word[64];
    for (const tide_json_node *member = op->first; member; member = member->next) {
        const char *key = member->key.ptr;
        (void)snprintf(word, sizeof word, " %.60s ", key);
        if (strcmp(key, "op") != 0 && !strstr(row->members, word))
            return tide_fail(err, TIDE_E_INVALID, "%s has no \"%.60s\": it takes%s", row->name, key,
                             row->members);
    }
    return TIDE_OK;
}

static tide_status fail_unknown(const char *name, tide_error *err)
{
    char list[512] = "";
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const size_t len = strlen(list);
        (void)snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? ", " : "", ops[i].name);
    }
    return tide_fail(err, TIDE_E_INVALID, "'%.60s' is not an operation: there are %s", name, list);
}

static tide_status cli_lake_op(tide_cli_lake_work *work, const tide_json_node *op, tide_error *err)
{
    const char *name = "";
    TIDE_TRY(take_text(op, "op", &name, err));
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].name, name) == 0) {
            TIDE_TRY(check_members(&ops[i], op, err));
            return ops[i].run(work, op, err);
        }
    return fail_unknown(name, err);
}

enum { OPS_BYTES_MAX = 64 << 20 }; /* of the list of operations of one commit */

/* ---- one operation ---- */

/* An operation under way, as the line of `lake commit` that would say the same. */
typedef struct op_line {
    tide_buffer text;
    tide_json json;
    const char *broken; /* an argument that is not UTF-8 */
} op_line;

static void op_line_done(op_line *op)
{
    tide_buffer_done(&op->text);
}

static void put_text(op_line *op, const char *key, const char *text)
{
    if (!tide_utf8_valid(tide_view_of(text)))
        op->broken = text;
    tide_json_key(&op->json, key);
    tide_json_text(&op->json, text);
}

static void put_truth(op_line *op, const char *key, bool value)
{
    tide_json_key(&op->json, key);
    tide_json_bool(&op->json, value);
}

/* object_key: what the first argument of the command line names. */
static void begin_op(op_line *op, const tide_cli *cli, const char *name, const char *object_key)
{
    *op = (op_line){.broken = NULL};
    tide_buffer_init(&op->text, TIDE_CLI_INPUT_MAX);
    tide_json_init(&op->json, &op->text);
    tide_json_object_begin(&op->json);
    put_text(op, "op", name);
    put_text(op, object_key, cli->args[0]);
}

/* catalog: of a name with so many parts. */
static tide_status run_one(tide_cli *cli, op_line *op, int parts, tide_cli_lake_counts counts,
                           tide_error *err)
{
    if (op->broken)
        return tide_fail(err, TIDE_E_INVALID, "'%s' is not UTF-8", op->broken);
    tide_json_object_end(&op->json);
    if (tide_json_finish(&op->json) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request = tide_buffer_of(TIDE_JSON_CANONICAL_MAX);
    TIDE_TRY(tide_json_canonical(tide_buffer_view(&op->text), &request, err));
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = NULL;
    TIDE_TRY(tide_json_tree_read(&root, tide_buffer_view(&op->text), err));
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], parts, err));
    TIDE_CLEANUP(tide_cli_lake_work_done) tide_cli_lake_work work = {.cli = cli};
    TIDE_TRY(tide_cli_lake_begin(&work, name.catalog, tide_buffer_view(&request), err));
    if (!work.work.is_answered)
        TIDE_TRY(cli_lake_op(&work, root, err));
    return tide_cli_lake_finish(&work, counts, err);
}

tide_status tide_cli_lake_schema_create(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "create_schema", "schema");
    return run_one(cli, &op, 2, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_schema_drop(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "drop_schema", "schema");
    put_truth(&op, "cascade", tide_cli_is_given(cli, TIDE_CLI_CASCADE));
    return run_one(cli, &op, 2, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_create(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "create_table", "table");
    put_text(&op, "columns", cli->args[1]);
    put_truth(&op, "create_schema", tide_cli_is_given(cli, TIDE_CLI_CREATE));
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_drop(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "drop_table", "table");
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_view_create(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "create_view", "view");
    put_text(&op, "sql", cli->args[1]);
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_view_drop(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "drop_view", "view");
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_append(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "append", "table");
    put_text(&op, "file", cli->args[1]);
    put_text(&op, "format", tide_cli_text(cli, TIDE_CLI_FORMAT));
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_ADDED, err);
}

tide_status tide_cli_lake_table_delete(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "delete", "table");
    put_text(&op, "where", tide_cli_text(cli, TIDE_CLI_WHERE));
    put_text(&op, "isolation", tide_cli_text(cli, TIDE_CLI_ISOLATION));
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_DELETED, err);
}

/* ---- table alter ---- */

typedef struct alter_form {
    const char *action;
    const char *op;
    const char *values[2]; /* what the words behind the action are */
    const char *form;
} alter_form;

static const alter_form alter_forms[] = {
    {"add", "add_column", {"column", NULL}, "add \"COLUMN TYPE [NOT NULL] [DEFAULT VALUE]\""},
    {"drop", "drop_column", {"column", NULL}, "drop COLUMN"},
    {"rename", "rename_table", {"to", NULL}, "rename NEW-NAME"},
    {"rename-column", "rename_column", {"column", "to"}, "rename-column COLUMN NEW-NAME"},
    {"type", "set_type", {"column", "type"}, "type COLUMN TYPE"},
};

static tide_status alter_by_form(tide_cli *cli, const alter_form *form, tide_error *err)
{
    const int wanted = form->values[1] ? 2 : 1;
    if (cli->arg_count != 2 + wanted)
        return tide_fail(err, TIDE_E_INVALID, "'%s' takes %d %s: %s", form->action, wanted,
                         wanted == 1 ? "word" : "words", form->form);
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, form->op, "table");
    for (int i = 0; i < wanted; i++)
        put_text(&op, form->values[i], cli->args[2 + i]);
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

static tide_status alter_partition(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(op_line_done) op_line op;
    begin_op(&op, cli, "partition", "table");
    tide_json_key(&op.json, "by");
    tide_json_array_begin(&op.json);
    for (int i = 2; i < cli->arg_count; i++) {
        if (!tide_utf8_valid(tide_view_of(cli->args[i])))
            op.broken = cli->args[i];
        tide_json_text(&op.json, cli->args[i]);
    }
    tide_json_array_end(&op.json);
    return run_one(cli, &op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_alter(tide_cli *cli, tide_error *err)
{
    const char *action = cli->args[1];
    if (strcmp(action, "partition") == 0)
        return alter_partition(cli, err);
    for (size_t i = 0; i < sizeof alter_forms / sizeof alter_forms[0]; i++)
        if (strcmp(alter_forms[i].action, action) == 0)
            return alter_by_form(cli, &alter_forms[i], err);
    return tide_fail(err, TIDE_E_INVALID,
                     "'%.50s' is not an alteration: there are add, drop, rename, rename-column, "
                     "type and partition",
                     action);
}

/* ---- several in one snapshot ---- */

typedef struct numbered_op {
    tide_json_node *op;
    int64_t line;
} numbered_op;

typedef struct op_file {
    tide_buffer ops; /* numbered_op */
    tide_sha256 sha;
    uint8_t hash[TIDE_SHA256_LEN]; /* of the lines */
} op_file;

static const numbered_op *get_ops(const op_file *file, size_t *count)
{
    *count = file->ops.len / sizeof(numbered_op);
    return (const numbered_op *)(const void *)file->ops.ptr;
}

static void op_file_done(op_file *file)
{
    size_t count = 0;
    const numbered_op *list = get_ops(file, &count);
    for (size_t i = 0; i < count; i++)
        tide_json_tree_free(list[i].op);
    tide_buffer_done(&file->ops);
    tide_sha256_done(&file->sha);
}

static tide_status read_ops(const char *source, op_file *out, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines;
    TIDE_TRY(tide_cli_lines_init(&lines, source, TIDE_CLI_INPUT_MAX, err));
    TIDE_TRY(tide_sha256_init(&out->sha, err));
    for (;;) {
        const tide_json_node *object = NULL;
        const tide_status status = tide_cli_lines_next(&lines, &object, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_sha256_finish(&out->sha, out->hash, err);
        TIDE_TRY(tide_sha256_add(&out->sha, tide_buffer_view(&lines.line), err));
        TIDE_TRY(tide_sha256_add(&out->sha, tide_view_of("\n"), err));
        const numbered_op op = {.op = lines.object, .line = lines.number};
        if (tide_buffer_append(&out->ops, &op, sizeof op) < TIDE_OK)
            return tide_no_memory(err);
        lines.object = NULL; /* is the list's now */
    }
}

static tide_status run_ops(tide_cli_lake_work *work, const op_file *file, const char *source,
                           tide_error *err)
{
    size_t count = 0;
    const numbered_op *list = get_ops(file, &count);
    for (size_t i = 0; i < count; i++) {
        const tide_status status = cli_lake_op(work, list[i].op, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s, line %" PRId64,
                                     strcmp(source, "-") == 0 ? "stdin" : source, list[i].line);
    }
    return TIDE_OK;
}

tide_status tide_cli_lake_commit(tide_cli *cli, tide_error *err)
{
    const char *source = tide_cli_text(cli, TIDE_CLI_FILE);
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(op_file_done) op_file file = {.ops = tide_buffer_of(OPS_BYTES_MAX)};
    TIDE_TRY(read_ops(source, &file, err));
    TIDE_CLEANUP(tide_cli_lake_work_done)
    tide_cli_lake_work work = {.cli = cli, .reads_stdin = strcmp(source, "-") == 0};
    TIDE_TRY(tide_cli_lake_begin(&work, name.catalog,
                                 tide_view_bytes((const char *)file.hash, sizeof file.hash), err));
    if (!work.work.is_answered)
        TIDE_TRY(run_ops(&work, &file, source, err));
    return tide_cli_lake_finish(&work, TIDE_CLI_COUNT_BOTH, err);
}
