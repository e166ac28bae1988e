/* The plain form of messages whose .proto file has the option plain_json (docs/protocol.md). */
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/json_format.h"
#include "net/codec/json_proto.h"
#include "support/check.h"
#include "tidemark_colony_v1_colony.pb-c.h"
#include "tidemark_journal_v1_journal.pb-c.h"
#include "tidemark_work_v1_work.pb-c.h"

#define CHECKPOINT (&tidemark__journal__v1__new_checkpoint__descriptor)
#define ITEM (&tidemark__work__v1__new_item__descriptor)

enum { MIB = 1 << 20 };

static void check_written(const ProtobufCMessage *message, const char *json)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, MIB);
    uint8_t bytes[4096];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof bytes);
    const size_t len = protobuf_c_message_pack(message, bytes);
    tide_error err = {0};
    assert_ok_err(tide_proto_to_json(message->descriptor, tide_view_bytes(bytes, len), &text, &err),
                  &err);
    assert_string_equal(json, tide_buffer_text(&text));
}

/* The message that a JSON text means; free it with protobuf_c_message_free_unpacked. */
static ProtobufCMessage *read(const ProtobufCMessageDescriptor *descriptor, const char *json)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    tide_error err = {0};
    assert_ok_err(tide_json_to_proto(descriptor, tide_view_of(json), &bytes, &err), &err);
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, NULL, bytes.len, (const uint8_t *)bytes.ptr);
    assert_non_null(message);
    return message;
}

static void check_refused(const ProtobufCMessageDescriptor *descriptor, const char *json,
                          const char *text)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_json_to_proto(descriptor, tide_view_of(json), &bytes, &err));
    assert_contains(err.text, text);
}

static void every_member_is_written_and_null_means_none(void **state)
{
    (void)state;
    Tidemark__Work__V1__Task task = TIDEMARK__WORK__V1__TASK__INIT;
    check_written(&task.base,
                  "{\"task_id\":\"\",\"title\":\"\",\"status\":\"\",\"metadata\":null,"
                  "\"forked_from\":null,\"forked_at\":null,\"last_sequence\":0,"
                  "\"created_at\":null,\"updated_at\":null,\"completed_at\":null,\"items\":null}");
}

static void integers_are_numbers_times_rfc_3339_documents_values(void **state)
{
    (void)state;
    Tidemark__Work__V1__Task task = TIDEMARK__WORK__V1__TASK__INIT;
    Tidemark__Work__V1__ItemCounts counts = TIDEMARK__WORK__V1__ITEM_COUNTS__INIT;
    task.task_id = (char *)"t";
    task.metadata = (char *)"{\"a\":\n[1, null]}";
    task.last_sequence = INT64_MAX;
    task.created_at = INT64_C(1794965452047765);
    task.updated_at = -1;
    task.completed_at = INT64_MAX;
    task.items = &counts;
    check_written(
        &task.base,
        "{\"task_id\":\"t\",\"title\":\"\",\"status\":\"\",\"metadata\":{\"a\": [1, null]},"
        "\"forked_from\":null,\"forked_at\":null,\"last_sequence\":9223372036854775807,"
        "\"created_at\":\"2026-11-18T01:30:52.047765Z\","
        "\"updated_at\":\"1969-12-31T23:59:59.999999Z\",\"completed_at\":9223372036854775807,"
        "\"items\":{\"pending\":0,\"in_progress\":0,\"completed\":0,\"failed\":0,\"expired\":0}}");
}

static void a_document_that_is_not_json_is_a_string(void **state)
{
    (void)state;
    Tidemark__Journal__V1__Difference difference = TIDEMARK__JOURNAL__V1__DIFFERENCE__INIT;
    difference.kind = (char *)"changed";
    difference.before = (char *)"{\"a\":";
    difference.after = (char *)"\"text\"";
    check_written(
        &difference.base,
        "{\"kind\":\"changed\",\"path\":\"\",\"before\":\"{\\\"a\\\":\",\"after\":\"text\"}");
}

static void rows_of_a_query_are_arrays_of_values(void **state)
{
    (void)state;
    Tidemark__Colony__V1__Cell cells[4] = {
        TIDEMARK__COLONY__V1__CELL__INIT, TIDEMARK__COLONY__V1__CELL__INIT,
        TIDEMARK__COLONY__V1__CELL__INIT, TIDEMARK__COLONY__V1__CELL__INIT};
    cells[0].value_case = TIDEMARK__COLONY__V1__CELL__VALUE_WHOLE;
    cells[0].whole = -7;
    cells[1].value_case = TIDEMARK__COLONY__V1__CELL__VALUE_IS_NULL;
    cells[1].is_null = true;
    cells[2].value_case = TIDEMARK__COLONY__V1__CELL__VALUE_DATA;
    cells[2].data = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"a"};
    Tidemark__Colony__V1__Cell *row_cells[4] = {&cells[0], &cells[1], &cells[2], &cells[3]};
    Tidemark__Colony__V1__Row rows[2] = {TIDEMARK__COLONY__V1__ROW__INIT,
                                         TIDEMARK__COLONY__V1__ROW__INIT};
    rows[0].cells = row_cells;
    rows[0].n_cells = 4;
    Tidemark__Colony__V1__Row *all[2] = {&rows[0], &rows[1]};
    Tidemark__Colony__V1__QueryResponse answer = TIDEMARK__COLONY__V1__QUERY_RESPONSE__INIT;
    answer.rows = all;
    answer.n_rows = 2;
    check_written(&answer.base,
                  "{\"columns\":[],\"rows\":[[-7,null,\"YQ==\",null],[]],\"cut\":false}");
}

