#include "net/call/reflection.h"

#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "grpc_reflection_v1_reflection.pb-c.h"
#include "net/call/fake_call.h"
#include "net/codec/protobuf_guard.h"
#include "support/check.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;

static void run_nothing(tide_call *call, tide_view message, void *arg)
{
    (void)call;
    (void)message;
    (void)arg;
}

static const tide_method methods[] = {
    {.path = "/tidemark.agent.v1.AgentService/QueryTelemetry", .run = run_nothing},
    {.path = "/tidemark.agent.v1.AgentService/QueryLogs", .run = run_nothing},
    {.path = "/tidemark.agent.v1.AgentDebugService/ListBinaries", .run = run_nothing},
    {.path = "/elsewhere.v1.Undescribed/Export", .run = run_nothing}, /* no file has it */
    {0},
};

typedef struct fixture {
    tide_reflection *reflection;
    tide_arena arena;
    tide_buffer out;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f = (fixture){0};
    tide_arena_init(&f.arena, 1 << 20);
    tide_buffer_init(&f.out, 1 << 20);
    tide_error err = {0};
    assert_ok_err(tide_reflection_new(&f.reflection, (tide_view){0}, &err), &err);
    assert_ok_err(tide_reflection_add_methods(f.reflection, tide_reflection_methods, &err), &err);
    assert_ok_err(tide_reflection_add_methods(f.reflection, methods, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    tide_reflection_free(f->reflection);
    tide_arena_done(&f->arena);
    tide_buffer_done(&f->out);
    return 0;
}

static const response *decode_response(fixture *f, tide_view bytes)
{
    ProtobufCMessage *message = NULL;
    tide_error err = {0};
    assert_ok_err(tide_protobuf_unpack(
                      &message, &grpc__reflection__v1__server_reflection_response__descriptor,
                      bytes, &f->arena, &err),
                  &err);
    return (const response *)message;
}

static const response *ask(fixture *f, const request *asked)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 4096);
    assert_ok(tide_protobuf_pack(&bytes, &asked->base, NULL));
    tide_buffer_clear(&f->out);
    tide_error err = {0};
    assert_ok_err(tide_reflection_respond(f->reflection, tide_buffer_view(&bytes), &f->out, &err),
                  &err);
    return decode_response(f, tide_buffer_view(&f->out));
}

static void check_files(const response *answer, size_t count)
{
    assert_int_equal(
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE,
        answer->message_response_case);
    assert_int_equal(count, answer->file_descriptor_response->n_file_descriptor_proto);
}

static void check_error(const response *answer, int code, const char *words)
{
    assert_int_equal(
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE,
        answer->message_response_case);
    assert_int_equal(code, answer->error_response->error_code);
    assert_contains(answer->error_response->error_message, words);
}

#define ASKS(member) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##member

static request make_request(int kind, const char *text)
{
    request asked = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    asked.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)kind;
    asked.list_services = (char *)text; /* one union */
    return asked;
}

static void what_can_be_described_is_listed_once_and_in_order(void **state)
{
    fixture *f = *state;
    request asked = make_request(ASKS(LIST_SERVICES), "*");
    asked.host = (char *)"here";
    const response *answer = ask(f, &asked);
    assert_string_equal("here", answer->valid_host);
    assert_string_equal("*", answer->original_request->list_services);
    const char *const want[] = {
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "tidemark.agent.v1.AgentDebugService",
        "tidemark.agent.v1.AgentService",
    };
    assert_int_equal(4, answer->list_services_response->n_service);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(want[i], answer->list_services_response->service[i]->name);
}

static void a_file_comes_with_everything_it_imports(void **state)
{
    fixture *f = *state;
    request asked = make_request(ASKS(FILE_BY_FILENAME), "tidemark/agent/v1/debug.proto");
    const response *answer = ask(f, &asked);
    check_files(answer, 2);
    const ProtobufCBinaryData *file = &answer->file_descriptor_response->file_descriptor_proto[0];
    assert_memory_equal("\x0A\x1Dtidemark/agent/v1/debug.proto", file->data, 31);
    file = &answer->file_descriptor_response->file_descriptor_proto[1];
    assert_memory_equal("\x0A\x1Dtidemark/agent/v1/agent.proto", file->data, 31);
}

