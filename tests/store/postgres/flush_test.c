/* The flusher: one tiny transaction for everybody, and only for those it can speak for. */
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cond_wait.h"
#include "store/postgres/pg_flush.h"

typedef struct flush_case {
    tide_pg_flusher flusher;
    char server[96];
} flush_case;

static int64_t soon(void)
{
    return tide_cond_until(30 * SECOND_US);
}

static tide_status flush(flush_case *c, uint64_t generation, store_test *t)
{
    bool is_standby_away = false;
    uint64_t wal = 0;
    return tide_pg_flush(&c->flusher, generation, soon(), &wal, &is_standby_away, &t->err);
}

static void set_up(flush_case *c, store_test *t)
{
    tide_pg_flusher_init(&c->flusher, t->store);
    assert_ok_err(tide_pg_flusher_connect(&c->flusher, soon(), &t->err), &t->err);
    memcpy(c->server, c->flusher.server, sizeof c->server);
}

/* A URL may lead to several servers: a flush on one proves nothing about a commit on another. */
static void a_witness_speaks_for_its_own_server_only(void **state)
{
    store_test *t = *state;
    flush_case c;
    set_up(&c, t);
    const uint64_t generation = tide_pg_flusher_generation(&c.flusher, c.server);
    assert_true(generation > 0);
    assert_int_equal(0, tide_pg_flusher_generation(&c.flusher, "another/server"));
    assert_int_equal(0, tide_pg_flusher_generation(&c.flusher, ""));
    assert_ok_err(flush(&c, generation, t), &t->err);
    assert_status(TIDE_E_UNAVAILABLE, flush(&c, 0, t));
    assert_int_equal(TIDE_PG_UNKNOWN, tide_pg_flusher_outcome(&c.flusher, 0, "1", soon()));
    tide_pg_flusher_done(&c.flusher);
}

/* What was noted under a connection that is gone is not answered by the next one. */
static void a_new_connection_is_a_new_generation(void **state)
{
    store_test *t = *state;
    flush_case c;
    set_up(&c, t);
    const uint64_t noted = tide_pg_flusher_generation(&c.flusher, c.server);
    tide_pg_connection_close(c.flusher.connection);
    c.flusher.connection = NULL;
    assert_status(TIDE_E_UNAVAILABLE, flush(&c, noted, t));
    const uint64_t later = tide_pg_flusher_generation(&c.flusher, c.server);
    assert_true(later > noted);
    assert_ok(flush(&c, later, t));
    tide_pg_flusher_done(&c.flusher);
}

typedef struct caller {
    flush_case *c;
    uint64_t generation;
    tide_status status;
    pthread_t thread;
} caller;

static void *flush_often(void *arg)
{
    caller *self = arg;
    uint64_t wal = 0;
    bool is_standby_away = false;
    for (int i = 0; i < 50 && self->status >= TIDE_OK; i++)
        self->status = tide_pg_flush(&self->c->flusher, self->generation, soon(), &wal,
                                     &is_standby_away, NULL);
    return NULL;
}

static void many_callers_are_all_answered(void **state)
{
    store_test *t = *state;
    flush_case c;
    set_up(&c, t);
    caller callers[8];
    for (int i = 0; i < 8; i++) {
        callers[i] =
            (caller){.c = &c, .generation = tide_pg_flusher_generation(&c.flusher, c.server)};
        assert_int_equal(0, pthread_create(&callers[i].thread, NULL, flush_often, &callers[i]));
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(0, pthread_join(callers[i].thread, NULL));
        assert_ok(callers[i].status);
    }
    tide_pg_flusher_done(&c.flusher);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_witness_speaks_for_its_own_server_only),
        STORE_CASE_POSTGRES(a_new_connection_is_a_new_generation),
        STORE_CASE_POSTGRES(many_callers_are_all_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
