#include "net/codec/status_details.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/utf8.h"
#include "net/codec/protobuf_wire.h"

#define TYPE_PREFIX "type.googleapis.com/google.rpc."

enum {
    STATUS_CODE = 1,
    STATUS_MESSAGE = 2,
    STATUS_DETAILS = 3,
    ANY_TYPE = 1,
    ANY_VALUE = 2,
    RETRY_DELAY = 1,
    DURATION_SECONDS = 1,
    DURATION_NANOS = 2,
    INFO_REASON = 1,
    INFO_DOMAIN = 2,
    INFO_METADATA = 3,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    REQUEST_VIOLATION = 1,
    VIOLATION_FIELD = 1,
    VIOLATION_DESCRIPTION = 2,
};

enum { RETRY_MAX_S = 24 * 60 * 60 };

const char *tide_status_reason(tide_status status)
{
    const char *name = tide_status_get(status)->name;
    return strncmp(name, "E_", 2) == 0 ? name + 2 : name;
}

tide_status_details tide_status_details_of(tide_status status, const tide_error *err)
{
    const tide_status_row *row = tide_status_get(status);
    return (tide_status_details){
        .grpc_code = row->grpc_code,
        .message = err && err->text[0] != '\0' ? err->text : row->text,
        .reason = tide_status_reason(status),
    };
}

static const char *get_domain(const tide_status_details *details)
{
    return details->domain ? details->domain : "tidemark";
}

static int64_t get_retry_ms(const tide_status_details *details)
{
    if (!(details->retry_after_s > 0)) /* nor a NaN */
        return 0;
    if (details->retry_after_s > RETRY_MAX_S)
        return (int64_t)RETRY_MAX_S * 1000;
    const int64_t ms = (int64_t)(details->retry_after_s * 1000.0 + 0.5);
    return ms > 0 ? ms : 1;
}

/* --- protobuf --- */

static tide_status append_text(tide_buffer *out, uint32_t number, const char *text)
{
    if (!text || text[0] == '\0')
        return TIDE_OK;
    size_t content_at;
    size_t replaced;
    TIDE_TRY(tide_wire_begin(out, number, &content_at));
    TIDE_TRY(tide_utf8_clean(out, tide_view_of(text), &replaced));
    return tide_wire_end(out, content_at);
}

typedef tide_status append_fn(tide_buffer *out, const tide_status_details *details);

static tide_status append_detail(tide_buffer *out, const char *type, append_fn *append_content,
                                 const tide_status_details *details)
{
    size_t any_at;
    size_t value_at;
    TIDE_TRY(tide_wire_begin(out, STATUS_DETAILS, &any_at));
    TIDE_TRY(tide_wire_append_text(out, ANY_TYPE, type));
    TIDE_TRY(tide_wire_begin(out, ANY_VALUE, &value_at));
    TIDE_TRY(append_content(out, details));
    TIDE_TRY(tide_wire_end(out, value_at));
    return tide_wire_end(out, any_at);
}

static tide_status append_retry(tide_buffer *out, const tide_status_details *details)
{
    const int64_t ms = get_retry_ms(details);
    size_t content_at;
    TIDE_TRY(tide_wire_begin(out, RETRY_DELAY, &content_at));
    if (ms / 1000 > 0)
        TIDE_TRY(tide_wire_append_varint(out, DURATION_SECONDS, (uint64_t)(ms / 1000)));
    if (ms % 1000 > 0)
        TIDE_TRY(tide_wire_append_varint(out, DURATION_NANOS, (uint64_t)(ms % 1000 * 1000000)));
    return tide_wire_end(out, content_at);
}

static tide_status append_info(tide_buffer *out, const tide_status_details *details)
{
    TIDE_TRY(append_text(out, INFO_REASON, details->reason));
    TIDE_TRY(append_text(out, INFO_DOMAIN, get_domain(details)));
    for (size_t i = 0; i < details->metadata_count; i++) {
        size_t entry_at;
        TIDE_TRY(tide_wire_begin(out, INFO_METADATA, &entry_at));
        TIDE_TRY(append_text(out, ENTRY_KEY, details->metadata[i].key));
        TIDE_TRY(append_text(out, ENTRY_VALUE, details->metadata[i].value));
        TIDE_TRY(tide_wire_end(out, entry_at));
    }
    return TIDE_OK;
}

