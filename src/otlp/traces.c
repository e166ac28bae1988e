#include "base/cleanup.h"
#include "otlp/decode.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

typedef struct span {
    tide_otlp_id trace_id;
    tide_otlp_id span_id;
    tide_otlp_id parent_id;
    tide_view trace_state;
    tide_view name;
    uint64_t kind;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t status_code;
    tide_view status_message;

    /* from them */
    char trace_text[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    char span_text[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    char parent_text[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    uint64_t duration_ns;
} span;

/* Old and new semantic conventions; the new ones first. */
static const char *const http_status_keys[] = {"http.response.status_code", "http.status_code",
                                               NULL};
static const char *const http_method_keys[] = {"http.request.method", "http.method", NULL};
static const char *const http_route_keys[] = {"http.route", NULL};
static const char *const http_path_keys[] = {"url.path", "http.target", NULL};
static const char *const grpc_status_keys[] = {"rpc.grpc.status_code", "rpc.response.status_code",
                                               NULL};
static const char *const pid_keys[] = {"process.pid", NULL};

static tide_view kind_text(uint64_t kind)
{
    static const char *const texts[] = {"unspecified", "internal", "server",
                                        "client",      "producer", "consumer"};
    return tide_view_of(texts[kind < sizeof texts / sizeof texts[0] ? kind : 0]);
}

/* A path stands in for a missing route, without what may be private or different each time: the
 * query. */
static tide_view find_route(const tide_otlp *otlp)
{
    const tide_view route = tide_otlp_find_attribute(otlp, http_route_keys);
    if (route.len > 0)
        return route;
    const tide_view path = tide_otlp_find_attribute(otlp, http_path_keys);
    const char *query = path.len > 0 ? memchr(path.ptr, '?', path.len) : NULL;
    return query ? tide_view_bytes(path.ptr, (size_t)(query - path.ptr)) : path;
}

/* ---- reading ---- */

static tide_status read_status(tide_otlp_message *parent, const tide_otlp_field *field, span *s)
{
    tide_otlp_message message;
    tide_otlp_enter(&message, parent, field);
    tide_otlp_field part;
    tide_status status;
    while ((status = tide_otlp_next(&message, &part)) == TIDE_OK) {
        if (part.number == TIDE_OTLP_STATUS_CODE)
            s->status_code = part.u64;
        else
            s->status_message = part.text;
    }
    return status;
}

/* The name and time of an event, the ids of a link. */
static tide_status write_head(tide_otlp *otlp, tide_buffer *out, const tide_otlp_message *message,
                              bool is_event)
{
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, message);
    tide_view name = tide_view_of("");
    uint64_t time_ns = 0;
    tide_otlp_id ids[2] = {{.len = 0}, {.len = 0}};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(&ahead.message, &field)) {
        if (field.type->kind == TIDE_OTLP_KIND_TEXT)
            name = field.text;
        else if (field.type->kind == TIDE_OTLP_KIND_FIXED64)
            time_ns = field.u64;
        else if (field.type->kind == TIDE_OTLP_KIND_ID)
            ids[field.number - TIDE_OTLP_LINK_TRACE_ID] = field.id;
    }
    message->reader->is_overfull |= ahead.reader.is_overfull;
    if (is_event) {
        TIDE_TRY(tide_otlp_note_status(
            otlp,
            tide_buffer_printf(out, "{\"time_unix_nano\":\"%" PRIu64 "\",\"name\":", time_ns)));
        return tide_otlp_write_text(otlp, out, name);
    }
    char trace[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    char id[2 * TIDE_OTLP_ID_LEN_MAX + 1];
    (void)tide_otlp_id_text(&ids[0], 16, trace);
    (void)tide_otlp_id_text(&ids[1], 8, id);
    return tide_otlp_note_status(
        otlp, tide_buffer_printf(out, "{\"trace_id\":\"%s\",\"span_id\":\"%s\"", trace, id));
}

/* Append an event or a link to the list that becomes an attribute. */
static tide_status read_note(tide_otlp *otlp, tide_otlp_message *parent,
                             const tide_otlp_field *field, tide_buffer *out)
{
    const bool is_event = field->number == TIDE_OTLP_SPAN_EVENTS;
    tide_otlp_message message;
    tide_otlp_enter(&message, parent, field);
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_text(out, out->len == 0 ? "[" : ",")));
    TIDE_TRY(write_head(otlp, out, &message, is_event));
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_text(out, ",\"attributes\":")));
    TIDE_TRY(tide_otlp_write_attributes(
        otlp, out, &message, is_event ? TIDE_OTLP_EVENT_ATTRIBUTES : TIDE_OTLP_LINK_ATTRIBUTES));
    return tide_otlp_note_status(otlp, tide_buffer_append_text(out, "}"));
}

