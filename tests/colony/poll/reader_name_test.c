/* reader_name_test.c - a copy of a colony's store, or its later state, has read at the agent under the same name. */
#include "colony/rig.h"

#include <string.h>

#include <tidemark/identity.h>
#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "feed/reader_token.h"

#define AHEAD (INT64_C(1) << TIDE_EPOCH_TOKEN_BITS)

typedef struct claim {
    const char *name;
    int64_t token;
} claim;

static tide_status claim_lease(tide_tx *tx, void *arg, tide_error *err)
{
    claim *c = arg;
    tide_lease lease;
    TIDE_TRY(tide_lease_claim(tx, c->name, "colony", HOUR_US, &lease, err));
    c->token = lease.token;
    return TIDE_OK;
}

static int64_t hold_agent(rig *r, const rig_agent *a)
{
    char name[TIDE_AGENT_ID_MAX + 16];
    tide_registry_lease_name(name, a->name);
    claim c = {.name = name};
    assert_ok_err(tide_store_write(r->t->store, claim_lease, &c, &r->err), &r->err);
    return c.token;
}

/* The other store reads under this name, with tokens of its own. */
static tide_status read_as(rig_agent *a, const char *reader, int64_t token, tide_error *err)
{
    tide_feed_answer answer = {0};
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "telemetry",
                                       .reader = reader, .lease_token = token};
    const tide_status status = tide_feed_read(a->feed, &request, &answer, err);
    tide_feed_answer_done(&answer);
    return status;
}

static tide_agent_row find(rig *r, const rig_agent *a)
{
    tide_agent_row row;
    assert_ok_err(tide_registry_find(r->t->store, a->name, &row, &r->err), &r->err);
    return row;
}

static int64_t epoch_of(rig *r)
{
    tide_identity identity;
    tide_store_identity(r->t->store, &identity);
    return identity.epoch;
}

static tide_status keep_reason(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    *(tide_epoch *)arg = *epoch;
    return TIDE_OK;
}

/* As a daemon does it: with the name that the registry has. */
static tide_poller *begin(rig *r, rig_agent *a, int64_t token)
{
    tide_held_agent held = {.token = token};
    const tide_poller_options options = rig_options(r);
    tide_poller *poller = NULL;
    (void)snprintf(held.agent_id, sizeof held.agent_id, "%s", a->name);
    (void)snprintf(held.reader, sizeof held.reader, "%s", find(r, a).reader);
    assert_ok_err(tide_poller_new(&poller, &held, &options, &r->err), &r->err);
    return poller;
}

static void a_store_and_its_copy_both_read_on(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    const int64_t token = hold_agent(r, a);
    const int64_t epoch = epoch_of(r);
    tide_poller *poller = begin(r, a, token);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);

    /* The copy was started: its epoch is higher. */
    assert_ok_err(read_as(a, "colony-test", token + AHEAD, &r->err), &r->err);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, 20 * SECOND_US);
    assert_false(tide_poller_is_over(poller));
    rig_assert_rows(r, a, 1, 20);
    assert_true(strncmp(find(r, a).reader, "colony-", 7) == 0);
    assert_string_not_equal("colony-test", find(r, a).reader);
    assert_contains(rig_log_text(r), "took a new reader name");
    assert_contains(rig_log_text(r), find(r, a).reader);

    tide_epoch last = {.epoch = 0};
    assert_ok_err(tide_identity_history(r->t->store, keep_reason, &last, &r->err), &r->err);
    assert_int_equal(epoch + 1, last.epoch);
    assert_string_equal("diverged", last.reason);
    assert_contains(last.evidence, "never issued");

    /* Neither locks the other out from now on. */
    for (int i = 0; i < 5; i++) {
        rig_advance(r, MINUTE_US);
        rig_put(a, "telemetry", 10);
        assert_ok_err(read_as(a, "colony-test", token + AHEAD + i, &r->err), &r->err);
        rig_catch_up(r, a, poller, 20 * SECOND_US);
        rig_assert_rows(r, a, 1, 30 + 10 * i);
    }
    assert_int_equal(epoch + 1, epoch_of(r));
    tide_poller_free(poller);

    /* The name outlives the process. */
    const tide_agent_row row = find(r, a);
    poller = begin(r, a, token);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, 20 * SECOND_US);
    rig_assert_rows(r, a, 1, 80);
    assert_string_equal(row.reader, find(r, a).reader);
    tide_poller_free(poller);
    rig_free(r);
}

