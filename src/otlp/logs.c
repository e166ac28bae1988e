#include "otlp/decode.h"

typedef struct log_record {
    uint64_t time_ns;
    uint64_t observed_ns;
    uint64_t severity;
    tide_view severity_text;
    tide_view body;
    tide_view event_name;
    tide_otlp_id trace_id;
    tide_otlp_id span_id;
} log_record;

static tide_status read_field(tide_otlp *otlp, tide_otlp_message *message,
                              const tide_otlp_field *field, log_record *record)
{
    tide_otlp_message body;
    switch (field->number) {
    case TIDE_OTLP_LOG_TIME:
        record->time_ns = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_LOG_OBSERVED_TIME:
        record->observed_ns = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_LOG_SEVERITY_NUMBER:
        record->severity = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_LOG_SEVERITY_TEXT:
        record->severity_text = field->text;
        return TIDE_OK;
    case TIDE_OTLP_LOG_EVENT_NAME:
        record->event_name = field->text;
        return TIDE_OK;
    case TIDE_OTLP_LOG_TRACE_ID:
        record->trace_id = field->id;
        return TIDE_OK;
    case TIDE_OTLP_LOG_SPAN_ID:
        record->span_id = field->id;
        return TIDE_OK;
    case TIDE_OTLP_LOG_ATTRIBUTES:
        return tide_otlp_read_attribute(otlp, message, field);
    default: /* TIDE_OTLP_LOG_BODY */
        tide_otlp_enter(&body, message, field);
        return tide_otlp_value_text(otlp, &body, &record->body);
    }
}

/* A log record needs no ids; what is none is left out. */
static tide_status write_record(tide_otlp *otlp, const log_record *record)
{
    char trace_text[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    char span_text[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    (void)tide_otlp_id_text(&record->trace_id, 16, trace_text);
    (void)tide_otlp_id_text(&record->span_id, 8, span_text);
    const uint64_t ns = record->time_ns ? record->time_ns : record->observed_ns;
    const int64_t severity = record->severity <= INT32_MAX ? (int64_t)record->severity : 0;
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_LOGS);
    tide_record_i64(batch, TIDE_LOG_TIMESTAMP, tide_otlp_time_ms(otlp, ns));
    tide_record_text(batch, TIDE_LOG_SERVICE_NAME, otlp->service_name);
    tide_record_i64(batch, TIDE_LOG_SEVERITY_NUMBER, severity);
    tide_record_text(batch, TIDE_LOG_SEVERITY_TEXT, record->severity_text);
    tide_record_text(batch, TIDE_LOG_BODY, record->body);
    tide_record_text(batch, TIDE_LOG_TRACE_ID, tide_view_of(trace_text));
    tide_record_text(batch, TIDE_LOG_SPAN_ID, tide_view_of(span_text));
    return tide_otlp_record_end(otlp, batch, TIDE_LOG_ATTRIBUTES);
}

tide_status tide_otlp_read_log(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_begin_member(otlp);
    log_record record = {.severity_text = tide_view_of(""),
                         .body = tide_view_of(""),
                         .event_name = tide_view_of("")};
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(message, &field)) == TIDE_OK)
        TIDE_TRY(read_field(otlp, message, &field, &record));
    TIDE_TRY(status);
    TIDE_TRY(tide_otlp_add_attribute(otlp, "event.name", record.event_name));
    if (!tide_otlp_accept(otlp, record.body.len + record.severity_text.len))
        return TIDE_OK;
    return write_record(otlp, &record);
}
