#include "cli/idempotency/idempotency_answer.h"

#include <tidemark/idempotency.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "base/text/utf8.h"

/* ---- encode ---- */

static tide_status append_output(tide_buffer *json, tide_view out)
{
    if (tide_utf8_valid(out)) {
        const size_t before = json->len;
        TIDE_TRY(tide_buffer_append_text(json, ",\"stdout\":"));
        const tide_status status = tide_json_append_string(json, out);
        if (status != TIDE_E_LIMIT)
            return status;
        tide_buffer_truncate(json, before); /* escapes may make it six times as long */
    }
    TIDE_TRY(tide_buffer_append_text(json, ",\"stdout_base64\":\""));
    TIDE_TRY(tide_base64_encode(json, out, true));
    return tide_buffer_append_text(json, "\"");
}

static tide_status append_answer(tide_buffer *json, int exit_code, tide_view out, bool is_out_over,
                                 uint64_t out_len)
{
    TIDE_TRY(tide_buffer_printf(json, "{\"exit_code\":%d", exit_code));
    if (is_out_over)
        TIDE_TRY(tide_buffer_printf(json, ",\"stdout_len\":%llu", (unsigned long long)out_len));
    else
        TIDE_TRY(append_output(json, out));
    return tide_buffer_append_text(json, "}");
}

tide_status tide_cli_answer_encode(tide_buffer *json, int exit_code, tide_view out,
                                   bool is_out_over, uint64_t out_len, tide_error *err)
{
    tide_status status = append_answer(json, exit_code, out, is_out_over, out_len);
    if (status == TIDE_E_LIMIT) {
        tide_buffer_clear(json);
        status = append_answer(json, exit_code, out, true, out_len);
    }
    return status < TIDE_OK ? tide_fail(err, status, "no memory for the command's answer")
                            : TIDE_OK;
}

/* ---- decode ---- */

static tide_status fail_foreign(tide_error *err)
{
    return tide_fail(err, TIDE_E_MISMATCH,
                     "the key has an answer that is not that of a command run here");
}

static tide_status decode_output(tide_cli_answer *answer, const tide_json_node *object,
                                 tide_error *err)
{
    const tide_json_node *text = tide_json_node_find(object, "stdout");
    const tide_json_node *base64 = tide_json_node_find(object, "stdout_base64");
    const tide_json_node *len = tide_json_node_find(object, "stdout_len");
    if (tide_json_node_is(text, TIDE_JSON_TYPE_TEXT)) {
        if (tide_buffer_append_view(&answer->out, text->text) < TIDE_OK)
            return tide_no_memory(err);
    } else if (tide_json_node_is(base64, TIDE_JSON_TYPE_TEXT)) {
        const tide_status status = tide_base64_decode(&answer->out, base64->text);
        if (status < TIDE_OK)
            return status == TIDE_E_NOMEM ? tide_no_memory(err) : fail_foreign(err);
    } else if (tide_json_node_is(len, TIDE_JSON_TYPE_INTEGER)) {
        answer->is_out_over = true;
        answer->out_len = (uint64_t)tide_json_node_integer(len);
        return TIDE_OK;
    } else {
        return fail_foreign(err);
    }
    answer->out_len = answer->out.len;
    return TIDE_OK;
}

tide_status tide_cli_answer_decode(tide_cli_answer *answer, tide_view json, tide_error *err)
{
    *answer = (tide_cli_answer){.exit_code = 0};
    tide_buffer_init(&answer->out, TIDE_IDEMPOTENCY_RESPONSE_MAX);
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *object = NULL;
    if (json.ptr)
        TIDE_IGNORE(tide_json_tree_read(&object, json, NULL)); /* what is not JSON has no member */
    const tide_json_node *exit_code = tide_json_node_find(object, "exit_code");
    if (!tide_json_node_is(exit_code, TIDE_JSON_TYPE_INTEGER) ||
        tide_json_node_integer(exit_code) < 0 || tide_json_node_integer(exit_code) > 255)
        return fail_foreign(err);
    answer->exit_code = (int)tide_json_node_integer(exit_code);
    return decode_output(answer, object, err);
}

void tide_cli_answer_done(tide_cli_answer *answer)
{
    tide_buffer_done(&answer->out);
}
