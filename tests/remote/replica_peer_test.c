/* A node behind a network (remote/replica_peer.h) that is not there: every call ends with a status. */
#include "remote/replica_peer.h"

#include <string.h>

#include "support/check.h"
#include "support/program/test_file.h"

static tide_status ignore_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    (void)arg;
    (void)digest;
    (void)err;
    return TIDE_OK;
}

/* Port 1 of loopback: nothing listens there. */
static void a_peer_that_is_away_is_unavailable(void **state)
{
    (void)state;
    tide_error err = {0};
    TIDE_CLEANUP(tide_remote_closep) tide_remote *remote = NULL;
    const tide_remote_options options = {.address = "127.0.0.1:1", .env = tide_env_system()};
    assert_ok_err(tide_remote_open(&remote, &options, &err), &err);
    tide_peer *peer = tide_remote_peer(remote);
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    assert_status(TIDE_E_UNAVAILABLE, peer->marks(peer->arg, NULL, &marks, &err));
    assert_non_null(strstr(err.text, "127.0.0.1:1"));
    assert_status(TIDE_E_UNAVAILABLE, tide_remote_digests(remote, ignore_digest, NULL, &err));
}

static void an_address_that_is_none_is_refused(void **state)
{
    (void)state;
    tide_error err = {0};
    tide_remote *remote = NULL;
    const tide_remote_options options = {.address = "no address", .env = tide_env_system()};
    assert_status(TIDE_E_INVALID, tide_remote_open(&remote, &options, &err));
    assert_null(remote);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_away_is_unavailable),
        cmocka_unit_test(an_address_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
