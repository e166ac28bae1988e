/* Records: what is written is what every protobuf parser reads, and bytes are never trusted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/record.h"
#include "support/check.h"
#include "support/prng.h"
#include "tidemark_agent_v1_agent.pb-c.h"

static void add_span(tide_record_batch *batch)
{
    tide_record_begin(batch);
    tide_record_i64(batch, TIDE_SPAN_TIMESTAMP, 1700000000123);
    tide_record_text(batch, TIDE_SPAN_TRACE_ID, tide_view_of("0af7651916cd43dd8448eb211c80319c"));
    tide_record_text(batch, TIDE_SPAN_SPAN_ID, tide_view_of("b7ad6b7169203331"));
    tide_record_text(batch, TIDE_SPAN_PARENT_SPAN_ID, tide_view_of(""));
    tide_record_text(batch, TIDE_SPAN_SERVICE_NAME, tide_view_of("api"));
    tide_record_text(batch, TIDE_SPAN_SPAN_KIND, tide_view_of("SERVER"));
    tide_record_f64(batch, TIDE_SPAN_DURATION_MS, 12.5);
    tide_record_bool(batch, TIDE_SPAN_IS_ERROR, true);
    tide_record_i64(batch, TIDE_SPAN_HTTP_STATUS, -1);
    tide_record_pair(batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("k"), tide_view_of("v"));
    tide_record_pair(batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("empty"), tide_view_of(""));
    tide_record_text(batch, TIDE_SPAN_SPAN_NAME, tide_view_of("GET /"));
    assert_ok(tide_record_end(batch));
}

/* A body is the repeated field of the query response: a generated parser reads it whole, numbers included. */
static void a_body_is_a_query_response(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_TELEMETRY), 0);
    for (int i = 0; i < 3; i++)
        add_span(&batch);
    tide_digest128 chain = {{0}};
    tide_error err;
    const int64_t first = INT64_C(1) << 40;
    assert_ok_err(
        tide_record_number(batch.type, batch.bytes.ptr, batch.bytes.len, 3, first, &chain, &err),
        &err);
    Tidemark__Agent__V1__QueryTelemetryResponse *response =
        tidemark__agent__v1__query_telemetry_response__unpack(NULL, batch.bytes.len,
                                                              (const uint8_t *)batch.bytes.ptr);
    assert_non_null(response);
    assert_int_equal(3, response->n_spans);
    for (size_t i = 0; i < 3; i++) {
        const Tidemark__Agent__V1__TelemetrySpan *span = response->spans[i];
        assert_int_equal(first + (int64_t)i, span->seq_id);
        assert_int_equal(1700000000123, span->timestamp);
        assert_string_equal("api", span->service_name);
        assert_string_equal("", span->parent_span_id);
        assert_string_equal("GET /", span->span_name);
        assert_true(span->duration_ms == 12.5);
        assert_true(span->is_error);
        assert_int_equal(-1, span->http_status);
        assert_int_equal(2, span->n_attributes);
        assert_string_equal("v", span->attributes[0]->value);
    }
    tidemark__agent__v1__query_telemetry_response__free_unpacked(response, NULL);
    assert_int_equal(1700000000123, batch.min_time_ms);
    assert_int_equal(4, batch.services.len);
    assert_string_equal("api", tide_buffer_text(&batch.services));
}

static void fill_column(tide_record_batch *batch, int column, uint64_t n)
{
    const uint64_t ids[] = {n, n + 1, UINT64_MAX};
    char text[32];
    (void)snprintf(text, sizeof text, "text %llu", (unsigned long long)n);
    switch (batch->type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
        tide_record_i64(batch, column, -(int64_t)n);
        break;
    case TIDE_COLUMN_U64:
        tide_record_u64(batch, column, n);
        break;
    case TIDE_COLUMN_F64:
        tide_record_f64(batch, column, (double)n / 3);
        break;
    case TIDE_COLUMN_BOOL:
        tide_record_bool(batch, column, n & 1);
        break;
    case TIDE_COLUMN_TEXT:
        tide_record_text(batch, column, tide_view_of(text));
        break;
    case TIDE_COLUMN_BLOB:
        tide_record_blob(batch, column, tide_view_bytes(&n, sizeof n));
        break;
    case TIDE_COLUMN_MAP:
        tide_record_pair(batch, column, tide_view_of(text), tide_view_of("value"));
        break;
    case TIDE_COLUMN_IDS:
        tide_record_ids(batch, column, ids, 3);
        break;
    }
}