static tide_status read_field(tide_otlp *otlp, tide_otlp_message *message,
                              const tide_otlp_field *field, span *s)
{
    switch (field->number) {
    case TIDE_OTLP_SPAN_TRACE_ID:
        s->trace_id = field->id;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_SPAN_ID:
        s->span_id = field->id;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_PARENT_SPAN_ID:
        s->parent_id = field->id;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_TRACE_STATE:
        s->trace_state = field->text;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_NAME:
        s->name = field->text;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_KIND:
        s->kind = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_START:
        s->start_ns = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_END:
        s->end_ns = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_SPAN_ATTRIBUTES:
        return tide_otlp_read_attribute(otlp, message, field);
    case TIDE_OTLP_SPAN_EVENTS:
        return read_note(otlp, message, field, &otlp->events);
    case TIDE_OTLP_SPAN_LINKS:
        return read_note(otlp, message, field, &otlp->links);
    default: /* TIDE_OTLP_SPAN_STATUS */
        return read_status(message, field, s);
    }
}

/* ---- deciding ---- */

/* The same for all spans of a trace, whoever decides. Trace ids need not be random: so hash. */
static bool is_sampled(const tide_otlp *otlp, const span *s)
{
    const double fraction = otlp->options.sample_fraction;
    if (fraction >= 1 || s->status_code == TIDE_OTLP_STATUS_ERROR ||
        s->duration_ns > (uint64_t)TIDE_OTLP_SLOW_MS * 1000000)
        return true;
    const uint64_t hash = XXH3_64bits(s->trace_id.bytes, sizeof s->trace_id.bytes);
    return (double)(hash >> 11) * 0x1p-53 < fraction;
}

static void check_span(tide_otlp *otlp, span *s)
{
    const bool has_trace = tide_otlp_id_text(&s->trace_id, 16, s->trace_text);
    const bool has_span = tide_otlp_id_text(&s->span_id, 8, s->span_text);
    (void)tide_otlp_id_text(&s->parent_id, 8, s->parent_text);
    if (!has_trace || !has_span)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_IDS);
    s->duration_ns = s->end_ns > s->start_ns && s->start_ns > 0 ? s->end_ns - s->start_ns : 0;
}

static tide_status add_notes(tide_otlp *otlp, const char *key, tide_buffer *notes)
{
    if (notes->len == 0)
        return TIDE_OK;
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_text(notes, "]")));
    TIDE_TRY(tide_otlp_add_attribute(otlp, key, tide_buffer_view(notes)));
    return TIDE_OK;
}

/* What has no column of its own. */
static tide_status add_rest(tide_otlp *otlp, const span *s)
{
    TIDE_TRY(tide_otlp_add_attribute(otlp, "w3c.tracestate", s->trace_state));
    TIDE_TRY(tide_otlp_add_attribute(otlp, "otel.status_description", s->status_message));
    TIDE_TRY(add_notes(otlp, "otel.events", &otlp->events));
    TIDE_TRY(add_notes(otlp, "otel.links", &otlp->links));
    return TIDE_OK;
}

/* ---- writing ---- */

