/* cmd_replica_verify.c - tidemark replica verify: compare with a peer, by ranges of keys, and repair what differs. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/list.h"
#include "cli/replica/cmd_replica.h"
#include "remote/replica_repair.h"
#include "replica/node_status.h"

enum { KEYS_SHOWN = 20, KEY_BYTES_SHOWN = 64 };

typedef struct table_pair {
    tide_table_digest digest; /* ours, or theirs where it is not here */
    bool is_here;
    bool is_there;
    bool is_equal;
} table_pair;

typedef struct verifying {
    tide_cli *cli;
    tide_node *node;
    tide_remote *remote;
    table_pair *pairs;
    int count;
    tide_buffer keys; /* of the table that is compared: rows that differ, as text */
    int key_count;
    int64_t repaired; /* rows, columns and events, at both nodes */
} verifying;

static void verifying_done(verifying *v)
{
    free(v->pairs);
    tide_buffer_done(&v->keys);
    tide_remote_close(v->remote);
    tide_node_close(v->node);
}

/* ---- whole tables ---- */

static tide_status add_pair(verifying *v, const tide_table_digest *digest, table_pair **out,
                            tide_error *err)
{
    TIDE_TRY(tide_list_room(&v->pairs, v->count, sizeof *v->pairs, TIDE_LIST_MAX, err));
    *out = &v->pairs[v->count++];
    **out = (table_pair){.digest = *digest};
    return TIDE_OK;
}

static tide_status keep_ours(void *arg, const tide_table_digest *digest, tide_error *err)
{
    table_pair *pair = NULL;
    TIDE_TRY(add_pair(arg, digest, &pair, err));
    assert(pair);
    pair->is_here = true;
    return TIDE_OK;
}

static tide_status keep_theirs(void *arg, const tide_table_digest *digest, tide_error *err)
{
    verifying *v = arg;
    table_pair *pair = NULL;
    for (int i = 0; i < v->count && !pair; i++)
        if (strcmp(v->pairs[i].digest.table, digest->table) == 0)
            pair = &v->pairs[i];
    if (!pair)
        TIDE_TRY(add_pair(v, digest, &pair, err));
    assert(pair);
    pair->is_there = true;
    pair->is_equal = pair->is_here && pair->digest.rows == digest->rows &&
                     memcmp(pair->digest.digest, digest->digest, sizeof digest->digest) == 0;
    return TIDE_OK;
}

static tide_status compare_tables(verifying *v, int *differing, tide_error *err)
{
    v->count = 0;
    *differing = 0;
    TIDE_TRY(tide_peer_look(v->node, NULL, err));
    TIDE_TRY(tide_node_digests(v->node, keep_ours, v, err));
    TIDE_TRY(tide_remote_digests(v->remote, keep_theirs, v, err));
    for (int i = 0; i < v->count; i++)
        *differing += !v->pairs[i].is_equal;
    /* What was found to differ is equal again. Tables that differ here may be behind. */
    return *differing > 0 ? TIDE_OK
                          : tide_node_note_divergence(v->node, v->cli->args[1], "[]", err);
}

/* ---- rows ---- */

static tide_status show_value(tide_buffer *out, const tide_sql_value *value)
{
    char hex[2 * KEY_BYTES_SHOWN + 1];
    const size_t len = value->bytes.len < KEY_BYTES_SHOWN ? value->bytes.len : KEY_BYTES_SHOWN;
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        return tide_buffer_append_text(out, "NULL");
    case TIDE_SQL_VALUE_I64:
        return tide_buffer_printf(out, "%lld", (long long)value->i64);
    case TIDE_SQL_VALUE_F64:
        return tide_buffer_printf(out, "%.17g", value->f64);
    case TIDE_SQL_VALUE_TEXT:
        return tide_buffer_append(out, value->bytes.ptr, len);
    case TIDE_SQL_VALUE_BLOB:
    case TIDE_SQL_VALUE_BOOL: /* these two are no values of SQLite */
    case TIDE_SQL_VALUE_TIME:
        break;
    }
    tide_hex_encode(hex, value->bytes.ptr, len);
    return tide_buffer_printf(out, "x'%s'", hex);
}

