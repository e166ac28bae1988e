/* idempotency_answer.h - what `idempotency run` stores as a command's answer, and back.
 *
 *     {"exit_code":0,"stdout":"text\n"}                    text: UTF-8 without NUL
 *     {"exit_code":2,"stdout_base64":"AAECAw=="}           everything else
 *     {"exit_code":0,"stdout_len":987654321}               it printed more than can be kept
 *
 * What is decoded is byte for byte what was encoded.
 *
 * Threads: pure. Limits: TIDE_IDEMPOTENCY_RESPONSE_MAX bytes of the JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"

typedef struct tide_cli_answer {
    int exit_code;
    bool is_out_over; /* the output was too large to keep */
    uint64_t out_len;
    tide_buffer out; /* decoded; initialised by tide_cli_answer_decode */
} tide_cli_answer;

/* Into an empty buffer that may hold TIDE_IDEMPOTENCY_RESPONSE_MAX bytes. Where out does not fit in, or is_out_over says
 * that it is not there, its length alone is kept. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_cli_answer_encode(tide_buffer *json, int exit_code, tide_view out,
                                                   bool is_out_over, uint64_t out_len,
                                                   tide_error *err);

/* TIDE_E_MISMATCH: not written by tide_cli_answer_encode. Ends with tide_cli_answer_done, also after a failure. */
TIDE_MUST_CHECK tide_status tide_cli_answer_decode(tide_cli_answer *answer, tide_view json,
                                                   tide_error *err);
void tide_cli_answer_done(tide_cli_answer *answer);