static tide_status write_telemetry(tide_otlp *otlp, const span *s)
{
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_TELEMETRY);
    tide_record_i64(batch, TIDE_SPAN_TIMESTAMP, tide_otlp_time_ms(otlp, s->start_ns));
    tide_record_text(batch, TIDE_SPAN_TRACE_ID, tide_view_of(s->trace_text));
    tide_record_text(batch, TIDE_SPAN_SPAN_ID, tide_view_of(s->span_text));
    tide_record_text(batch, TIDE_SPAN_PARENT_SPAN_ID, tide_view_of(s->parent_text));
    tide_record_text(batch, TIDE_SPAN_SERVICE_NAME, otlp->service_name);
    tide_record_text(batch, TIDE_SPAN_SPAN_KIND, kind_text(s->kind));
    tide_record_f64(batch, TIDE_SPAN_DURATION_MS, (double)s->duration_ns / 1e6);
    tide_record_bool(batch, TIDE_SPAN_IS_ERROR, s->status_code == TIDE_OTLP_STATUS_ERROR);
    tide_record_i64(batch, TIDE_SPAN_HTTP_STATUS, tide_otlp_find_number(otlp, http_status_keys));
    tide_record_text(batch, TIDE_SPAN_HTTP_METHOD,
                     tide_otlp_find_attribute(otlp, http_method_keys));
    tide_record_text(batch, TIDE_SPAN_HTTP_ROUTE, find_route(otlp));
    tide_record_text(batch, TIDE_SPAN_SPAN_NAME, s->name);
    return tide_otlp_record_end(otlp, batch, TIDE_SPAN_ATTRIBUTES);
}

/* status_code is what the protocol answered; whether the span failed is told by an attribute. */
static tide_status write_ebpf(tide_otlp *otlp, const span *s)
{
    static const char *const status_texts[] = {"", "OK", "ERROR"};
    if (s->status_code <= TIDE_OTLP_STATUS_ERROR)
        TIDE_TRY(tide_otlp_add_attribute(otlp, "otel.status_code",
                                         tide_view_of(status_texts[s->status_code])));
    int32_t answer = tide_otlp_find_number(otlp, http_status_keys);
    if (answer == 0)
        answer = tide_otlp_find_number(otlp, grpc_status_keys);
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_BEYLA_TRACES);
    tide_record_text(batch, TIDE_TRACE_TRACE_ID, tide_view_of(s->trace_text));
    tide_record_text(batch, TIDE_TRACE_SPAN_ID, tide_view_of(s->span_text));
    tide_record_text(batch, TIDE_TRACE_PARENT_SPAN_ID, tide_view_of(s->parent_text));
    tide_record_text(batch, TIDE_TRACE_SERVICE_NAME, otlp->service_name);
    tide_record_text(batch, TIDE_TRACE_SPAN_NAME, s->name);
    tide_record_text(batch, TIDE_TRACE_SPAN_KIND, kind_text(s->kind));
    tide_record_i64(batch, TIDE_TRACE_START_TIME, tide_otlp_time_ms(otlp, s->start_ns));
    tide_record_i64(batch, TIDE_TRACE_DURATION_US, (int64_t)(s->duration_ns / 1000));
    tide_record_i64(batch, TIDE_TRACE_STATUS_CODE, answer);
    tide_record_i64(batch, TIDE_TRACE_PROCESS_PID, tide_otlp_find_number(otlp, pid_keys));
    return tide_otlp_record_end(otlp, batch, TIDE_TRACE_ATTRIBUTES);
}

tide_status tide_otlp_read_span(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_begin_member(otlp);
    tide_buffer_clear(&otlp->events);
    tide_buffer_clear(&otlp->links);
    span s = {.name = tide_view_of(""),
              .trace_state = tide_view_of(""),
              .status_message = tide_view_of("")};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field))
        TIDE_TRY(read_field(otlp, message, &field, &s));
    check_span(otlp, &s);
    TIDE_TRY(add_rest(otlp, &s));
    if (!tide_otlp_accept(otlp, s.name.len))
        return TIDE_OK;
    if (!is_sampled(otlp, &s)) {
        otlp->output->sampled_out++;
        return TIDE_OK;
    }
    return otlp->is_ebpf ? write_ebpf(otlp, &s) : write_telemetry(otlp, &s);
}