static tide_status append_violations(tide_buffer *out, const tide_status_details *details)
{
    for (size_t i = 0; i < details->violation_count; i++) {
        size_t violation_at;
        TIDE_TRY(tide_wire_begin(out, REQUEST_VIOLATION, &violation_at));
        TIDE_TRY(append_text(out, VIOLATION_FIELD, details->violations[i].field));
        TIDE_TRY(append_text(out, VIOLATION_DESCRIPTION, details->violations[i].description));
        TIDE_TRY(tide_wire_end(out, violation_at));
    }
    return TIDE_OK;
}

static tide_status append_status(tide_buffer *out, const tide_status_details *details)
{
    if (details->grpc_code != 0)
        TIDE_TRY(tide_wire_append_varint(out, STATUS_CODE, (uint64_t)(int64_t)details->grpc_code));
    TIDE_TRY(append_text(out, STATUS_MESSAGE, details->message));
    if (get_retry_ms(details) > 0)
        TIDE_TRY(append_detail(out, TYPE_PREFIX "RetryInfo", append_retry, details));
    if (details->reason)
        TIDE_TRY(append_detail(out, TYPE_PREFIX "ErrorInfo", append_info, details));
    if (details->violation_count > 0)
        TIDE_TRY(append_detail(out, TYPE_PREFIX "BadRequest", append_violations, details));
    return TIDE_OK;
}

tide_status tide_status_details_encode(tide_buffer *out, const tide_status_details *details)
{
    const size_t before_len = out->len;
    const tide_status status = append_status(out, details);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

/* --- JSON --- */

static void write_text(tide_json *json, const char *key, const char *text)
{
    tide_json_key(json, key);
    tide_json_text(json, text ? text : "");
}

static void write_retry(tide_json *json, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64 "s", ms / 1000, ms % 1000);
    tide_json_object_begin(json);
    write_text(json, "@type", TYPE_PREFIX "RetryInfo");
    write_text(json, "retryDelay", text);
    tide_json_object_end(json);
}

static void write_info(tide_json *json, const tide_status_details *details)
{
    tide_json_object_begin(json);
    write_text(json, "@type", TYPE_PREFIX "ErrorInfo");
    write_text(json, "reason", details->reason);
    write_text(json, "domain", get_domain(details));
    if (details->metadata_count > 0) {
        tide_json_key(json, "metadata");
        tide_json_object_begin(json);
        for (size_t i = 0; i < details->metadata_count; i++)
            write_text(json, details->metadata[i].key, details->metadata[i].value);
        tide_json_object_end(json);
    }
    tide_json_object_end(json);
}

static void write_violations(tide_json *json, const tide_status_details *details)
{
    tide_json_object_begin(json);
    write_text(json, "@type", TYPE_PREFIX "BadRequest");
    tide_json_key(json, "fieldViolations");
    tide_json_array_begin(json);
    for (size_t i = 0; i < details->violation_count; i++) {
        tide_json_object_begin(json);
        write_text(json, "field", details->violations[i].field);
        write_text(json, "description", details->violations[i].description);
        tide_json_object_end(json);
    }
    tide_json_array_end(json);
    tide_json_object_end(json);
}

tide_status tide_status_details_json(tide_buffer *out, const tide_status_details *details)
{
    const size_t before_len = out->len;
    const int64_t retry_ms = get_retry_ms(details);
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "code");
    tide_json_i64(&json, details->grpc_code);
    write_text(&json, "message", details->message);
    if (retry_ms > 0 || details->reason || details->violation_count > 0) {
        tide_json_key(&json, "details");
        tide_json_array_begin(&json);
        if (retry_ms > 0)
            write_retry(&json, retry_ms);
        if (details->reason)
            write_info(&json, details);
        if (details->violation_count > 0)
            write_violations(&json, details);
        tide_json_array_end(&json);
    }
    tide_json_object_end(&json);
    const tide_status status = tide_json_finish(&json);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}
