/* cmd_checkpoint_list.c - tidemark checkpoint show|ls|range|head|tail|diff|verify. */
#include "cli/journal/cmd_checkpoint.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidemark/journal.h>
#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "cli/print/message_output.h"
#include "cli/work/work_output.h"

/* ---- one ---- */

static tide_status print_annotation(void *arg, const tide_annotation *annotation, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    tide_cli_print(out->file, "%-8s %s\n", annotation->severity, annotation->note);
    return TIDE_OK;
}

static tide_status show_one(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    char created[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(created, checkpoint->created_at_us);
    tide_cli_print(out->file, "%s  %s  %s\n", checkpoint->checkpoint_id, checkpoint->type, created);
    tide_cli_print(out->file, "number %" PRId64 ", number %" PRId64 " of task %s\n",
                   checkpoint->global_sequence, checkpoint->sequence_number, checkpoint->task_id);
    if (checkpoint->message)
        tide_cli_print(out->file, "%s\n", checkpoint->message);
    for (int i = 0; i < checkpoint->tag_count; i++)
        tide_cli_print(out->file, "tag %s\n", checkpoint->tags[i]);
    tide_cli_print(out->file, "%.*s\n", (int)checkpoint->snapshot.len, checkpoint->snapshot.ptr);
    return TIDE_OK;
}

tide_status tide_cli_checkpoint_show(tide_cli *cli, tide_error *err)
{
    tide_cli_output *out = &cli->out;
    JOURNAL(GetRequest) request = JOURNAL_INIT(GET_REQUEST);
    request.id = tide_rpc_borrow(cli->args[0]);
    request.with_snapshot = true;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    if (out->is_json)
        return tide_cli_print_method(out, store, tide_rpc_get_checkpoint, &request.base,
                                     &tidemark__journal__v1__checkpoint__descriptor, err);
    TIDE_TRY(tide_cli_found(tide_journal_find(store, cli->args[0], true, show_one, out, err),
                            "checkpoint", cli->args[0], store, err));
    return tide_journal_annotations(store, cli->args[0], print_annotation, out, err);
}

/* ---- many ---- */

static tide_status list_one(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    tide_cli_table *table = arg;
    if (table->out->is_json)
        return tide_cli_print_checkpoint(table->out, checkpoint, err);
    tide_cli_table_number(table, checkpoint->global_sequence);
    tide_cli_table_cell(table, checkpoint->task_id);
    tide_cli_table_number(table, checkpoint->sequence_number);
    tide_cli_table_cell(table, checkpoint->type);
    tide_cli_table_time(table, checkpoint->created_at_us);
    tide_cli_table_number(table, checkpoint->snapshot_len);
    tide_cli_table_cell(table, checkpoint->message);
    return TIDE_OK;
}

static tide_status list_filtered(tide_cli *cli, tide_journal_filter *filter, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    filter->with_snapshot = cli->out.is_json;
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "NUMBER#,TASK,IN TASK#,TYPE,CREATED,BYTES#,MESSAGE");
    const tide_status status = tide_journal_list(store, filter, list_one, &table, err);
    /* An empty list is an answer too. */
    return tide_cli_table_end(&table, status, err);
}

tide_status tide_cli_checkpoint_list(tide_cli *cli, tide_error *err)
{
    tide_env *env = tide_env_system();
    tide_journal_filter filter = {
        TIDE_JOURNAL_FILTER_INIT,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_item_id = tide_cli_text(cli, TIDE_CLI_WORK_ITEM),
        .type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .tag = tide_cli_text(cli, TIDE_CLI_TAG),
        .first_global = tide_cli_number(cli, TIDE_CLI_FROM),
        .last_global = tide_cli_number(cli, TIDE_CLI_TO),
        .limit = tide_cli_number(cli, TIDE_CLI_LIMIT),
        .order = TIDE_JOURNAL_NEWEST_FIRST,
    };
    if (filter.last_global > 0 && filter.last_global < filter.first_global)
        return tide_fail(err, TIDE_E_INVALID,
                         "the range ends before it begins: --from %" PRId64 " --to %" PRId64,
                         filter.first_global, filter.last_global);
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_SINCE, env->wall_us(env), &filter.since_us, err));
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_UNTIL, env->wall_us(env), &filter.until_us, err));
    return list_filtered(cli, &filter, err);
}

