/* otlp_service.c - OTLP over gRPC and over HTTP: decoded, handed to the writer, answered when it is durable.
 *
 * What an exporter is told follows the OTLP specification: success with partial_success where records were rejected; a malformed
 * request is not to be sent again; what can be better in a moment is UNAVAILABLE with RetryInfo (gRPC), 503 with Retry-After (HTTP). An
 * outcome that nobody knows is told like that, too: sent again the records may be there twice, not sent again they may be lost.
 * Bodies of errors are google.rpc.Status in the format of the request. */
#include <stdlib.h>
#include <string.h>

#include "net/codec/status_details.h"
#include "net/http/grpc.h"
#include "services/agent/services.h"

#define RETRY_AFTER_S 1.0

enum {
    ANSWER_MAX = 65536,
    GROWTH = 2, /* bytes of records that a byte of a request becomes, about: ids become texts */
};

static const char *const signal_names[] = {[TIDE_OTLP_TRACES] = "traces",
                                           [TIDE_OTLP_METRICS] = "metrics",
                                           [TIDE_OTLP_LOGS] = "logs",
                                           [TIDE_OTLP_PROFILES] = "profiles"};

typedef struct export
{
    tide_feed_put put; /* first: the writer hands it back */
    tide_call *call;
    const tide_agent_services *services;
    tide_otlp_output output;
    tide_otlp_signal signal;
    tide_otlp_format format;
    bool is_http;
}
export;

/* ---- answers ---- */

static const char *content_type_of(tide_otlp_format format)
{
    return format == TIDE_OTLP_JSON ? "application/json" : "application/x-protobuf";
}

/* A damaged store is replaced or salvaged one day: what was not stored may be sent again. */
static bool may_try_again(tide_status status)
{
    return tide_status_get(status)->is_retryable || status == TIDE_E_OUTCOME_UNKNOWN ||
           status == TIDE_E_DAMAGED;
}

static int http_code_of(tide_status status)
{
    if (may_try_again(status))
        return 503;
    return status == TIDE_E_INVALID || status == TIDE_E_LIMIT ? tide_status_get(status)->http_code
                                                              : 500;
}

static void refuse_http(tide_call *call, tide_otlp_format format, tide_status status,
                        const tide_status_details *details)
{
    TIDE_BUFFER(body, ANSWER_MAX);
    if ((format == TIDE_OTLP_JSON ? tide_status_details_json(&body, details)
                                  : tide_status_details_encode(&body, details)) < TIDE_OK)
        tide_buffer_clear(&body);
    if (details->retry_after_s > 0)
        tide_call_add_header(call, "retry-after", "1");
    tide_call_http_respond(call, http_code_of(status), content_type_of(format),
                           tide_buffer_view(&body));
}

static void refuse(tide_call *call, bool is_http, tide_otlp_format format, tide_status status,
                   const tide_error *err)
{
    tide_status_details details = tide_status_details_of(status, err);
    if (may_try_again(status)) {
        details.grpc_code = TIDE_GRPC_UNAVAILABLE;
        details.retry_after_s = RETRY_AFTER_S;
    }
    if (is_http) {
        refuse_http(call, format, status, &details);
        return;
    }
    tide_call_end_with(call, &(tide_call_status){.grpc_code = details.grpc_code,
                                                 .message = details.message,
                                                 .retry_after_s = details.retry_after_s});
}

static void answer(const export *e)
{
    TIDE_BUFFER(body, ANSWER_MAX);
    if (tide_otlp_answer(&body, e->signal, e->format, &e->output) < TIDE_OK)
        tide_buffer_clear(&body); /* an empty answer is success without details */
    if (e->is_http)
        tide_call_http_respond(e->call, 200, content_type_of(e->format), tide_buffer_view(&body));
    else
        tide_call_respond(e->call, tide_buffer_view(&body));
}

static void count_refused(const export *e, const char *reason, int64_t count)
{
    if (count > 0 && e->services->metrics)
        tide_series_add(tide_metrics_series(e->services->metrics, TIDE_METRIC_OTLP_REFUSED,
                                            signal_names[e->signal], reason),
                        count);
}

static void count_all(const export *e)
{
    count_refused(e, "rejected", e->output.rejected);
    count_refused(e, "sampled", e->output.sampled_out);
    if (e->output.replaced > 0 && e->services->metrics)
        tide_metrics_add(e->services->metrics, TIDE_METRIC_TEXT_CLEANED,
                         (int64_t)e->output.replaced);
}

/* ---- the way of a request ---- */

static void export_free(export *e)
{
    tide_otlp_output_done(&e->output);
    tide_call_release(e->call);
    free(e);
}