/* Rows are named by the values of their keys; a NUL ends each name. */
static tide_status keep_key(void *arg, const char *table, tide_view key, tide_error *err)
{
    verifying *v = arg;
    tide_reader from = tide_reader_of(key);
    tide_status status = TIDE_OK;
    (void)table;
    if (++v->key_count > KEYS_SHOWN)
        return TIDE_OK;
    for (int i = 0; status >= TIDE_OK && tide_reader_left(&from) > 0; i++) {
        tide_sql_value value;
        if (tide_sql_value_decode(&value, &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "a key cannot be read");
        if (i > 0)
            status = tide_buffer_append_text(&v->keys, ", ");
        if (status >= TIDE_OK)
            status = show_value(&v->keys, &value);
    }
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&v->keys, 0);
    return status < TIDE_OK ? tide_fail(err, status, "keys of rows") : TIDE_OK;
}

static void print_repaired_json(tide_cli *cli, const char *name, const tide_repaired *done)
{
    tide_cli_json_object_begin(&cli->out, name);
    tide_cli_json_i64(&cli->out, "rows", done->rows);
    tide_cli_json_i64(&cli->out, "newer", done->newer);
    tide_cli_json_i64(&cli->out, "chosen", done->chosen);
    tide_cli_json_i64(&cli->out, "restored", done->restored);
    tide_cli_json_i64(&cli->out, "captured", done->captured);
    tide_cli_json_i64(&cli->out, "conflicts", done->conflicts);
    tide_cli_json_i64(&cli->out, "refused", done->refused);
    tide_cli_json_object_end(&cli->out);
}

static void print_repaired(tide_cli *cli, const char *where, const tide_repaired *done)
{
    tide_cli_print(cli->out.file,
                   "  %s: %lld rows changed (%lld restored, %lld newer), %lld values chosen, %lld "
                   "rows captured, %lld conflicts added%s\n",
                   where, (long long)done->rows, (long long)done->restored, (long long)done->newer,
                   (long long)done->chosen, (long long)done->captured, (long long)done->conflicts,
                   done->refused > 0 ? "; some rows have stamps that cannot be" : "");
}

static tide_status print_table(verifying *v, const char *table, const char *result,
                               const tide_repair_result *found, bool is_repairing, tide_error *err)
{
    tide_cli *cli = v->cli;
    const char *key = tide_buffer_text(&v->keys);
    const int shown = v->key_count < KEYS_SHOWN ? v->key_count : KEYS_SHOWN;
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: %s", table, result);
        if (found)
            tide_cli_print(cli->out.file, ", %lld rows in %lld ranges", (long long)found->differing,
                           (long long)found->ranges);
        tide_cli_print(cli->out.file, "\n");
        for (int i = 0; i < shown; i++, key += strlen(key) + 1)
            tide_cli_print(cli->out.file, "  %s\n", key);
        if (v->key_count > shown)
            tide_cli_print(cli->out.file, "  and %d more\n", v->key_count - shown);
        if (found && is_repairing) {
            print_repaired(cli, "here", &found->here);
            print_repaired(cli, "there", &found->there);
        }
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "table", table);
    tide_cli_json_text(&cli->out, "result", result);
    if (found) {
        tide_cli_json_i64(&cli->out, "differing", found->differing);
        tide_cli_json_i64(&cli->out, "ranges", found->ranges);
        tide_cli_json_i64(&cli->out, "questions", found->questions);
        tide_cli_json_array_begin(&cli->out, "keys");
        for (int i = 0; i < shown; i++, key += strlen(key) + 1)
            tide_cli_json_view(&cli->out, NULL, tide_view_of(key));
        tide_cli_json_array_end(&cli->out);
    }
    if (found && is_repairing) {
        print_repaired_json(cli, "here", &found->here);
        print_repaired_json(cli, "there", &found->there);
    }
    return tide_cli_json_end(&cli->out, err);
}

