/* The data types, as they were promised. */
#include "colony/type.h"

#include <string.h>

#include "support/check.h"

/* Tables, retention and poll intervals of each stream. */
static void types_have_their_tables_and_times(void **state)
{
    (void)state;
    static const struct {
        const char *data_type;
        const char *table;
        int64_t hours;
        int64_t seconds;
    } want[] = {
        {"telemetry", "spans", 24, 30},
        {"system_metrics", "system_metrics", 720, 60},
        {"beyla_http", "ebpf_http_metrics", 720, 30},
        {"beyla_grpc", "ebpf_grpc_metrics", 720, 30},
        {"beyla_sql", "ebpf_sql_metrics", 336, 30},
        {"beyla_traces", "ebpf_traces", 168, 30},
        {"cpu_profile", "cpu_profile_samples", 720, 30},
        {"memory_profile", "memory_profile_samples", 720, 60},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const tide_colony_type *type = tide_colony_type_find(want[i].data_type);
        assert_string_equal(type->stream->name, want[i].data_type);
        assert_string_equal(type->table, want[i].table);
        assert_int_equal(type->keep_us, want[i].hours * INT64_C(3600000000));
        assert_int_equal(type->interval_us, want[i].seconds * INT64_C(1000000));
        assert_true(type->priority >= 1);
    }
}

static void every_stream_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < TIDE_STREAM_COUNT; i++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)i);
        assert_ptr_equal(type->stream, tide_stream_type_of((tide_stream_kind)i));
        assert_ptr_equal(strstr(type->path, "/tidemark.agent.v1.Agent"), type->path);
        assert_true(type->start_field > 0 && type->max_field > 0 && type->position_field > 0);
        assert_true(type->max_seq_field > 0 && type->session_field > 0 && type->state_field > 0);
    }
    assert_string_equal(tide_colony_type_find("telemetry")->path,
                        "/tidemark.agent.v1.AgentService/QueryTelemetry");
}

static void what_is_not_built_in_is_a_users_stream(void **state)
{
    (void)state;
    assert_ptr_equal(tide_colony_type_find("orders"), tide_colony_type_of(TIDE_STREAM_OPAQUE));
    assert_ptr_equal(tide_colony_type_find(""), tide_colony_type_of(TIDE_STREAM_OPAQUE));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_their_tables_and_times),
        cmocka_unit_test(every_stream_has_a_row),
        cmocka_unit_test(what_is_not_built_in_is_a_users_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