static void note_stored(tide_feed_put *put, tide_status status, const tide_error *err)
{
    export *e = (export *)put;
    if (status >= TIDE_OK) {
        count_all(e);
        answer(e);
    } else {
        tide_otlp_pool_undo(e->services->otlp, e->signal, &e->output);
        count_refused(e, "not stored", e->output.received);
        refuse(e->call, e->is_http, e->format, status, err);
    }
    export_free(e);
}

static tide_status store(export *e, tide_view request, tide_error *err)
{
    tide_feed_writer *writer = e->services->writer;
    TIDE_TRY(tide_feed_writer_reserve(writer, &e->put, GROWTH * request.len, err));
    tide_status status =
        tide_otlp_pool_decode(e->services->otlp, e->signal, e->format, request, &e->output, err);
    if (status < TIDE_OK) {
        tide_feed_writer_unreserve(writer, &e->put);
        return status;
    }
    e->put.done = note_stored;
    e->put.count = tide_otlp_output_records(&e->output, e->put.records);
    status = tide_feed_writer_put(writer, &e->put, err);
    if (status < TIDE_OK)
        tide_otlp_pool_undo(e->services->otlp, e->signal, &e->output);
    return status;
}

static void receive(tide_call *call, tide_view request, const tide_agent_services *services,
                    tide_otlp_signal signal, tide_otlp_format format, bool is_http)
{
    tide_error err = {0};
    export *e = calloc(1, sizeof *e);
    if (!e) {
        refuse(call, is_http, format, tide_no_memory(&err), &err);
        return;
    }
    tide_call_hold(call);
    *e = (export){
        .call = call, .services = services, .signal = signal, .format = format, .is_http = is_http};
    tide_otlp_output_init(&e->output);
    const tide_status status = store(e, request, &err);
    if (status >= TIDE_OK)
        return; /* e is the writer's, or gone */
    count_refused(e, "not stored", e->output.received);
    refuse(call, is_http, format, status, &err);
    export_free(e);
}

/* ---- gRPC ---- */

static void run_traces(tide_call *call, tide_view message, void *arg)
{
    receive(call, message, arg, TIDE_OTLP_TRACES, TIDE_OTLP_PROTOBUF, false);
}

static void run_metrics(tide_call *call, tide_view message, void *arg)
{
    receive(call, message, arg, TIDE_OTLP_METRICS, TIDE_OTLP_PROTOBUF, false);
}

static void run_logs(tide_call *call, tide_view message, void *arg)
{
    receive(call, message, arg, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF, false);
}

static void run_profiles(tide_call *call, tide_view message, void *arg)
{
    receive(call, message, arg, TIDE_OTLP_PROFILES, TIDE_OTLP_PROTOBUF, false);
}

#define COLLECTOR "/opentelemetry.proto.collector."

const tide_method tide_agent_otlp[] = {
    {.path = COLLECTOR "trace.v1.TraceService/Export",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_traces},
    {.path = COLLECTOR "metrics.v1.MetricsService/Export",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_metrics},
    {.path = COLLECTOR "logs.v1.LogsService/Export",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_logs},
    {.path = COLLECTOR "profiles.v1development.ProfilesService/Export",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_profiles},
    {.path = NULL},
};

/* ---- HTTP ---- */

static void receive_http(tide_call *call, tide_view body, const tide_agent_services *services,
                         tide_otlp_signal signal)
{
    const char *type = tide_call_content_type(call);
    if (strcmp(type, "application/json") == 0) {
        receive(call, body, services, signal, TIDE_OTLP_JSON, true);
    } else if (strcmp(type, "application/x-protobuf") == 0) {
        receive(call, body, services, signal, TIDE_OTLP_PROTOBUF, true);
    } else {
        tide_call_http_respond(
            call, 415, "text/plain; charset=utf-8",
            tide_view_of("Content-Type must be application/x-protobuf or application/json\n"));
    }
}

static void run_http_traces(tide_call *call, tide_view body, void *arg)
{
    receive_http(call, body, arg, TIDE_OTLP_TRACES);
}

static void run_http_metrics(tide_call *call, tide_view body, void *arg)
{
    receive_http(call, body, arg, TIDE_OTLP_METRICS);
}

static void run_http_logs(tide_call *call, tide_view body, void *arg)
{
    receive_http(call, body, arg, TIDE_OTLP_LOGS);
}

static void run_http_profiles(tide_call *call, tide_view body, void *arg)
{
    receive_http(call, body, arg, TIDE_OTLP_PROFILES);
}

const tide_route tide_agent_otlp_routes[] = {
    {.method = "POST",
     .path = "/v1/traces",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_http_traces},
    {.method = "POST",
     .path = "/v1/metrics",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_http_metrics},
    {.method = "POST",
     .path = "/v1/logs",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_http_logs},
    {.method = "POST",
     .path = "/v1development/profiles",
     .role = TIDE_ROLE_INGEST,
     .is_blocking = true,
     .run = run_http_profiles},
    {.method = NULL},
};
