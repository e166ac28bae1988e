/* cmd_replica_conflicts.c - tidemark replica conflicts, conflicts show|take|dismiss. */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json_tree.h"
#include "cli/print/message_output.h"
#include "cli/replica/cmd_replica.h"
#include "replica/value.h"
#include "services/replica/status_service.h"

enum { VALUE_TEXT_MAX = 1 << 30 };

/* ---- one entry ---- */

static tide_status put_value(tide_buffer *out, const tide_sql_value *value, tide_error *err)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_value_json(&json, value);
    return tide_json_finish(&json) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static void print_view(const tide_cli *cli, const char *before, tide_view text)
{
    if (text.len > 0)
        tide_cli_print(cli->out.file, "%s%.*s", before, (int)text.len, text.ptr);
}

/* One line, as people read it: "ID todos a: write title "bread" (of NODE); the table shows "milk"". */
static void print_line(const tide_cli *cli, const tide_conflict *conflict, tide_view value)
{
    char node[TIDE_CLI_NODE_SIZE];
    tide_cli_replica_node(node, &conflict->stamp.node);
    tide_cli_print(cli->out.file, "%s ", conflict->id);
    print_view(cli, "", tide_view_of(conflict->table));
    print_view(cli, " ", conflict->record_id);
    tide_cli_print(cli->out.file, ": %s", conflict->reason);
    print_view(cli, " ", tide_view_of(conflict->column));
    print_view(cli, " ", value);
    if (conflict->stamp.time)
        tide_cli_print(cli->out.file, " (of %s)", node);
    print_view(cli, " ", conflict->data);
    print_view(cli, "; the table shows ", conflict->ours);
    tide_cli_print(cli->out.file, "\n");
}

static tide_status print_conflict(void *arg, const tide_conflict *conflict, tide_error *err)
{
    tide_cli *cli = arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer value = tide_buffer_of(VALUE_TEXT_MAX);
    if (cli->out.is_json) {
        TIDE_TRY(tide_look_conflict(conflict, &value, err));
        return tide_cli_print_encoded(&cli->out, &tidemark__replica__v1__conflict__descriptor,
                                      tide_buffer_view(&value), err);
    }
    if (conflict->column[0] != '\0')
        TIDE_TRY(put_value(&value, &conflict->value, err));
    print_line(cli, conflict, tide_buffer_view(&value));
    return TIDE_OK;
}

tide_status tide_cli_replica_conflicts(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    return tide_node_conflicts(node, print_conflict, cli, err);
}

/* ---- show ---- */

typedef struct search {
    tide_cli *cli;
    const char *id;
    bool is_found;
} search;

static tide_status print_found(void *arg, const tide_conflict *conflict, tide_error *err)
{
    search *s = arg;
    if (strcmp(conflict->id, s->id) != 0)
        return TIDE_OK;
    s->is_found = true;
    TIDE_TRY(print_conflict(s->cli, conflict, err));
    return TIDE_NONE;
}

tide_status tide_cli_replica_conflicts_show(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    search s = {.cli = cli, .id = cli->args[1]};
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    TIDE_TRY(tide_node_conflicts(node, print_found, &s, err));
    return s.is_found ? TIDE_OK : tide_fail(err, TIDE_E_NOT_FOUND, "there is no conflict %s", s.id);
}

/* ---- take, dismiss ---- */

/* What JSON has no class for is its text. */
static tide_sql_value value_of(const tide_json_node *json, const char *text)
{
    switch (json->type) {
    case TIDE_JSON_TYPE_NULL:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    case TIDE_JSON_TYPE_FALSE:
    case TIDE_JSON_TYPE_TRUE:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64,
                                .i64 = json->type == TIDE_JSON_TYPE_TRUE};
    case TIDE_JSON_TYPE_INTEGER:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = json->integer};
    case TIDE_JSON_TYPE_REAL:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = json->real};
    case TIDE_JSON_TYPE_TEXT:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = json->text};
    case TIDE_JSON_TYPE_ARRAY:
    case TIDE_JSON_TYPE_OBJECT:
        break;
    }
    return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(text)};
}

tide_status tide_cli_replica_conflicts_take(tide_cli *cli, tide_error *err)
{
    const char *text = tide_cli_text(cli, TIDE_CLI_VALUE);
    const bool is_ours = tide_cli_is_given(cli, TIDE_CLI_OURS);
    const bool is_theirs = tide_cli_is_given(cli, TIDE_CLI_THEIRS);
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *json = NULL;
    tide_sql_value value = {.kind = TIDE_SQL_VALUE_NULL};
    if (is_ours + is_theirs + (text != NULL) != 1)
        return tide_fail(err, TIDE_E_INVALID, "give one of --ours, --theirs and --value");
    if (text) {
        TIDE_TRY(tide_json_tree_read(&json, tide_view_of(text), err));
        value = value_of(json, text);
    }
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    return tide_node_settle_conflict(node, cli->args[1],
                                     text        ? TIDE_CONFLICT_VALUE
                                     : is_theirs ? TIDE_CONFLICT_THEIRS
                                                 : TIDE_CONFLICT_OURS,
                                     &value, err);
}

tide_status tide_cli_replica_conflicts_dismiss(tide_cli *cli, tide_error *err)
{
    int64_t count = 1;
    const bool is_by_age = tide_cli_is_given(cli, TIDE_CLI_OLDER_THAN);
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    if ((cli->arg_count > 1) == is_by_age)
        return tide_fail(err, TIDE_E_INVALID, "give the ID of a conflict, or --older-than");
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (is_by_age) {
        tide_env *env = tide_env_system();
        TIDE_TRY(tide_node_dismiss_conflicts(
            node, env->wall_us(env) - tide_cli_number(cli, TIDE_CLI_OLDER_THAN), &count, err));
    } else {
        TIDE_TRY(tide_node_settle_conflict(node, cli->args[1], TIDE_CONFLICT_OURS, NULL, err));
    }
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%lld conflicts dismissed\n", (long long)count);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "dismissed", count);
    return tide_cli_json_end(&cli->out, err);
}