static void symbols_lead_to_their_file(void **state)
{
    fixture *f = *state;
    request asked = make_request(ASKS(FILE_CONTAINING_SYMBOL), "tidemark.agent.v1.AgentService");
    check_files(ask(f, &asked), 1);
    asked = make_request(ASKS(FILE_CONTAINING_SYMBOL), "grpc.health.v1.Health.Watch");
    check_files(ask(f, &asked), 1);
}

static void what_is_not_there_is_an_error_in_the_answer(void **state)
{
    fixture *f = *state;
    request asked = make_request(ASKS(FILE_CONTAINING_SYMBOL), "no.such.Symbol");
    check_error(ask(f, &asked), 5, "no such symbol: no.such.Symbol");
    asked = make_request(ASKS(FILE_BY_FILENAME), "no.proto");
    check_error(ask(f, &asked), 5, "no such file: no.proto");
    asked = make_request(ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE), "no.Type");
    check_error(ask(f, &asked), 5, "no such type: no.Type");
    Grpc__Reflection__V1__ExtensionRequest extension =
        GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
    extension.containing_type = (char *)"tidemark.agent.v1.Hole";
    extension.extension_number = 100;
    asked = make_request(ASKS(FILE_CONTAINING_EXTENSION), NULL);
    asked.file_containing_extension = &extension;
    check_error(ask(f, &asked), 5, "no such extension of tidemark.agent.v1.Hole");
    asked = make_request(ASKS(_NOT_SET), NULL);
    check_error(ask(f, &asked), 3, "asks for nothing");
}

static void a_type_without_extensions_has_none(void **state)
{
    fixture *f = *state;
    request asked = make_request(ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE), "tidemark.agent.v1.Hole");
    const response *answer = ask(f, &asked);
    assert_int_equal(
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE,
        answer->message_response_case);
    assert_string_equal("tidemark.agent.v1.Hole",
                        answer->all_extension_numbers_response->base_type_name);
    assert_int_equal(0, answer->all_extension_numbers_response->n_extension_number);
}

static void what_is_no_request_is_refused(void **state)
{
    fixture *f = *state;
    tide_error err = {0};
    assert_status(
        TIDE_E_INVALID,
        tide_reflection_respond(f->reflection, tide_view_bytes("\x1A\x05x", 3), &f->out, &err));
    assert_status(
        TIDE_E_INVALID,
        tide_reflection_respond(f->reflection, tide_view_bytes("\x18\x05", 2), &f->out, &err));
    assert_contains(err.text, "file_by_filename");
    assert_int_equal(0, f->out.len);
}

/* One answer per request, an error ends the stream, the client's end ends it well: in both
 * versions. */
static void a_stream_is_answered_message_by_message(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        TIDE_CLEANUP(fake_call_done) tide_call call = {0};
        fake_call_run(&call, tide_reflection_methods, tide_reflection_methods[i].path,
                      (tide_view){0}, f->reflection);
        call.receive(&call, tide_view_bytes("\x3A\x01*", 3), call.receive_arg);
        call.receive(&call, tide_view_bytes("\x22\x01?", 3), call.receive_arg);
        assert_int_equal(2, call.sent_count);
        check_error(decode_response(f, tide_buffer_view(&call.sent[1])), 5, "no such symbol: ?");
        assert_false(call.is_ended);
        call.receive(&call, (tide_view){0}, call.receive_arg);
        assert_true(call.is_ended);
        assert_status(TIDE_OK, call.status);

        TIDE_CLEANUP(fake_call_done) tide_call bad = {0};
        fake_call_run(&bad, tide_reflection_methods, tide_reflection_methods[i].path,
                      (tide_view){0}, f->reflection);
        bad.receive(&bad, tide_view_bytes("\xFF", 1), bad.receive_arg);
        assert_true(bad.is_ended);
        assert_status(TIDE_E_INVALID, bad.status);
    }
}

static void a_path_that_is_none_is_refused(void **state)
{
    fixture *f = *state;
    const tide_method bad[] = {{.path = "/Nothing", .run = run_nothing}, {0}};
    assert_status(TIDE_E_INVALID, tide_reflection_add_methods(f->reflection, bad, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_can_be_described_is_listed_once_and_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_comes_with_everything_it_imports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(symbols_lead_to_their_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_an_error_in_the_answer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_type_without_extensions_has_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_request_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_is_answered_message_by_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_that_is_none_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
