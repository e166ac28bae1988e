#include "otlp/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"

/* ---- logs ---- */

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

static tide_status read_log(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_begin_member(otlp);
    log_record record = {.severity_text = tide_view_of(""),
                         .body = tide_view_of(""),
                         .event_name = tide_view_of("")};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field))
        TIDE_TRY(read_field(otlp, message, &field, &record));
    TIDE_TRY(tide_otlp_add_attribute(otlp, "event.name", record.event_name));
    if (!tide_otlp_accept(otlp, record.body.len + record.severity_text.len))
        return TIDE_OK;
    return write_record(otlp, &record);
}

/* ---- the decoder ---- */

tide_status tide_otlp_new(tide_otlp **out, const tide_otlp_options *options, tide_error *err)
{
    TIDE_NEW(tide_otlp, otlp, err);
    otlp->options = *options;
    for (int layer = 0; layer < TIDE_OTLP_LAYER_COUNT; layer++)
        tide_arena_init(&otlp->arenas[layer], layer == TIDE_OTLP_LAYER_DICTIONARY
                                                  ? TIDE_OTLP_DICTIONARY_BYTES_MAX
                                                  : TIDE_OTLP_ARENA_MAX);
    tide_otlp_dictionary_init(&otlp->dictionary);
    tide_otlp_attributes_init(&otlp->attributes, options->hash_seed);
    tide_otlp_series_init(&otlp->series, options->started_ms);
    tide_buffer_init(&otlp->json, TIDE_OTLP_RECORD_BYTES_MAX);
    tide_buffer_init(&otlp->events, TIDE_OTLP_ATTRIBUTE_BYTES_MAX);
    tide_buffer_init(&otlp->links, TIDE_OTLP_ATTRIBUTE_BYTES_MAX);
    *out = otlp;
    return TIDE_OK;
}

void tide_otlp_free(tide_otlp *otlp)
{
    if (!otlp)
        return;
    for (int layer = 0; layer < TIDE_OTLP_LAYER_COUNT; layer++)
        tide_arena_done(&otlp->arenas[layer]);
    tide_otlp_attributes_done(&otlp->attributes);
    tide_otlp_series_done(&otlp->series);
    tide_otlp_dictionary_done(&otlp->dictionary);
    tide_buffer_done(&otlp->json);
    tide_buffer_done(&otlp->events);
    tide_buffer_done(&otlp->links);
    free(otlp);
}

void tide_otlp_begin_layer(tide_otlp *otlp, tide_otlp_layer layer)
{
    tide_arena_reset(&otlp->arenas[layer]);
    otlp->reader.arena = &otlp->arenas[layer];
}

void tide_otlp_begin_member(tide_otlp *otlp)
{
    tide_otlp_begin_layer(otlp, TIDE_OTLP_LAYER_RECORD);
    tide_otlp_attributes_cut(&otlp->attributes, otlp->scope_count);
    otlp->flaw = otlp->scope_flaw;
    otlp->output->received++;
}

/* ---- flaws ---- */

void tide_otlp_note_flaw(tide_otlp *otlp, tide_otlp_reason reason)
{
    if (otlp->flaw == TIDE_OTLP_REASON_NONE)
        otlp->flaw = reason;
}

tide_status tide_otlp_note_status(tide_otlp *otlp, tide_status status)
{
    if (status == TIDE_E_LIMIT) {
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_RECORD_BYTES);
        return TIDE_OK;
    }
    if (status != TIDE_OK)
        return tide_buffer_check(status, otlp->err);
    return TIDE_OK;
}

bool tide_otlp_accept(tide_otlp *otlp, size_t texts_len)
{
    if (otlp->reader.is_overfull || texts_len > TIDE_OTLP_RECORD_BYTES_MAX ||
        otlp->attributes.bytes_len + texts_len > TIDE_OTLP_RECORD_BYTES_MAX)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_RECORD_BYTES);
    otlp->reader.is_overfull = false;
    if (otlp->flaw == TIDE_OTLP_REASON_NONE)
        return true;
    otlp->output->rejected++;
    otlp->output->reasons[otlp->flaw]++;
    return false;
}

/* ---- attributes ---- */

static tide_status push_attribute(tide_otlp *otlp, tide_view key, tide_view value)
{
    tide_otlp_reason reason;
    const tide_status status = tide_otlp_attributes_push(&otlp->attributes, key, value, &reason);
    if (status != TIDE_OK)
        return tide_no_memory(otlp->err);
    if (reason != TIDE_OTLP_REASON_NONE)
        tide_otlp_note_flaw(otlp, reason);
    return TIDE_OK;
}