static void times_are_read_as_text_or_as_numbers(void **state)
{
    (void)state;
    const char *const forms[] = {"{\"run_after\":\"2026-11-18T02:30:52.047765+01:00\"}",
                                 "{\"runAfter\":\"2026-11-18T01:30:52.047765Z\"}",
                                 "{\"runAfter\":1794965452047765}",
                                 "{\"run_after\":\"1794965452047765\"}"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        ProtobufCMessage *message = read(ITEM, forms[i]);
        assert_int_equal(INT64_C(1794965452047765),
                         ((Tidemark__Work__V1__NewItem *)message)->run_after);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    check_refused(ITEM, "{\"run_after\":\"tomorrow\"}", "not a time");
    check_refused(ITEM, "{\"run_after\":true}", "run_after");
}

static void documents_are_read_as_they_are_written(void **state)
{
    (void)state;
    const struct {
        const char *json;
        const char *text;
    } cases[] = {{"{\"input_data\":{\"a\": [1.0, \"\\u0041\"]},\"task_id\":\"t\"}",
                  "{\"a\": [1.0, \"\\u0041\"]}"},
                 {"{\"input_data\":\"{}\",\"task_id\":\"t\"}", "\"{}\""},
                 {"{\"input_data\":false,\"task_id\":\"t\"}", "false"},
                 {"{\"input_data\":null,\"task_id\":\"t\"}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ProtobufCMessage *message = read(ITEM, cases[i].json);
        assert_string_equal(cases[i].text, ((Tidemark__Work__V1__NewItem *)message)->input_data);
        assert_string_equal("t", ((Tidemark__Work__V1__NewItem *)message)->task_id);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void a_text_snapshot_is_the_text_of_its_string(void **state)
{
    (void)state;
    const struct {
        const char *json;
        const char *snapshot;
    } cases[] = {{"{\"snapshot\":\"a\\n\",\"is_text\":true}", "a\n"},
                 {"{\"isText\":true,\"snapshot\":\"a\\n\"}", "a\n"},
                 {"{\"snapshot\":\"a\\n\",\"is_text\":false}", "\"a\\n\""},
                 {"{\"snapshot\":{\"a\":1},\"is_text\":true}", "{\"a\":1}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ProtobufCMessage *message = read(CHECKPOINT, cases[i].json);
        assert_string_equal(cases[i].snapshot,
                            ((Tidemark__Journal__V1__NewCheckpoint *)message)->snapshot);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void an_unknown_member_of_a_request_is_refused_by_its_name(void **state)
{
    (void)state;
    check_refused(ITEM, "{\"priorty\":1}", "no field \"priorty\"; did you mean \"priority\"?");
    check_refused(ITEM, "{\"delayms\":1}", "did you mean \"delay_ms\"?");
    check_refused(ITEM, "{\"task_id\":\"a\",\"taskId\":\"b\"}", "a second time");
}

static void only_files_with_the_option_are_plain(void **state)
{
    (void)state;
    assert_non_null(tide_json_formats_find("tidemark.lake.v1.Catalog"));
    assert_non_null(tide_json_formats_find("tidemark.replica.v1.GetStatusResponse"));
    assert_non_null(tide_json_formats_find("tidemark.up.v1.Replica"));
    assert_null(tide_json_formats_find("tidemark.agent.v1.QueryRecordsRequest"));
    assert_null(tide_json_formats_find("grpc.health.v1.HealthCheckRequest"));
    for (size_t i = 1; i < tide_json_messages_count; i++)
        assert_true(strcmp(tide_json_messages[i - 1].name, tide_json_messages[i].name) < 0);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(every_member_is_written_and_null_means_none),
        cmocka_unit_test(integers_are_numbers_times_rfc_3339_documents_values),
        cmocka_unit_test(a_document_that_is_not_json_is_a_string),
        cmocka_unit_test(rows_of_a_query_are_arrays_of_values),
        cmocka_unit_test(times_are_read_as_text_or_as_numbers),
        cmocka_unit_test(documents_are_read_as_they_are_written),
        cmocka_unit_test(a_text_snapshot_is_the_text_of_its_string),
        cmocka_unit_test(an_unknown_member_of_a_request_is_refused_by_its_name),
        cmocka_unit_test(only_files_with_the_option_are_plain),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
