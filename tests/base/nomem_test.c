/* nomem_test.c - every allocation of src/base fails once: nothing is lost, leaked or half done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"

enum { SWEEP_MAX = 1000 };

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

static void grow_a_buffer(void *arg)
{
    (void)arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 10000);
    for (int i = 0; i < 1000; i++) {
        const size_t before_len = b.len;
        const tide_status status = tide_buffer_append(&b, "12345", 5);
        if (status == TIDE_OK)
            continue;
        assert_status(TIDE_E_NOMEM, status);
        assert_int_equal(b.len, before_len);
    }
    for (size_t i = 0; i < b.len; i++)
        assert_int_equal(b.ptr[i], "12345"[i % 5]);
}

/* A failed append leaves the buffer as it was. */
static void a_buffer_outlives_a_failed_append(void **state)
{
    (void)state;
    ALLOC_FAULT_SWEEP(grow_a_buffer, NULL, SWEEP_MAX);
}

static void fill_an_arena(void *arg)
{
    (void)arg;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 1 << 20);
    for (int i = 0; i < 300; i++) {
        const size_t before_len = a.used_len;
        char *memory = tide_arena_alloc(&a, 300);
        if (memory)
            memset(memory, i, 300);
        else
            assert_int_equal(a.used_len, before_len);
    }
}

/* A refusal is NULL, and the arena goes on. */
static void an_arena_outlives_a_failed_chunk(void **state)
{
    (void)state;
    ALLOC_FAULT_SWEEP(fill_an_arena, NULL, SWEEP_MAX);
}

static void write_and_clean(void *arg)
{
    (void)arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 10000);
    tide_json json;
    tide_json_init(&json, &out);
    tide_json_array_begin(&json);
    for (int i = 0; i < 100; i++)
        tide_json_text(&json, "text");
    tide_json_array_end(&json);
    const tide_status status = tide_json_finish(&json);
    assert_status(out.len == 701 ? TIDE_OK : TIDE_E_NOMEM, status);

    const size_t before_len = out.len;
    size_t replaced = 0;
    if (tide_utf8_clean(&out, tide_buffer_view(&(tide_buffer){.ptr = (char[]){"x\xFF"}, .len = 2}),
                        &replaced) != TIDE_OK)
        assert_int_equal(out.len, before_len);
    else
        assert_int_equal(replaced, 1);
}

/* A document is whole, or its failure is reported at the end. */
static void a_document_is_whole_or_refused(void **state)
{
    (void)state;
    ALLOC_FAULT_SWEEP(write_and_clean, NULL, SWEEP_MAX);
}

static void log_a_line(void *arg)
{
    virtual_env env;
    virtual_env_init(&env, 1);
    tide_log log;
    tide_log_init(&log, arg, &env.env, TIDE_LOG_JSON, TIDE_LOG_INFO);
    tide_log_write(&log, TIDE_LOG_INFO, "a message", TIDE_F("key", "a value of some length"),
                   TIDE_F("more", "and another one, to make the line grow beyond its first room"),
                   TIDE_F("most", "and a third, because rooms double and so do lines"), TIDE_F_END);
    assert_true(atomic_load(&log.lost) <= 1);
    virtual_env_done(&env);
}

/* Logging without memory loses lines, never the program; what is written is whole lines. */
static void logging_without_memory_loses_whole_lines(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    ALLOC_FAULT_SWEEP(log_a_line, file, SWEEP_MAX);
    rewind(file);
    TIDE_CLEANUP(tide_freep) char *line = NULL;
    size_t capacity = 0;
    for (ssize_t len; (len = getline(&line, &capacity, file)) > 0;) {
        assert_int_equal(line[0], '{');
        assert_string_equal(line + len - 2, "}\n");
    }
    (void)fclose(file);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_buffer_outlives_a_failed_append, disarm),
        cmocka_unit_test_teardown(an_arena_outlives_a_failed_chunk, disarm),
        cmocka_unit_test_teardown(a_document_is_whole_or_refused, disarm),
        cmocka_unit_test_teardown(logging_without_memory_loses_whole_lines, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