tide_view tide_otlp_key_text(const tide_otlp *otlp, const tide_otlp_field *field)
{
    return field->number == TIDE_OTLP_PAIR_KEY
               ? field->text
               : tide_otlp_dictionary_string(&otlp->dictionary, field->u64);
}

tide_status tide_otlp_read_attribute(tide_otlp *otlp, const tide_otlp_message *parent,
                                     const tide_otlp_field *field)
{
    tide_otlp_message pair;
    tide_otlp_enter(&pair, parent, field);
    tide_view key = tide_view_of("");
    tide_view value = tide_view_of("");
    tide_otlp_field part;
    TIDE_EACH(tide_otlp_next(&pair, &part)) {
        if (part.number != TIDE_OTLP_PAIR_VALUE) {
            key = tide_otlp_key_text(otlp, &part);
            continue;
        }
        tide_otlp_message any;
        tide_otlp_enter(&any, &pair, &part);
        TIDE_TRY(tide_otlp_value_text(otlp, &any, &value));
    }
    return push_attribute(otlp, key, value);
}

tide_status tide_otlp_add_attribute(tide_otlp *otlp, const char *key, tide_view value)
{
    return value.len > 0 ? push_attribute(otlp, tide_view_of(key), value) : TIDE_OK;
}

void tide_otlp_expect_attribute(tide_otlp *otlp, size_t len)
{
    if (otlp->attributes.count == TIDE_OTLP_ATTRIBUTES_MAX)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_ATTRIBUTES);
    if (len > TIDE_OTLP_ATTRIBUTE_BYTES_MAX - otlp->attributes.bytes_len)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_ATTRIBUTE_BYTES);
}

tide_view tide_otlp_find_attribute(const tide_otlp *otlp, const char *const *keys)
{
    tide_view value;
    for (; *keys; keys++)
        if (tide_otlp_attributes_find(&otlp->attributes, tide_view_of(*keys), &value) &&
            value.len > 0)
            return value;
    return tide_view_of("");
}

int32_t tide_otlp_find_number(const tide_otlp *otlp, const char *const *keys)
{
    return tide_otlp_text_number(tide_otlp_find_attribute(otlp, keys));
}

int32_t tide_otlp_text_number(tide_view text)
{
    int32_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        if (c < '0' || c > '9' || number > (INT32_MAX - 9) / 10)
            return 0;
        number = number * 10 + (c - '0');
    }
    return number;
}

/* ---- records ---- */

tide_record_batch *tide_otlp_record_begin(tide_otlp *otlp, tide_stream_kind kind)
{
    tide_record_batch *batch = &otlp->output->batches[kind];
    tide_record_begin(batch);
    return batch;
}

static size_t get_output_len(const tide_otlp_output *output)
{
    size_t len = 0;
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        len += output->batches[kind].bytes.len;
    return len;
}

tide_status tide_otlp_record_end(tide_otlp *otlp, tide_record_batch *batch, int attributes_column)
{
    if (attributes_column >= 0)
        tide_otlp_attributes_write(&otlp->attributes, batch, attributes_column);
    if (batch->count == TIDE_FEED_COMMIT_RECORDS_MAX) {
        tide_record_abandon(batch);
        return tide_fail(otlp->err, TIDE_E_LIMIT, "more than %d records of %s in one request",
                         TIDE_FEED_COMMIT_RECORDS_MAX, batch->type->name);
    }
    tide_status status = tide_record_end(batch);
    if (status == TIDE_OK && get_output_len(otlp->output) > TIDE_OTLP_OUTPUT_MAX)
        status = TIDE_E_LIMIT;
    if (status == TIDE_E_LIMIT) /* one record alone is far below the limit: tide_otlp_accept */
        return tide_fail(otlp->err, status, "more than %d bytes of records in one request",
                         TIDE_OTLP_OUTPUT_MAX);
    if (status != TIDE_OK)
        return tide_buffer_check(status, otlp->err);
    return TIDE_OK;
}

int64_t tide_otlp_time_ms(const tide_otlp *otlp, uint64_t ns)
{
    return ns == 0 ? otlp->now_ms : (int64_t)(ns / 1000000);
}

bool tide_otlp_id_text(const tide_otlp_id *id, int len, char out[2 * TIDE_OTLP_ID_LEN_MAX + 1])
{
    static const uint8_t zeros[TIDE_OTLP_ID_LEN_MAX];
    out[0] = '\0';
    if (id->len != len || memcmp(id->bytes, zeros, (size_t)len) == 0)
        return false;
    tide_hex_encode(out, id->bytes, (size_t)len);
    return true;
}

/* ---- resource and scope ---- */

