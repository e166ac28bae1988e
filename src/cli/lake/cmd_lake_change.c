/* cmd_lake_change.c - verbs that change a catalog: one operation each, or a file of them; one snapshot. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_canon.h"
#include "base/text/utf8.h"
#include "cli/frame/input.h"
#include "cli/lake/cmd_lake.h"

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
        TIDE_TRY(tide_cli_lake_op(&work, root, err));
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
    const numbered_op *ops = get_ops(file, &count);
    for (size_t i = 0; i < count; i++)
        tide_json_tree_free(ops[i].op);
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
    const numbered_op *ops = get_ops(file, &count);
    for (size_t i = 0; i < count; i++) {
        const tide_status status = tide_cli_lake_op(work, ops[i].op, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s, line %" PRId64,
                                     strcmp(source, "-") == 0 ? "stdin" : source, ops[i].line);
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
