#include "cli/idempotency/idempotency_answer.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>

#include <tidemark/idempotency.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

/* ---- encode ---- */

static tide_status append_base64(tide_buffer *json, tide_view bytes)
{
    if (bytes.len > TIDE_IDEMPOTENCY_RESPONSE_MAX / 4 * 3)
        return TIDE_E_LIMIT;
    const size_t len = (bytes.len + 2) / 3 * 4;
    TIDE_TRY(tide_buffer_reserve(json, len + 1));
    const int written = EVP_EncodeBlock((unsigned char *)json->ptr + json->len,
                                        (const unsigned char *)bytes.ptr, (int)bytes.len);
    json->len += (size_t)written;
    json->ptr[json->len] = '\0';
    return TIDE_OK;
}

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
    TIDE_TRY(append_base64(json, out));
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

static void free_json(json_t **json)
{
    json_decref(*json);
}

static tide_status fail_foreign(tide_error *err)
{
    return tide_fail(err, TIDE_E_MISMATCH,
                     "the key has an answer that is not that of a command run here");
}

static tide_status decode_base64(tide_buffer *out, tide_view text, tide_error *err)
{
    if (text.len % 4 != 0 || text.len > TIDE_IDEMPOTENCY_RESPONSE_MAX)
        return fail_foreign(err);
    if (text.len == 0)
        return TIDE_OK;
    if (tide_buffer_reserve(out, text.len / 4 * 3) < TIDE_OK)
        return tide_no_memory(err);
    const int written =
        EVP_DecodeBlock((unsigned char *)out->ptr, (const unsigned char *)text.ptr, (int)text.len);
    if (written < 0)
        return fail_foreign(err);
    size_t padding = text.ptr[text.len - 1] == '=';
    padding += text.ptr[text.len - 2] == '=';
    out->len = (size_t)written - padding;
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

static tide_status decode_output(tide_cli_answer *answer, const json_t *object, tide_error *err)
{
    const json_t *text = json_object_get(object, "stdout");
    const json_t *base64 = json_object_get(object, "stdout_base64");
    const json_t *len = json_object_get(object, "stdout_len");
    if (json_is_string(text)) {
        const tide_view view = tide_view_bytes(json_string_value(text), json_string_length(text));
        if (tide_buffer_append_view(&answer->out, view) < TIDE_OK)
            return tide_no_memory(err);
    } else if (json_is_string(base64)) {
        const tide_view view =
            tide_view_bytes(json_string_value(base64), json_string_length(base64));
        TIDE_TRY(decode_base64(&answer->out, view, err));
    } else if (json_is_integer(len)) {
        answer->is_out_over = true;
        answer->out_len = (uint64_t)json_integer_value(len);
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
    TIDE_CLEANUP(free_json)
    json_t *object = json.ptr ? json_loadb(json.ptr, json.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *exit_code = json_object_get(object, "exit_code");
    if (!json_is_integer(exit_code) || json_integer_value(exit_code) < 0 ||
        json_integer_value(exit_code) > 255)
        return fail_foreign(err);
    answer->exit_code = (int)json_integer_value(exit_code);
    return decode_output(answer, object, err);
}

void tide_cli_answer_done(tide_cli_answer *answer)
{
    tide_buffer_done(&answer->out);
}
