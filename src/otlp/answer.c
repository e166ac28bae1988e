#include "otlp/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json.h"

typedef struct signal_words {
    const char *plural;
    const char *json_key; /* of the number of rejected ones */
} signal_words;

static const signal_words words[] = {
    [TIDE_OTLP_TRACES] = {"spans", "rejectedSpans"},
    [TIDE_OTLP_METRICS] = {"data points", "rejectedDataPoints"},
    [TIDE_OTLP_LOGS] = {"log records", "rejectedLogRecords"},
    [TIDE_OTLP_PROFILES] = {"profiles", "rejectedProfiles"},
};

static const char *const reason_texts[] = {
#define REASON_TEXT(name, text) [TIDE_OTLP_REASON_##name] = (text),
    TIDE_OTLP_REASON_TABLE(REASON_TEXT)
#undef REASON_TEXT
};

void tide_otlp_describe(tide_otlp_signal signal, const tide_otlp_output *output,
                        char out[TIDE_OTLP_MESSAGE_MAX])
{
    out[0] = '\0';
    if (output->rejected == 0)
        return;
    size_t len = (size_t)snprintf(out, TIDE_OTLP_MESSAGE_MAX, "%" PRId64 " %s rejected",
                                  output->rejected, words[signal].plural);
    const char *separator = ": ";
    for (int reason = 0; reason < TIDE_OTLP_REASON_COUNT; reason++) {
        if (output->reasons[reason] == 0 || len >= TIDE_OTLP_MESSAGE_MAX)
            continue;
        len += (size_t)snprintf(out + len, TIDE_OTLP_MESSAGE_MAX - len, "%s%" PRId64 " %s",
                                separator, output->reasons[reason], reason_texts[reason]);
        separator = ", ";
    }
}

/* Export...ServiceResponse { partial_success = 1 { rejected_... = 1, error_message = 2 } } */
static tide_status append_protobuf(tide_buffer *out, int64_t rejected, const char *message)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer partial = tide_buffer_of(TIDE_OTLP_MESSAGE_MAX + 32);
    TIDE_TRY(tide_buffer_append_byte(&partial, 1 << 3));
    TIDE_TRY(tide_buffer_append_varint(&partial, (uint64_t)rejected));
    TIDE_TRY(tide_buffer_append_byte(&partial, 2 << 3 | 2));
    TIDE_TRY(tide_buffer_append_varint(&partial, strlen(message)));
    TIDE_TRY(tide_buffer_append_text(&partial, message));
    TIDE_TRY(tide_buffer_append_byte(out, 1 << 3 | 2));
    TIDE_TRY(tide_buffer_append_varint(out, partial.len));
    return tide_buffer_append_view(out, tide_buffer_view(&partial));
}

/* 64-bit numbers are texts in protobuf's JSON. */
static tide_status append_json(tide_buffer *out, const char *key, int64_t rejected,
                               const char *message)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    if (rejected > 0) {
        char number[24];
        (void)snprintf(number, sizeof number, "%" PRId64, rejected);
        tide_json_key(&json, "partialSuccess");
        tide_json_object_begin(&json);
        tide_json_key(&json, key);
        tide_json_text(&json, number);
        tide_json_key(&json, "errorMessage");
        tide_json_text(&json, message);
        tide_json_object_end(&json);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

tide_status tide_otlp_answer(tide_buffer *out, tide_otlp_signal signal, tide_otlp_format format,
                             const tide_otlp_output *output)
{
    char message[TIDE_OTLP_MESSAGE_MAX];
    tide_otlp_describe(signal, output, message);
    const size_t before_len = out->len;
    tide_status status = TIDE_OK;
    if (format == TIDE_OTLP_JSON)
        status = append_json(out, words[signal].json_key, output->rejected, message);
    else if (output->rejected > 0)
        status = append_protobuf(out, output->rejected, message);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

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
