/* otlp_check.h - what must hold of every OTLP request, in whatever format: an answer or an error,
 * and of records only such that readers accept. The first byte chooses the signal. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "otlp/otlp.h"

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static int count_sound_records(const tide_otlp_output *output)
{
    int count = 0;
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++) {
        const tide_record_batch *batch = &output->batches[kind];
        tide_view rest = tide_buffer_view(&batch->bytes);
        tide_record record;
        int found = 0;
        while (tide_record_next(batch->type, &rest, &record) == TIDE_OK) {
            require(tide_record_check(batch->type, &record, NULL) == TIDE_OK);
            found++;
        }
        require(rest.len == 0 && found == batch->count);
        count += found;
    }
    return count;
}

static void check_request(const uint8_t *data, size_t len, tide_otlp_format format)
{
    static tide_otlp *otlp;
    static tide_otlp_output output;
    if (!otlp) {
        const tide_otlp_options options = {.sample_fraction = 0.5};
        if (tide_otlp_new(&otlp, &options, NULL) != TIDE_OK)
            return;
        tide_otlp_output_init(&output);
    }
    if (len == 0)
        return;
    const tide_otlp_signal signal = (tide_otlp_signal)(data[0] % TIDE_OTLP_SIGNAL_COUNT);
    tide_error err;
    const tide_status status = tide_otlp_decode(
        otlp, signal, format, tide_view_bytes(data + 1, len - 1), 1, &output, &err);
    require(status == TIDE_OK || status == TIDE_E_INVALID || status == TIDE_E_LIMIT);
    const int count = count_sound_records(&output);
    if (status != TIDE_OK) {
        require(count == 0 && output.received == 0 && strlen(err.text) > 0);
        return;
    }
    require(output.rejected + output.sampled_out + output.unchanged <= output.received);
    if (signal == TIDE_OTLP_TRACES || signal == TIDE_OTLP_LOGS)
        require(count + output.rejected + output.sampled_out == output.received);
    tide_buffer answer;
    tide_buffer_init(&answer, 4096);
    require(tide_otlp_answer(&answer, signal, format, &output) == TIDE_OK);
    tide_buffer_done(&answer);
    if (data[0] & 0x80)
        tide_otlp_undo(otlp, &output);
}