static void check_column(const tide_stream_type *type, const tide_record_row *row, int column,
                         uint64_t n)
{
    const tide_record_value *value = &row->values[column];
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    uint64_t id = 0;
    tide_view key;
    tide_view text;
    switch (type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
        assert_int_equal(-(int64_t)n, value->i64);
        break;
    case TIDE_COLUMN_U64:
        assert_int_equal(n, value->u64);
        break;
    case TIDE_COLUMN_F64:
        assert_true(value->f64 == (double)n / 3);
        break;
    case TIDE_COLUMN_BOOL:
        assert_int_equal(n & 1, value->i64);
        break;
    case TIDE_COLUMN_TEXT:
        assert_true(value->bytes.len > 5 && memcmp(value->bytes.ptr, "text ", 5) == 0);
        break;
    case TIDE_COLUMN_BLOB:
        assert_memory_equal(&n, value->bytes.ptr, sizeof n);
        break;
    case TIDE_COLUMN_MAP:
        assert_int_equal(1, value->count);
        assert_true(tide_record_next_pair(&cursor, &key, &text));
        assert_true(tide_view_equal(text, tide_view_of("value")));
        assert_false(tide_record_next_pair(&cursor, &key, &text));
        break;
    case TIDE_COLUMN_IDS:
        assert_int_equal(3, value->count);
        assert_true(tide_record_next_id(&cursor, &id) && id == n);
        assert_true(tide_record_next_id(&cursor, &id) && id == n + 1);
        assert_true(tide_record_next_id(&cursor, &id) && id == UINT64_MAX);
        assert_false(tide_record_next_id(&cursor, &id));
        break;
    }
}

/* Every column of every stream comes back as it was given. */
static void every_column_of_every_stream_comes_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const tide_stream_type *type = tide_stream_type_of((tide_stream_kind)kind);
        TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
        tide_record_batch_init(&batch, type, 0);
        for (uint64_t n = 1; n < 5; n++) {
            tide_record_begin(&batch);
            for (int c = 0; c < type->column_count; c++)
                fill_column(&batch, c, n);
            assert_ok(tide_record_end(&batch));
        }
        tide_view rest = tide_buffer_view(&batch.bytes);
        tide_record record;
        for (uint64_t n = 1; n < 5; n++) {
            tide_record_row row;
            tide_error err;
            assert_ok(tide_record_next(type, &rest, &record));
            assert_ok(tide_record_decode(type, record.message, &row));
            assert_ok_err(tide_record_check(type, &record, &err), &err);
            for (int c = 0; c < type->column_count; c++) {
                tide_record_value alone;
                check_column(type, &row, c, n);
                assert_ok(tide_record_find(type, record.message, c, &alone));
                assert_memory_equal(&alone, &row.values[c], sizeof alone);
            }
        }
        assert_status(TIDE_NONE, tide_record_next(type, &rest, &record));
        assert_int_equal(kind == TIDE_STREAM_OPAQUE, type->service_column < 0);
    }
}

/* Text becomes valid UTF-8 without NUL on the way in, and the replacements are counted. */
static void text_is_cleaned_and_counted(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_LOGS);
    tide_record_batch_init(&batch, type, 0);
    tide_record_begin(&batch);
    tide_record_text(&batch, TIDE_LOG_BODY,
                     tide_view_bytes("a\0b\xff long enough to be a word", 28));
    tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_bytes("s\xc3", 2));
    tide_record_pair(&batch, TIDE_LOG_ATTRIBUTES, tide_view_bytes("k\0", 2),
                     tide_view_of("\xed\xa0\x80"));
    assert_ok(tide_record_end(&batch));
    assert_int_equal(2 + 1 + 1 + 3, batch.replaced);
    tide_view rest = tide_buffer_view(&batch.bytes);
    tide_record record;
    tide_error err;
    assert_ok(tide_record_next(type, &rest, &record));
    assert_ok_err(tide_record_check(type, &record, &err), &err);
    assert_string_equal("s\xEF\xBF\xBD", tide_buffer_text(&batch.services));
}