tide_status tide_cli_checkpoint_range(tide_cli *cli, tide_error *err)
{
    tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT,
                                  .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
                                  .order = TIDE_JOURNAL_OLDEST_FIRST};
    TIDE_TRY(tide_cli_parse_number(&filter.first_global, cli->args[0], "A", 0, INT64_MAX, err));
    TIDE_TRY(tide_cli_parse_number(&filter.last_global, cli->args[1], "B", 0, INT64_MAX, err));
    if (filter.last_global < filter.first_global)
        return tide_fail(err, TIDE_E_INVALID, "the range ends before it begins: %s to %s",
                         cli->args[0], cli->args[1]);
    /* To the library 0 means "no end"; numbers begin at 1, so a range up to 0 is empty. */
    if (filter.last_global == 0)
        return TIDE_OK;
    return list_filtered(cli, &filter, err);
}

tide_status tide_cli_checkpoint_head(tide_cli *cli, tide_error *err)
{
    int64_t head = 0;
    tide_identity identity = {0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    const tide_status opened = tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err);
    if (opened != TIDE_E_NOT_FOUND) { /* where there is no store, none was ever issued */
        TIDE_TRY(opened);
        TIDE_TRY(tide_journal_head(store, &head, &identity, err));
    }
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%" PRId64 "\n", head);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "global_sequence", head);
    tide_cli_json_identity(&cli->out, identity.epoch > 0 ? &identity : NULL);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- tail ---- */

typedef struct following {
    tide_cli_output *out;
    int64_t from;
} following;

static tide_status print_event(void *arg, const tide_journal_event *event, tide_error *err)
{
    following *f = arg;
    tide_cli_output *out = f->out;
    const tide_checkpoint *checkpoint = event->checkpoint;
    const bool is_cut = event->kind == TIDE_JOURNAL_EPOCH_CHANGED;
    if (is_cut)
        f->from = event->last_global + 1;
    else if (event->last_global < f->from) /* about what lies before the place asked for */
        return TIDE_OK;
    if (out->is_json) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
        TIDE_TRY(tide_rpc_encode_event(&bytes, event, err));
        return tide_cli_print_encoded(out, &tidemark__journal__v1__event__descriptor,
                                      tide_buffer_view(&bytes), err);
    }
    if (is_cut) {
        tide_cli_print(out->file,
                       "%10" PRId64 "  epoch %" PRId64
                       " (%s): history was cut; what was read above "
                       "%" PRId64 " no longer exists\n",
                       event->last_global, event->identity->epoch, event->identity->epoch_id,
                       event->last_global);
        return TIDE_OK;
    }
    char at[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(at, event->at_us);
    tide_cli_print(out->file, "%10" PRId64 "  %s  %-9s  %s  %s\n", event->last_global, at,
                   tide_journal_event_name(event->kind), event->task_id ? event->task_id : "-",
                   checkpoint ? (checkpoint->message ? checkpoint->message : checkpoint->type)
                              : "");
    return TIDE_OK;
}

static tide_status read_epoch_id(const tide_cli *cli, tide_identity *out, tide_error *err)
{
    tide_uuid id;
    const char *text = tide_cli_text(cli, TIDE_CLI_EPOCH_ID);
    if (!text)
        return TIDE_OK;
    if (tide_uuid_parse(&id, tide_view_of(text)) != TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID,
                         "--epoch-id \"%s\" is not a UUID; pass the epoch_id that was printed "
                         "beside the last number",
                         text);
    tide_uuid_format(&id, out->epoch_id);
    return TIDE_OK;
}

tide_status tide_cli_checkpoint_tail(tide_cli *cli, tide_error *err)
{
    const int64_t second_us = 1000000;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    TIDE_CLEANUP(tide_watch_closep) tide_watch *watch = NULL;
    const bool is_following = tide_cli_is_given(cli, TIDE_CLI_FOLLOW);
    if (is_following)
        TIDE_TRY(tide_watch_open(&watch, store, TIDE_JOURNAL_TOPIC, err));
    tide_env *env = tide_store_env(store);
    /* --from N begins with N. */
    const int64_t from = tide_cli_number(cli, TIDE_CLI_FROM);
    tide_journal_position position = {.global_sequence = from > 0 ? from - 1 : 0};
    TIDE_TRY(read_epoch_id(cli, &position.identity, err));
    following f = {.out = &cli->out, .from = from};
    bool is_away = false;
    for (;;) {
        tide_status status = tide_journal_tail(
            store, &position,
            &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 500,
                                         .with_snapshot = cli->out.is_json},
            print_event, &f, err);
        if (status < TIDE_OK && !(is_following && tide_status_get(status)->is_retryable))
            return status;
        TIDE_TRY(tide_cli_output_flush(&cli->out, err));
        if (is_away != (status < TIDE_OK)) {
            is_away = status < TIDE_OK;
            (void)fprintf(stderr, "tidemark: checkpoint tail: %s\n",
                          is_away ? err->text : "the store is back; continuing");
        }
        if (status == TIDE_NONE && !is_following)
            return TIDE_OK;
        if (is_away)
            env->sleep_us(env, second_us);
        else if (status == TIDE_NONE)
            TIDE_IGNORE(tide_watch_wait(watch, second_us, NULL)); /* a hint: the tail says why */
    }
}

