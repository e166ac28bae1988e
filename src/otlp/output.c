#include "otlp/otlp.h"

#include <string.h>

void tide_otlp_output_init(tide_otlp_output *output)
{
    *output = (tide_otlp_output){0};
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        tide_record_batch_init(&output->batches[kind], tide_stream_type_of((tide_stream_kind)kind),
                               TIDE_OTLP_OUTPUT_MAX);
    tide_buffer_init(&output->undo, TIDE_OTLP_REQUEST_MAX);
}

void tide_otlp_output_done(tide_otlp_output *output)
{
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        tide_record_batch_done(&output->batches[kind]);
    tide_buffer_done(&output->undo);
}

void tide_otlp_output_clear(tide_otlp_output *output)
{
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        tide_record_batch_clear(&output->batches[kind]);
    tide_buffer_clear(&output->undo);
    output->undo_last = 0;
    output->received = 0;
    output->rejected = 0;
    memset(output->reasons, 0, sizeof output->reasons);
    output->sampled_out = 0;
    output->unchanged = 0;
    output->replaced = 0;
}

int tide_otlp_output_records(tide_otlp_output *output,
                             tide_feed_records records[TIDE_STREAM_BUILT_IN_COUNT])
{
    int count = 0;
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        if (output->batches[kind].count > 0)
            records[count++] = tide_record_batch_feed(&output->batches[kind], NULL);
    return count;
}
