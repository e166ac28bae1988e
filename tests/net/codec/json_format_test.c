/* Python's google.protobuf.json_format as the second opinion: it makes random messages of every
 * request and response of tidemark.agent.v1 (and of the sample, which has every kind of field), and
 * must agree with both directions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/json_proto.h"
#include "sample.pb-c.h"
#include "support/check.h"
#include "support/prng.h"
#include "support/process/proc.h"
#include "support/tempdir.h"
#include "tidemark_agent_v1_agent.pb-c.h"

enum {
    FILE_MAX = 256 << 20,
    ROUNDS = 100, /* messages of every type */
    TIMEOUT_MS = 240 * 1000,
};

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-protobuf */

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &tidemark__sample__v1__everything__descriptor,
    &tidemark__agent__v1__ingest_cpuprofile_samples_request__descriptor,
    &tidemark__agent__v1__ingest_ebpf_metrics_request__descriptor,
    &tidemark__agent__v1__ingest_ebpf_metrics_response__descriptor,
    &tidemark__agent__v1__ingest_memory_profile_samples_request__descriptor,
    &tidemark__agent__v1__ingest_records_request__descriptor,
    &tidemark__agent__v1__ingest_response__descriptor,
    &tidemark__agent__v1__ingest_system_metrics_request__descriptor,
    &tidemark__agent__v1__list_binaries_request__descriptor,
    &tidemark__agent__v1__list_binaries_response__descriptor,
    &tidemark__agent__v1__list_streams_request__descriptor,
    &tidemark__agent__v1__list_streams_response__descriptor,
    &tidemark__agent__v1__query_cpuprofile_samples_request__descriptor,
    &tidemark__agent__v1__query_cpuprofile_samples_response__descriptor,
    &tidemark__agent__v1__query_ebpf_metrics_request__descriptor,
    &tidemark__agent__v1__query_ebpf_metrics_response__descriptor,
    &tidemark__agent__v1__query_logs_request__descriptor,
    &tidemark__agent__v1__query_logs_response__descriptor,
    &tidemark__agent__v1__query_loss_receipts_request__descriptor,
    &tidemark__agent__v1__query_loss_receipts_response__descriptor,
    &tidemark__agent__v1__query_memory_profile_samples_request__descriptor,
    &tidemark__agent__v1__query_memory_profile_samples_response__descriptor,
    &tidemark__agent__v1__query_records_request__descriptor,
    &tidemark__agent__v1__query_records_response__descriptor,
    &tidemark__agent__v1__query_system_metrics_request__descriptor,
    &tidemark__agent__v1__query_system_metrics_response__descriptor,
    &tidemark__agent__v1__query_telemetry_request__descriptor,
    &tidemark__agent__v1__query_telemetry_response__descriptor,
    &tidemark__agent__v1__watch_streams_request__descriptor,
};

static const ProtobufCMessageDescriptor *find_descriptor(tide_view name)
{
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        if (tide_view_equal(tide_view_of(descriptors[i]->name), name))
            return descriptors[i];
    }
    fail_msg("no descriptor for %.*s", (int)name.len, name.ptr);
    return NULL;
}

static void run(const char *const argv[])
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const proc_options options = {.argv = argv};
    tide_error err = {0};
    assert_ok_err(proc_run(&result, &options, TIMEOUT_MS, &err), &err);
    if (result.exit_code != 0)
        fail_msg("%s: %s", argv[0], result.err);
}

static bool has_python_protobuf(void)
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const char *const argv[] = {PYTHON, "-c", "import google.protobuf", NULL};
    const proc_options options = {.argv = argv};
    return proc_run(&result, &options, TIMEOUT_MS, NULL) == TIDE_OK && result.exit_code == 0;
}

static void compile_protos(const tempdir *dir)
{
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    char own[1024];
    char sample[1024];
    char out[1024];
    (void)snprintf(own, sizeof own, "-I%s/proto", source);
    (void)snprintf(sample, sizeof sample, "-I%s/tests/net/codec", source);
    (void)snprintf(out, sizeof out, "--python_out=%s", dir->path);
    run((const char *const[]){"protoc", own, sample, out, "tidemark/agent/v1/agent.proto",
                              "sample.proto", NULL});
}

static void run_peer(const char *verb, const tempdir *dir, const char *seed, const char *count)
{
    char script[1024];
    (void)snprintf(script, sizeof script, "%s/tests/net/codec/json_format_peer.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    run((const char *const[]){PYTHON, script, verb, dir->path, seed, count, NULL});
}

static void read_file(const tempdir *dir, const char *name, tide_buffer *out)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, name, path);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char piece[65536];
    for (size_t len = fread(piece, 1, sizeof piece, in); len > 0;
         len = fread(piece, 1, sizeof piece, in))
        assert_ok(tide_buffer_append(out, piece, len));
    (void)fclose(in);
}

static void write_file(const tempdir *dir, const char *name, tide_view bytes)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, name, path);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(bytes.len, fwrite(bytes.ptr, 1, bytes.len, out));
    assert_int_equal(0, fclose(out));
}

static tide_view next_blob(tide_reader *reader)
{
    uint32_t len = 0;
    tide_view blob = {0};
    assert_ok(tide_reader_u32(reader, &len));
    assert_ok(tide_reader_bytes(reader, len, &blob));
    return blob;
}

static void append_blob(tide_buffer *out, const tide_buffer *blob)
{
    assert_ok(tide_buffer_append_u32(out, (uint32_t)blob->len));
    assert_ok(tide_buffer_append_view(out, tide_buffer_view(blob)));
}

static int answer_all(tide_view messages, tide_buffer *answers)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&json, FILE_MAX);
    tide_buffer_init(&bytes, FILE_MAX);
    tide_reader reader = tide_reader_of(messages);
    int count = 0;
    for (; tide_reader_left(&reader) > 0; count++) {
        const ProtobufCMessageDescriptor *descriptor = find_descriptor(next_blob(&reader));
        tide_error err = {0};
        tide_buffer_clear(&json);
        tide_buffer_clear(&bytes);
        assert_ok_err(tide_proto_to_json(descriptor, next_blob(&reader), &json, &err), &err);
        assert_ok_err(tide_json_to_proto(descriptor, next_blob(&reader), &bytes, &err), &err);
        append_blob(answers, &json);
        append_blob(answers, &bytes);
    }
    return count;
}

static void python_agrees_about_thousands_of_messages(void **state)
{
    (void)state;
    if (!has_python_protobuf()) {
        assert_false(check_is_ci());
        skip();
    }
    char seed[32];
    char rounds[32];
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)prng_seed_from_env(6));
    (void)snprintf(rounds, sizeof rounds, "%d", ROUNDS);
    tempdir dir;
    assert_ok(tempdir_make(&dir, NULL));
    compile_protos(&dir);
    run_peer("make", &dir, seed, rounds);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer messages;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answers;
    tide_buffer_init(&messages, FILE_MAX);
    tide_buffer_init(&answers, FILE_MAX);
    read_file(&dir, "messages", &messages);
    const int count = answer_all(tide_buffer_view(&messages), &answers);
    assert_true(count >= ROUNDS * 28);
    write_file(&dir, "answers", tide_buffer_view(&answers));
    run_peer("check", &dir, NULL, NULL);
    assert_ok(tempdir_remove(&dir, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_agrees_about_thousands_of_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
