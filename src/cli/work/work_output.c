#include "cli/work/work_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"

void tide_cli_json_moment(tide_cli_output *out, const char *key, int64_t us)
{
    if (us == 0)
        tide_cli_json_null(out, key);
    else
        tide_cli_json_time(out, key, us);
}

tide_status tide_cli_print_id(tide_cli_output *out, const char *key, const char *id,
                              tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%s\n", id);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, key, id);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_print_done(tide_cli_output *out, const char *key, const char *id,
                                const char *result, tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%s %s\n", id, result);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, key, id);
    tide_cli_json_text(out, "result", result);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_print_numbers(tide_cli_output *out, const tide_checkpoint_numbers *numbers,
                                   tide_error *err)
{
    if (!out->is_json) {
        tide_cli_print(out->file, "%" PRId64 "\n", numbers->global_sequence);
        return TIDE_OK;
    }
    JOURNAL(Numbers) row;
    tide_rpc_numbers(&row, numbers);
    return tide_cli_print_message(out, &row.base, err);
}

tide_status tide_cli_print_item(tide_cli_output *out, const tide_work_item *item, tide_error *err)
{
    WORK(WorkItem) row;
    tide_rpc_item(&row, item);
    return tide_cli_print_message(out, &row.base, err);
}

tide_status tide_cli_print_checkpoint(tide_cli_output *out, const tide_checkpoint *checkpoint,
                                      tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_rpc_encode_checkpoint(&bytes, checkpoint, err));
    return tide_cli_print_encoded(out, &tidemark__journal__v1__checkpoint__descriptor,
                                  tide_buffer_view(&bytes), err);
}

void tide_cli_json_identity(tide_cli_output *out, const tide_identity *identity)
{
    tide_cli_json_text(out, "session_id", identity ? identity->session_id : NULL);
    if (identity)
        tide_cli_json_i64(out, "epoch", identity->epoch);
    else
        tide_cli_json_null(out, "epoch");
    tide_cli_json_text(out, "epoch_id", identity ? identity->epoch_id : NULL);
}

tide_status tide_cli_found(tide_status status, const char *what, const char *id,
                           const tide_store *store, tide_error *err)
{
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no %s '%s' in %s", what, id,
                         tide_store_name(store));
    return status;
}

void tide_cli_worker_name(const tide_cli *cli, tide_cli_option_id id,
                          char out[TIDE_CLI_WORKER_SIZE])
{
    const char *name = tide_cli_text(cli, id);
    if (name) {
        (void)snprintf(out, TIDE_CLI_WORKER_SIZE, "%s", name);
        return;
    }
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "worker");
    (void)snprintf(out, TIDE_CLI_WORKER_SIZE, "%s-%ld", host, (long)getpid());
}
