/* cmd_lake_change.c - verbs that change a catalog: one operation each, or a file of them; one snapshot. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/lake/cmd_lake.h"

static void drop_json(json_t **value)
{
    json_decref(*value);
}

static void free_text(char **text)
{
    free(*text);
}

/* ---- one operation ---- */

/* catalog: of a name with so many parts. op is consumed, NULL: no memory. */
static tide_status run_one(tide_cli *cli, json_t *op, int parts, tide_cli_lake_counts counts,
                           tide_error *err)
{
    TIDE_CLEANUP(drop_json) json_t *owned = op;
    TIDE_CLEANUP(free_text)
    char *request = op ? json_dumps(op, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!request)
        return tide_fail(err, TIDE_E_INVALID, "the words are not UTF-8");
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], parts, err));
    TIDE_CLEANUP(tide_cli_lake_work_done) tide_cli_lake_work work = {.cli = cli};
    TIDE_TRY(tide_cli_lake_begin(&work, name.catalog, tide_view_of(request), err));
    if (!work.work.is_answered)
        TIDE_TRY(tide_cli_lake_op(&work, owned, err));
    return tide_cli_lake_finish(&work, counts, err);
}

tide_status tide_cli_lake_schema_create(tide_cli *cli, tide_error *err)
{
    return run_one(cli, json_pack("{ss,ss}", "op", "create_schema", "schema", cli->args[0]), 2,
                   TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_schema_drop(tide_cli *cli, tide_error *err)
{
    return run_one(cli,
                   json_pack("{ss,ss,sb}", "op", "drop_schema", "schema", cli->args[0], "cascade",
                             (int)tide_cli_is_given(cli, TIDE_CLI_CASCADE)),
                   2, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_create(tide_cli *cli, tide_error *err)
{
    return run_one(cli,
                   json_pack("{ss,ss,ss,sb}", "op", "create_table", "table", cli->args[0],
                             "columns", cli->args[1], "create_schema",
                             (int)tide_cli_is_given(cli, TIDE_CLI_CREATE)),
                   3, TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_drop(tide_cli *cli, tide_error *err)
{
    return run_one(cli, json_pack("{ss,ss}", "op", "drop_table", "table", cli->args[0]), 3,
                   TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_view_create(tide_cli *cli, tide_error *err)
{
    return run_one(
        cli,
        json_pack("{ss,ss,ss}", "op", "create_view", "view", cli->args[0], "sql", cli->args[1]), 3,
        TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_view_drop(tide_cli *cli, tide_error *err)
{
    return run_one(cli, json_pack("{ss,ss}", "op", "drop_view", "view", cli->args[0]), 3,
                   TIDE_CLI_COUNT_NOTHING, err);
}

tide_status tide_cli_lake_table_append(tide_cli *cli, tide_error *err)
{
    return run_one(cli,
                   json_pack("{ss,ss,ss,ss}", "op", "append", "table", cli->args[0], "file",
                             cli->args[1], "format", tide_cli_text(cli, TIDE_CLI_FORMAT)),
                   3, TIDE_CLI_COUNT_ADDED, err);
}

tide_status tide_cli_lake_table_delete(tide_cli *cli, tide_error *err)
{
    return run_one(cli,
                   json_pack("{ss,ss,ss}", "op", "delete", "table", cli->args[0], "where",
                             tide_cli_text(cli, TIDE_CLI_WHERE)),
                   3, TIDE_CLI_COUNT_DELETED, err);
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
    json_t *op = json_pack("{ss,ss,ss}", "op", form->op, "table", cli->args[0], form->values[0],
                           cli->args[2]);
    if (op && wanted == 2 &&
        json_object_set_new(op, form->values[1], json_string(cli->args[3])) != 0) {
        json_decref(op);
        op = NULL;
    }
    return run_one(cli, op, 3, TIDE_CLI_COUNT_NOTHING, err);
}

static tide_status alter_partition(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(drop_json) json_t *by = json_array();
    for (int i = 2; by && i < cli->arg_count; i++)
        if (json_array_append_new(by, json_string(cli->args[i])) != 0)
            return tide_fail(err, TIDE_E_INVALID, "'%s' is not UTF-8", cli->args[i]);
    return run_one(cli, json_pack("{ss,ss,sO}", "op", "partition", "table", cli->args[0], "by", by),
                   3, TIDE_CLI_COUNT_NOTHING, err);
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

typedef struct op_file {
    json_t *ops;     /* objects */
    json_t *numbers; /* of their lines */
    tide_sha256 sha;
    uint8_t hash[TIDE_SHA256_LEN]; /* of the lines */
} op_file;

static void op_file_done(op_file *file)
{
    json_decref(file->ops);
    json_decref(file->numbers);
    tide_sha256_done(&file->sha);
}

static tide_status read_ops(const char *source, op_file *out, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines;
    TIDE_TRY(tide_cli_lines_init(&lines, source, TIDE_CLI_INPUT_MAX, err));
    TIDE_TRY(tide_sha256_init(&out->sha, err));
    out->ops = json_array();
    out->numbers = json_array();
    for (;;) {
        json_t *object = NULL;
        const tide_status status = tide_cli_lines_next(&lines, &object, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_sha256_finish(&out->sha, out->hash, err);
        TIDE_TRY(tide_sha256_add(&out->sha, tide_buffer_view(&lines.line), err));
        TIDE_TRY(tide_sha256_add(&out->sha, tide_view_of("\n"), err));
        if (json_array_append(out->ops, object) != 0 ||
            json_array_append_new(out->numbers, json_integer(lines.number)) != 0)
            return tide_no_memory(err);
    }
}

static tide_status run_ops(tide_cli_lake_work *work, const op_file *file, const char *source,
                           tide_error *err)
{
    for (size_t i = 0; i < json_array_size(file->ops); i++) {
        const tide_status status = tide_cli_lake_op(work, json_array_get(file->ops, i), err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s, line %d",
                                     strcmp(source, "-") == 0 ? "stdin" : source,
                                     (int)json_integer_value(json_array_get(file->numbers, i)));
    }
    return TIDE_OK;
}

tide_status tide_cli_lake_commit(tide_cli *cli, tide_error *err)
{
    const char *source = tide_cli_text(cli, TIDE_CLI_FILE);
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(op_file_done) op_file file = {.ops = NULL};
    TIDE_TRY(read_ops(source, &file, err));
    TIDE_CLEANUP(tide_cli_lake_work_done)
    tide_cli_lake_work work = {.cli = cli, .reads_stdin = strcmp(source, "-") == 0};
    TIDE_TRY(tide_cli_lake_begin(&work, name.catalog,
                                 tide_view_bytes((const char *)file.hash, sizeof file.hash), err));
    if (!work.work.is_answered)
        TIDE_TRY(run_ops(&work, &file, source, err));
    return tide_cli_lake_finish(&work, TIDE_CLI_COUNT_BOTH, err);
}
