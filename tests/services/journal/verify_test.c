/* Verify of the journal, as the service and `checkpoint verify --json` encode it. */
#include "journal/journal_fixture.h"

#include <string.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"

static Tidemark__Journal__V1__VerifyResponse *verify(store_test *t, tide_status want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    assert_status(want, tide_rpc_journal_verify(&bytes, t->store, NULL, &t->err));
    Tidemark__Journal__V1__VerifyResponse *response =
        tidemark__journal__v1__verify_response__unpack(NULL, bytes.len, (uint8_t *)bytes.ptr);
    assert_non_null(response);
    return response;
}

static void a_sound_journal_has_no_findings(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    Tidemark__Journal__V1__VerifyResponse *response = verify(t, TIDE_OK);
    assert_true(response->is_sound);
    assert_int_equal(2, response->valid);
    assert_int_equal(0, response->n_findings);
    tidemark__journal__v1__verify_response__free_unpacked(response, NULL);
}

/* The findings are in the response, and the status is that of the journal's own verify. */
static void damage_is_a_response_with_findings(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    (void)append_n(t, "a", 2);
    run_sql(t->store, "DROP TRIGGER checkpoints_keep");
    run_sql(t->store, "DROP TRIGGER checkpoints_stay");
    run_sql(t->store, "UPDATE checkpoints SET message = 'x' WHERE global_sequence = 1");
    Tidemark__Journal__V1__VerifyResponse *response = verify(t, TIDE_E_DAMAGED);
    assert_false(response->is_sound);
    assert_int_equal(1, response->invalid);
    assert_true(response->n_findings >= 1);
    assert_true(strlen(response->findings[0]) > 0);
    tidemark__journal__v1__verify_response__free_unpacked(response, NULL);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_sound_journal_has_no_findings),
        STORE_CASE_SQLITE(damage_is_a_response_with_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