static void many_agents_begin_one_epoch_a_minute(void **state)
{
    rig *r = rig_new(*state, 3);
    tide_poller *pollers[3];
    int64_t tokens[3];
    rig_advance(r, HOUR_US);
    for (int i = 0; i < 3; i++) {
        rig_agent *a = &r->agents[i];
        tokens[i] = hold_agent(r, a);
        pollers[i] = begin(r, a, tokens[i]);
        rig_put(a, "telemetry", 1);
        rig_catch_up(r, a, pollers[i], 5 * SECOND_US);
    }
    const int64_t epoch = epoch_of(r);
    for (int i = 0; i < 3; i++) {
        rig_agent *a = &r->agents[i];
        rig_put(a, "telemetry", 9);
        assert_ok_err(read_as(a, "colony-test", tokens[i] + 3 * AHEAD, &r->err), &r->err);
        rig_catch_up(r, a, pollers[i], 5 * SECOND_US);
        rig_assert_rows(r, a, 1, 10);
        assert_int_equal(epoch + 1, epoch_of(r));
        tide_poller_free(pollers[i]);
    }
    rig_free(r);
}

/* It claims to have seen a higher token whoever asks. */
static void an_agent_that_refuses_every_name_is_asked_slowly(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_advance(r, HOUR_US);
    const int64_t token = hold_agent(r, a);
    const int64_t epoch = epoch_of(r);
    tide_poller *poller = begin(r, a, token);
    rig_put(a, "telemetry", 1);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_put(a, "telemetry", 1);
    char reader[TIDE_FEED_READER_MAX + 1] = "colony-test";
    int renamed = 0;
    int64_t asked = 0;
    const int64_t end_us = r->t->clock.mono_us + 5 * MINUTE_US;
    while (r->t->clock.mono_us < end_us) {
        tide_question question;
        int64_t wake_us = 0;
        const tide_status status = tide_poller_next(poller, &question, &wake_us, &r->err);
        assert_true(status >= TIDE_OK);
        if (status == TIDE_NONE) {
            rig_advance(r, wake_us - r->t->clock.mono_us);
            continue;
        }
        tide_error why = {0};
        TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = tide_buffer_of(TIDE_REPLY_BYTES_MAX);
        const tide_status told =
            question.is_watch ? rig_ask(r, a, &question, &answer, &why)
                              : tide_reader_token_refuse(reader, token, token + 9 * AHEAD, &why);
        asked += !question.is_watch;
        assert_ok_err(tide_poller_take(poller, told, tide_buffer_view(&answer),
                                       told < TIDE_OK ? why.text : NULL, -1, &r->err),
                      &r->err);
        assert_false(tide_poller_is_over(poller));
        const tide_agent_row row = find(r, a);
        renamed += strcmp(reader, row.reader) != 0;
        (void)snprintf(reader, sizeof reader, "%s", row.reader);
    }
    assert_in_range(renamed, 2, 6);
    assert_in_range(asked, 5, 60);
    assert_in_range(epoch_of(r) - epoch, 2, 6);
    assert_true(tide_poller_has_failures(poller));
    rig_assert_rows(r, a, 1, 1);
    tide_poller_free(poller);
    rig_free(r);
}

static void only_the_text_of_a_feed_names_a_token(void **state)
{
    (void)state;
    tide_error err = {0};
    assert_status(TIDE_E_LEASE_LOST, tide_reader_token_refuse("r came with token 1", 4, 77, &err));
    assert_int_equal(77, tide_reader_token_seen(err.text));
    assert_int_equal(9, tide_reader_token_seen("logs: reader x came with token 3 after 9"));
    static const char *const others[] = {
        "",
        "lease lost",
        "reader x came with token 3 after",
        "reader x came with token 3 after -9",
        "reader x came with token 3 after 9 days",
        "reader x came with token 3 after 2",
        "reader x came with token -3 after 2",
        "reader x came with token 3 after 99999999999999999999",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(0, tide_reader_token_seen(others[i]));
    assert_int_equal(0, tide_reader_token_seen(NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_store_and_its_copy_both_read_on),
        STORE_CASE(many_agents_begin_one_epoch_a_minute),
        STORE_CASE(an_agent_that_refuses_every_name_is_asked_slowly),
        cmocka_unit_test(only_the_text_of_a_feed_names_a_token),
    };
    return cmocka_run_group_tests_name("colony-poll-reader-name", tests, NULL, NULL);
}