/* ---- diff ---- */

static tide_status print_difference(void *arg, const tide_difference *difference, tide_error *err)
{
    tide_cli_output *out = arg;
    const char *path = difference->path[0] ? difference->path : "/";
    if (!out->is_json) {
        if (difference->before.len > 0)
            tide_cli_print(out->file, "- %s %.*s\n", path, (int)difference->before.len,
                           difference->before.ptr);
        if (difference->after.len > 0)
            tide_cli_print(out->file, "+ %s %.*s\n", path, (int)difference->after.len,
                           difference->after.ptr);
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_rpc_encode_difference(&bytes, difference, err));
    return tide_cli_print_encoded(out, &tidemark__journal__v1__difference__descriptor,
                                  tide_buffer_view(&bytes), err);
}

tide_status tide_cli_checkpoint_diff(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    return tide_journal_diff(store, cli->args[0], cli->args[1], print_difference, &cli->out, err);
}

/* ---- verify ---- */

static void print_finding(void *arg, const char *finding)
{
    tide_cli_print(arg, "%s\n", finding);
}

tide_status tide_cli_checkpoint_verify(tide_cli *cli, tide_error *err)
{
    const char *task_id = tide_cli_text(cli, TIDE_CLI_TASK);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    if (cli->out.is_json) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
        const tide_status found = tide_rpc_journal_verify(&bytes, store, task_id, err);
        return tide_cli_print_found(&cli->out, &tidemark__journal__v1__verify_response__descriptor,
                                    &bytes, found, err);
    }
    tide_journal_report report = {.valid = 0};
    const tide_status status =
        tide_journal_verify(store, task_id, print_finding, cli->out.file, &report, err);
    if (status >= TIDE_OK || status == TIDE_E_DAMAGED)
        tide_cli_print(cli->out.file,
                       "%" PRId64 " valid, %" PRId64 " invalid, %" PRId64
                       " skipped (written by plain SQL), %" PRId64 " missing\n",
                       report.valid, report.invalid, report.skipped, report.missing);
    return status;
}