/* A record that is too long is left out as a whole; the others stay. Lengths around each varint step are right. */
static void records_are_whole_or_left_out(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    tide_record_batch_init(&batch, type, 0);
    TIDE_CLEANUP(tide_freep) char *data = calloc(1, TIDE_FEED_RECORD_MAX);
    static const size_t lens[] = {0,     1,     110,   111,   112,   113,     114,     115,    116,
                                  16368, 16369, 16370, 16371, 16372, 2097130, 2097136, 2097140};
    size_t total = 0;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        tide_record_begin(&batch);
        tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_bytes(data, lens[i]));
        assert_ok(tide_record_end(&batch));
        total += lens[i];
    }
    const size_t before_len = batch.bytes.len;
    tide_record_begin(&batch);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_bytes(data, TIDE_FEED_RECORD_MAX));
    assert_status(TIDE_E_LIMIT, tide_record_end(&batch));
    tide_record_begin(&batch);
    tide_record_abandon(&batch);
    assert_int_equal(before_len, batch.bytes.len);
    assert_int_equal(1, batch.refused);
    tide_view rest = tide_buffer_view(&batch.bytes);
    tide_record record;
    int count = 0;
    size_t seen = 0;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_record_value value;
        assert_ok(tide_record_find(type, record.message, TIDE_OPAQUE_DATA, &value));
        seen += value.bytes.len;
        count++;
    }
    assert_int_equal(batch.count, count);
    assert_int_equal(total, seen);
}

static void a_set_of_too_many_services_says_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    for (int i = 0; i <= TIDE_RECORD_SERVICES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        tide_record_begin(&batch);
        tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_of(name));
        assert_ok(tide_record_end(&batch));
        const tide_feed_records records = tide_record_batch_feed(&batch, NULL);
        const char *const wanted[] = {"other"};
        assert_true(tide_record_services_may_hold(records.services, wanted, 1) ==
                    (i == TIDE_RECORD_SERVICES_MAX));
    }
}

/* Flipped bits, cut ends: a walk either ends as damaged or gives records that can be decoded or refused; it never runs over. */
static void damaged_bytes_are_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_TELEMETRY);
    tide_record_batch_init(&batch, type, 0);
    for (int i = 0; i < 3; i++)
        add_span(&batch);
    prng p;
    prng_init(&p, prng_seed_from_env(7));
    for (int i = 0; i < 20000; i++) {
        const size_t len =
            prng_below(&p, 4) == 0 ? prng_below(&p, batch.bytes.len) : batch.bytes.len;
        TIDE_CLEANUP(tide_freep) char *bytes = malloc(len + 1);
        memcpy(bytes, batch.bytes.ptr, len);
        if (len > 0)
            bytes[prng_below(&p, len)] ^= (char)(1 << prng_below(&p, 8));
        tide_view rest = tide_view_bytes(bytes, len);
        tide_record record;
        while (tide_record_next(type, &rest, &record) == TIDE_OK) {
            tide_record_row row;
            tide_error err;
            TIDE_IGNORE(tide_record_decode(type, record.message, &row));
            TIDE_IGNORE(tide_record_check(type, &record, &err));
        }
    }
}

static void a_record_reads_as_json(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    tide_record_batch_init(&batch, type, 0);
    tide_record_begin(&batch);
    tide_record_i64(&batch, TIDE_OPAQUE_TIMESTAMP, 5);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_of("hello"));
    tide_record_pair(&batch, TIDE_OPAQUE_ATTRIBUTES, tide_view_of("a"), tide_view_of("old"));
    tide_record_pair(&batch, TIDE_OPAQUE_ATTRIBUTES, tide_view_of("b"), tide_view_of("\"x\""));
    tide_record_pair(&batch, TIDE_OPAQUE_ATTRIBUTES, tide_view_of("a"), tide_view_of("new"));
    assert_ok(tide_record_end(&batch));
    tide_view rest = tide_buffer_view(&batch.bytes);
    tide_record record;
    tide_record_row row;
    assert_ok(tide_record_next(type, &rest, &record));
    assert_ok(tide_record_decode(type, record.message, &row));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    tide_buffer_init(&json, 4096);
    assert_ok(tide_record_row_json(&json, type, &row));
    assert_string_equal("{\"seq_id\":0,\"timestamp\":5,\"data\":\"aGVsbG8=\",\"attributes\":"
                        "{\"b\":\"\\\"x\\\"\",\"a\":\"new\"}}",
                        tide_buffer_text(&json));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_a_query_response),
        cmocka_unit_test(every_column_of_every_stream_comes_back),
        cmocka_unit_test(text_is_cleaned_and_counted),
        cmocka_unit_test(records_are_whole_or_left_out),
        cmocka_unit_test(a_set_of_too_many_services_says_nothing),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(a_record_reads_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