static bool holds(tide_view text, const char *part)
{
    return memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

/* Names that Beyla and its successor, OpenTelemetry eBPF Instrumentation, give themselves. */
static bool is_ebpf_name(tide_view name)
{
    static const char obi[] = "go.opentelemetry.io/obi";
    return tide_view_equal(name, tide_view_of("obi")) || holds(name, "beyla") ||
           holds(name, "opentelemetry-ebpf-instrumentation") ||
           (name.len >= sizeof obi - 1 && memcmp(name.ptr, obi, sizeof obi - 1) == 0);
}

static void forget_resource(tide_otlp *otlp)
{
    tide_otlp_begin_layer(otlp, TIDE_OTLP_LAYER_RESOURCE);
    tide_otlp_attributes_cut(&otlp->attributes, 0);
    otlp->resource_count = 0;
    otlp->resource_flaw = TIDE_OTLP_REASON_NONE;
    otlp->service_name = tide_view_of("unknown_service");
    otlp->is_ebpf_resource = false;
}

static void keep_resource(tide_otlp *otlp)
{
    otlp->resource_count = otlp->attributes.count;
    otlp->resource_flaw = otlp->flaw;
    static const char *const service_keys[] = {"service.name", NULL};
    static const char *const sdk_keys[] = {"telemetry.sdk.name", NULL};
    static const char *const distro_keys[] = {"telemetry.distro.name", NULL};
    const tide_view service = tide_otlp_find_attribute(otlp, service_keys);
    if (service.len > 0)
        otlp->service_name = service;
    otlp->is_ebpf_resource = is_ebpf_name(tide_otlp_find_attribute(otlp, sdk_keys)) ||
                             is_ebpf_name(tide_otlp_find_attribute(otlp, distro_keys));
}

static void forget_scope(tide_otlp *otlp)
{
    tide_otlp_begin_layer(otlp, TIDE_OTLP_LAYER_SCOPE);
    tide_otlp_attributes_cut(&otlp->attributes, otlp->resource_count);
    otlp->scope_count = otlp->resource_count;
    otlp->scope_flaw = otlp->resource_flaw;
    otlp->scope_name = tide_view_of("");
    otlp->is_ebpf = otlp->is_ebpf_resource;
}

static tide_status keep_scope(tide_otlp *otlp, tide_view version)
{
    TIDE_TRY(tide_otlp_add_attribute(otlp, "otel.scope.name", otlp->scope_name));
    TIDE_TRY(tide_otlp_add_attribute(otlp, "otel.scope.version", version));
    otlp->scope_count = otlp->attributes.count;
    otlp->scope_flaw = otlp->flaw;
    otlp->is_ebpf = otlp->is_ebpf_resource || is_ebpf_name(otlp->scope_name);
    return TIDE_OK;
}

/* A resource or a scope: what a group's members share. */
static tide_status read_owner(tide_otlp *otlp, const tide_otlp_message *group,
                              const tide_otlp_field *field, bool is_scope)
{
    const uint32_t list = is_scope ? TIDE_OTLP_SCOPE_ATTRIBUTES : TIDE_OTLP_RESOURCE_ATTRIBUTES;
    otlp->flaw = is_scope ? otlp->resource_flaw : TIDE_OTLP_REASON_NONE;
    tide_otlp_message owner;
    tide_otlp_enter(&owner, group, field);
    tide_view version = tide_view_of("");
    tide_otlp_field part;
    TIDE_EACH(tide_otlp_next(&owner, &part)) {
        if (part.number == list)
            TIDE_TRY(tide_otlp_read_attribute(otlp, &owner, &part));
        else if (part.number == TIDE_OTLP_SCOPE_NAME)
            otlp->scope_name = part.text;
        else
            version = part.text;
    }
    if (owner.reader->is_overfull || otlp->reader.is_overfull)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_ATTRIBUTE_BYTES);
    otlp->reader.is_overfull = false;
    if (is_scope)
        return keep_scope(otlp, version);
    keep_resource(otlp);
    return TIDE_OK;
}

/* The owner may stand behind its members: look for it there. */
static tide_status find_owner(tide_otlp *otlp, const tide_otlp_message *group, bool is_scope)
{
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, group);
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(&ahead.message, &field)) == TIDE_OK)
        if (field.number == TIDE_OTLP_GROUP_OWNER)
            return read_owner(otlp, &ahead.message, &field, is_scope);
    return status;
}

/* ---- the walk ---- */