static tide_status look_at_table(verifying *v, const table_pair *pair, bool is_repairing,
                                 tide_error *err)
{
    tide_repair_result found = {.rows_here = 0};
    tide_repair_peer there = tide_repair_of_remote(v->remote);
    const tide_repair_options options = {.is_repairing = is_repairing, .found = keep_key, .arg = v};
    tide_buffer_clear(&v->keys);
    v->key_count = 0;
    if (pair->is_equal)
        return print_table(v, pair->digest.table, "equal", NULL, false, err);
    if (!pair->is_here || !pair->is_there)
        return print_table(v, pair->digest.table, pair->is_here ? "is not there" : "is not here",
                           NULL, false, err);
    const tide_status status =
        tide_repair_table(v->node, &there, pair->digest.table, &options, &found, err);
    v->repaired += found.here.rows + found.there.rows + found.here.captured + found.there.captured;
    TIDE_TRY(print_table(v, pair->digest.table, "differs", &found, is_repairing, err));
    return status;
}

/* ---- the command ---- */

static tide_status sync_once(verifying *v, tide_error *err)
{
    tide_sync_result result;
    tide_peer here = tide_peer_of_node(v->node, v->cli->args[0]);
    const tide_sync_options options = {.is_pull_only = false};
    return tide_sync(&here, tide_remote_peer(v->remote), &options, &result, err);
}

static tide_status fail_differing(verifying *v, int differing, bool is_repairing, tide_error *err)
{
    (void)snprintf(v->cli->hint, sizeof v->cli->hint, "%s",
                   is_repairing ? "compare again while nobody writes"
                                : "sync; if they still differ while nobody writes, repair: verify "
                                  "... --repair");
    return tide_fail(err, TIDE_E_DAMAGED, "%d tables differ from %s", differing, v->cli->args[1]);
}

/* What a repair left different is a divergence, until a comparison finds it equal. */
static tide_status note_differing(verifying *v, tide_error *err)
{
    tide_json json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer names = tide_buffer_of((size_t)1 << 24);
    tide_json_init(&json, &names);
    tide_json_array_begin(&json);
    for (int i = 0; i < v->count; i++)
        if (!v->pairs[i].is_equal)
            tide_json_text(&json, v->pairs[i].digest.table);
    tide_json_array_end(&json);
    if (tide_json_finish(&json) < TIDE_OK)
        return tide_no_memory(err);
    return tide_node_note_divergence(v->node, v->cli->args[1], tide_buffer_text(&names), err);
}

static tide_status verify(verifying *v, bool is_repairing, tide_error *err)
{
    int differing = 0;
    if (is_repairing)
        TIDE_TRY(sync_once(v, err));
    TIDE_TRY(compare_tables(v, &differing, err));
    for (int i = 0; i < v->count; i++)
        TIDE_TRY(look_at_table(v, &v->pairs[i], is_repairing, err));
    if (differing == 0)
        return TIDE_OK;
    if (!is_repairing)
        return fail_differing(v, differing, false, err);
    TIDE_TRY(sync_once(v, err)); /* what was captured travels */
    TIDE_TRY(compare_tables(v, &differing, err));
    if (differing == 0)
        return TIDE_OK;
    TIDE_TRY(note_differing(v, err));
    return fail_differing(v, differing, true, err);
}

tide_status tide_cli_replica_verify(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(verifying_done) verifying v = {.cli = cli};
    const tide_remote_options options = tide_cli_replica_remote(cli, cli->args[1]);
    tide_buffer_init(&v.keys, (size_t)1 << 20);
    TIDE_TRY(tide_cli_replica_open(cli, false, &v.node, err));
    TIDE_TRY(tide_remote_open(&v.remote, &options, err));
    return verify(&v, tide_cli_is_given(cli, TIDE_CLI_REPAIR), err);
}