static tide_status read_member(tide_otlp *otlp, const tide_otlp_message *group,
                               const tide_otlp_field *field)
{
    tide_otlp_message member;
    tide_otlp_enter(&member, group, field);
    switch (otlp->signal) {
    case TIDE_OTLP_TRACES:
        return tide_otlp_read_span(otlp, &member);
    case TIDE_OTLP_METRICS:
        return tide_otlp_read_metric(otlp, &member);
    case TIDE_OTLP_PROFILES:
        return tide_otlp_read_profile(otlp, &member);
    case TIDE_OTLP_LOGS:
    case TIDE_OTLP_SIGNAL_COUNT:
        break;
    }
    return read_log(otlp, &member);
}

/* A resource with its scopes, or a scope with its members. Of several owners the first counts. */
static tide_status read_group(tide_otlp *otlp, tide_otlp_message *group, bool is_scope)
{
    if (is_scope)
        forget_scope(otlp);
    else
        forget_resource(otlp);
    if (is_scope && otlp->signal == TIDE_OTLP_PROFILES)
        TIDE_TRY(tide_otlp_look_at_profiles(otlp, group));
    bool has_owner = false;
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(group, &field)) == TIDE_OK) {
        if (field.number == TIDE_OTLP_GROUP_OWNER) {
            if (!has_owner)
                TIDE_TRY(read_owner(otlp, group, &field, is_scope));
            has_owner = true;
            continue;
        }
        if (!has_owner)
            TIDE_TRY(find_owner(otlp, group, is_scope));
        has_owner = true;
        if (is_scope) {
            TIDE_TRY(read_member(otlp, group, &field));
        } else {
            tide_otlp_message scope;
            tide_otlp_enter(&scope, group, &field);
            TIDE_TRY(read_group(otlp, &scope, true)); /* two levels, no more */
        }
    }
    return status;
}

static tide_status read_request(tide_otlp *otlp, tide_otlp_format format, tide_view request)
{
    tide_otlp_message root;
    TIDE_TRY(tide_otlp_read(&otlp->reader, &root, tide_otlp_request_type(otlp->signal), format,
                            request, &otlp->arenas[TIDE_OTLP_LAYER_RESOURCE], otlp->err));
    if (otlp->signal == TIDE_OTLP_PROFILES && !otlp->dictionary.is_numbered)
        TIDE_TRY(tide_otlp_dictionary_read(otlp, &root));
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(&root, &field)) {
        if (field.number != TIDE_OTLP_REQUEST_RESOURCES)
            continue;
        tide_otlp_message group;
        tide_otlp_enter(&group, &root, &field);
        TIDE_TRY(read_group(otlp, &group, false));
    }
    return tide_otlp_read_end(&otlp->reader);
}

/* Profiles are read twice: their frames are numbered when everything has been found right. */
static tide_status read_all(tide_otlp *otlp, tide_otlp_format format, tide_view request)
{
    TIDE_TRY(read_request(otlp, format, request));
    if (otlp->signal != TIDE_OTLP_PROFILES || otlp->output->received == otlp->output->rejected)
        return TIDE_OK;
    TIDE_TRY(tide_otlp_dictionary_number(&otlp->dictionary, &otlp->options.frames, otlp->err));
    tide_otlp_output_clear(otlp->output);
    otlp->output->replaced = otlp->dictionary.replaced;
    return read_request(otlp, format, request);
}

tide_status tide_otlp_decode(tide_otlp *otlp, tide_otlp_signal signal, tide_otlp_format format,
                             tide_view request, int64_t now_ms, tide_otlp_output *output,
                             tide_error *err)
{
    tide_otlp_output_clear(output);
    if (request.len > TIDE_OTLP_REQUEST_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a request of %zu bytes, at most %d are taken",
                         request.len, TIDE_OTLP_REQUEST_MAX);
    otlp->signal = signal;
    otlp->output = output;
    otlp->err = err;
    otlp->now_ms = now_ms;
    const uint64_t replaced_before = otlp->attributes.replaced;
    tide_otlp_series_begin(&otlp->series);
    const tide_status status = read_all(otlp, format, request);
    /* Nothing that is borrowed from the request stays behind. */
    tide_otlp_attributes_cut(&otlp->attributes, 0);
    tide_otlp_dictionary_clear(&otlp->dictionary);
    otlp->output = NULL;
    otlp->err = NULL;
    if (status < TIDE_OK) {
        tide_otlp_undo(otlp, output);
        tide_otlp_output_clear(output);
        return status;
    }
    output->replaced += otlp->attributes.replaced - replaced_before;
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        output->replaced += output->batches[kind].replaced;
    return TIDE_OK;
}

void tide_otlp_undo(tide_otlp *otlp, tide_otlp_output *output)
{
    tide_otlp_series_undo(&otlp->series, &output->undo, &output->undo_last);
}
