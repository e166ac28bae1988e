/* Events by table: for clients that state one number per origin, or a time; and what a node does with a peer that knows nothing else. */
#include "services/replica/table_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "net/codec/protobuf_guard.h"
#include "remote/legacy_pull.h"
#include "replica/peer.h"
#include "replica/world.h"
#include "services/api/rpc.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id INTEGER PRIMARY KEY, title TEXT, n REAL);"                              \
    "CREATE TABLE notes(id TEXT PRIMARY KEY NOT NULL, body BLOB)"
#define MINUTE_US INT64_C(60000000)

static const char *const tables[] = {"todos", "notes", NULL};

/* ---- asking ---- */

typedef struct asking {
    tide_node *node;
    tide_arena arena;
    tide_buffer bytes;
    bool is_old; /* knows no cursors and no tokens: the replication document's own kind */
    int questions;
    int64_t from_timestamp; /* of the last question */
    bool is_bodyless;
    tide_error *err;
} asking;

static void asking_init(asking *a, world *w, int node)
{
    *a = (asking){.node = w->nodes[node].node, .err = &w->err};
    tide_arena_init(&a->arena, (size_t)64 << 20);
    tide_buffer_init(&a->bytes, (size_t)64 << 20);
}

static void asking_done(asking *a)
{
    tide_arena_done(&a->arena);
    tide_buffer_done(&a->bytes);
}

static tide_status ask(void *arg, const REPLICA(TableEventsRequest) * request,
                       const REPLICA(TableEventsResponse) * *out, tide_error *err)
{
    asking *a = arg;
    ProtobufCMessage *message = NULL;
    REPLICA(TableEventsRequest) asked = *request;
    if (a->is_old) {
        asked.n_from_by_origin = 0;
        asked.page_token.len = 0;
    }
    a->questions++;
    a->from_timestamp = request->from_timestamp;
    tide_buffer_clear(&a->bytes);
    tide_arena_reset(&a->arena);
    TIDE_TRY(tide_table_events(a->node, &asked, &a->bytes, err));
    TIDE_TRY(tide_protobuf_unpack(&message,
                                  &tidemark__replica__v1__table_events_response__descriptor,
                                  tide_buffer_view(&a->bytes), &a->arena, err));
    REPLICA(TableEventsResponse) *answer = (REPLICA(TableEventsResponse) *)message;
    if (a->is_old)
        answer->next_page_token.len = 0;
    for (size_t i = 0; a->is_bodyless && i < answer->n_events; i++)
        answer->events[i]->body.len = 0;
    *out = answer;
    return TIDE_OK;
}

static const REPLICA(TableEventsResponse) * ask_ok(asking *a, REPLICA(TableEventsRequest) * request)
{
    const REPLICA(TableEventsResponse) *answer = NULL;
    assert_ok_err(ask(a, request, &answer, a->err), a->err);
    return answer;
}

static void name_node(char out[TIDE_UUID_TEXT_SIZE], world *w, int node)
{
    tide_uuid id;
    const tide_node_id own = tide_node_get_id(w->nodes[node].node);
    memcpy(id.bytes, own.bytes, sizeof id.bytes);
    tide_uuid_format(&id, out);
}

static tide_table_events_pulled pull(world *w, int node, asking *a)
{
    tide_table_events_pulled pulled;
    const tide_table_events_source source = {.arg = a, .name = "old:1", .ask = ask};
    assert_ok_err(tide_table_events_pull(w->nodes[node].node, &source, &pulled, &w->err), &w->err);
    return pulled;
}

static void sync_nodes(world *w, int here, int there)
{
    tide_peer a = tide_peer_of_node(w->nodes[here].node, "here");
    tide_peer b = tide_peer_of_node(w->nodes[there].node, "there");
    const tide_sync_options options = {.page_rows = 0};
    tide_sync_result result;
    assert_ok_err(tide_sync(&a, &b, &options, &result, &w->err), &w->err);
}

/* ---- the server ---- */

/* The nine columns of the replication document, as the view shows them. */
static void an_event_has_all_nine_columns(void **state)
{
    (void)state;
    world w;
    asking a;
    char node[TIDE_UUID_TEXT_SIZE];
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    name_node(node, &w, 0);
    world_run(&w, 0,
              "INSERT INTO todos VALUES(7, 'seven', 7.5); UPDATE todos SET n = 8 WHERE id = 7;"
              "DELETE FROM todos WHERE id = 7; INSERT INTO notes VALUES('x', x'00')");
    world_fold(&w, 0);
    REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
    request.table = (char *)"todos";
    const REPLICA(TableEventsResponse) *answer = ask_ok(&a, &request);
    static const char *const operations[] = {"create", "update", "delete"};
    assert_int_equal(3, answer->n_events);
    assert_false(answer->has_more);
    for (int i = 0; i < 3; i++) {
        const REPLICA(TableEvent) *event = answer->events[i];
        assert_int_equal(36, strlen(event->id));
        assert_string_equal("todos", event->table_name);
        assert_string_equal(operations[i], event->operation_type);
        assert_int_equal(i + 1, event->origin_seq);
        assert_string_equal(node, event->origin_node_id);
        assert_true(event->processed);
        assert_true(event->timestamp > 0 && event->body.len > 0);
        assert_int_equal(1,
                         world_number(&w, 0,
                                      "SELECT count(*) FROM todos_Events WHERE id = '%s' AND "
                                      "table_name = 'todos' AND operation_type = '%s' AND "
                                      "record_id = '%s' AND timestamp = %lld AND origin_node_id = "
                                      "'%s' AND origin_seq = %d AND processed = 1",
                                      event->id, operations[i], event->record_id,
                                      (long long)event->timestamp, node, i + 1));
    }
    assert_true(strstr(answer->events[0]->data, "seven") != NULL);
    asking_done(&a);
    world_done(&w);
}

/* Both ways give every event once, in order; whatever comes meanwhile does not shift pages by token. */
static void pages_by_token_and_by_number_cover_everything(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    for (int i = 0; i < 40; i++)
        world_run(&w, i % 2,
                  "INSERT INTO todos VALUES(%d, 'row', 1); INSERT INTO notes VALUES('%d', NULL)", i,
                  i);
    sync_nodes(&w, 0, 1);
    for (int by_token = 0; by_token < 2; by_token++) {
        int seen = 0;
        uint8_t token[64];
        REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
        request.table = (char *)"todos";
        request.page_size = 7;
        for (bool more = true; more;) {
            const REPLICA(TableEventsResponse) *answer = ask_ok(&a, &request);
            assert_true(answer->n_events > 0 && answer->n_events <= 7);
            seen += (int)answer->n_events;
            more = answer->has_more;
            if (by_token) {
                memcpy(token, answer->next_page_token.data, answer->next_page_token.len);
                request.page_token.data = token;
                request.page_token.len = answer->next_page_token.len;
            } else {
                request.page++;
            }
        }
        assert_int_equal(40, seen);
    }
    asking_done(&a);
    world_done(&w);
}

/* What is stated is left out, of that origin; what is not named goes by time; the requester's own events only as far as it states. */
static void what_the_requester_has_is_left_out(void **state)
{
    (void)state;
    world w;
    asking a;
    char own[TIDE_UUID_TEXT_SIZE];
    char other[TIDE_UUID_TEXT_SIZE];
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    name_node(own, &w, 1);
    name_node(other, &w, 0);
    for (int i = 0; i < 10; i++)
        world_run(&w, i % 2, "INSERT INTO todos VALUES(%d, 'row', 1)", i);
    sync_nodes(&w, 0, 1);
    REPLICA(OriginCheckpoint) mine = REPLICA_INIT(ORIGIN_CHECKPOINT);
    REPLICA(OriginCheckpoint) theirs = REPLICA_INIT(ORIGIN_CHECKPOINT);
    REPLICA(OriginCheckpoint) * both[] = {&mine, &theirs};
    REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
    mine.origin_node_id = own;
    mine.origin_seq = 2;
    theirs.origin_node_id = other;
    theirs.origin_seq = 4;
    request.table = (char *)"todos";
    request.requester_id = own;
    request.from_by_origin = both;
    request.n_from_by_origin = 2;
    assert_int_equal(3 + 1, ask_ok(&a, &request)->n_events);
    request.n_from_by_origin = 0;
    assert_int_equal(10, ask_ok(&a, &request)->n_events);
    request.from_timestamp = INT64_MAX - 1; /* own ones are not left out by time */
    assert_int_equal(5, ask_ok(&a, &request)->n_events);
    request.requester_id = (char *)"";
    assert_int_equal(0, ask_ok(&a, &request)->n_events);
    asking_done(&a);
    world_done(&w);
}

static void bad_questions_are_refused(void **state)
{
    (void)state;
    world w;
    asking a;
    const REPLICA(TableEventsResponse) *answer = NULL;
    REPLICA(OriginCheckpoint) odd = REPLICA_INIT(ORIGIN_CHECKPOINT);
    REPLICA(OriginCheckpoint) * odds[] = {&odd};
    world_init(&w, 1, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    for (int i = 0; i < 4; i++) {
        REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
        request.table = (char *)"todos";
        odd.origin_node_id = (char *)"'; DROP TABLE todos; --";
        request.from_by_origin = odds;
        request.n_from_by_origin = i == 0;
        request.page = i == 1 ? -1 : 0;
        request.page_size = i == 2 ? -5 : 0;
        request.page_token.data = (uint8_t *)"abc";
        request.page_token.len = i == 3 ? 3 : 0;
        assert_status(TIDE_E_INVALID, ask(&a, &request, &answer, &w.err));
    }
    asking_done(&a);
    world_done(&w);
}

/* ---- the client ---- */

/* Test of the replication document, mixed-version peers: fallback to timestamp works and remains idempotent. */
static void a_peer_without_cursors_is_pulled_by_time(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    a.is_old = true;
    for (int i = 0; i < 3000; i++)
        world_run(&w, 0,
                  "INSERT INTO todos VALUES(%d, 'row %d', 0.5); INSERT INTO notes VALUES('%d', "
                  "x'00ff')",
                  i, i, i);
    world_fold(&w, 0);
    tide_table_events_pulled pulled = pull(&w, 1, &a);
    assert_int_equal(6000, pulled.applied.events);
    assert_int_equal(0, a.from_timestamp);
    assert_false(pulled.has_missing);
    world_assert_same(&w, tables, true);
    /* Again: what comes lies in the overlap, and settles. */
    pulled = pull(&w, 1, &a);
    assert_int_equal(0, pulled.applied.events);
    assert_true(pulled.applied.known > 0 && a.from_timestamp > 0);
    /* Later only what is later, and the overlap. */
    world_advance(&w, 60 * MINUTE_US);
    world_run(&w, 0, "UPDATE todos SET title = 'new' WHERE id = 3");
    world_run(&w, 1, "UPDATE todos SET n = 9 WHERE id = 3");
    world_fold(&w, 0);
    (void)pull(&w, 1, &a);
    world_advance(&w, 60 * MINUTE_US);
    world_run(&w, 0, "DELETE FROM todos WHERE id = 4");
    world_fold(&w, 0);
    pulled = pull(&w, 1, &a);
    assert_int_equal(1, pulled.applied.events);
    assert_true(pulled.read < 100);
    assert_int_equal(1,
                     world_number(&w, 1, "SELECT title = 'new' AND n = 9 FROM todos WHERE id = 3"));
    /* A real sync afterwards has nothing to pull: everything settled by its identity. */
    sync_nodes(&w, 1, 0);
    world_assert_same(&w, tables, true);
    asking_done(&a);
    world_done(&w);
}

/* A peer that understands cursors is not asked for what is here. */
static void cursors_go_along(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    for (int i = 0; i < 50; i++)
        world_run(&w, 0, "INSERT INTO todos VALUES(%d, 'row', 1)", i);
    world_fold(&w, 0);
    assert_int_equal(50, pull(&w, 1, &a).read);
    world_run(&w, 0, "INSERT INTO todos VALUES(1000, 'row', 1)");
    world_fold(&w, 0);
    assert_int_equal(1, pull(&w, 1, &a).read);
    world_assert_same(&w, tables, true);
    asking_done(&a);
    world_done(&w);
}

/* What a relay brought late, with an old time, is missed by time; the next event of that origin shows it, and everything is read again. */
static void what_came_late_by_relay_is_noticed(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 3, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    a.is_old = true;
    world_run(&w, 2, "INSERT INTO todos VALUES(1, 'early', 1)");
    world_fold(&w, 2); /* stamped now, shipped late */
    world_advance(&w, 120 * MINUTE_US);
    world_run(&w, 0, "INSERT INTO todos VALUES(2, 'own', 1)");
    world_fold(&w, 0);
    assert_int_equal(1, pull(&w, 1, &a).applied.events);
    sync_nodes(&w, 0, 2);
    world_advance(&w, MINUTE_US);
    world_run(&w, 2, "UPDATE todos SET title = 'late' WHERE id = 1");
    sync_nodes(&w, 0, 2);
    const tide_table_events_pulled pulled = pull(&w, 1, &a);
    assert_true(pulled.is_full);
    assert_false(pulled.has_missing);
    world_assert_same(&w, tables, true);
    asking_done(&a);
    world_done(&w);
}

/* A batch is applied whole: where a table of it is not asked for, it waits, and that is told. */
static void a_batch_that_is_not_whole_waits_and_is_told(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    a.is_old = true;
    assert_ok_err(tide_node_untrack(w.nodes[1].node, "notes", &w.err), &w.err);
    world_run(&w, 0,
              "BEGIN; INSERT INTO todos VALUES(1, 'row', 1); INSERT INTO notes VALUES('1', NULL);"
              "COMMIT");
    world_fold(&w, 0);
    assert_true(pull(&w, 1, &a).held > 0);
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM todos"));
    tide_tracked tracked;
    assert_ok_err(tide_node_track(w.nodes[1].node, "notes", 0, &tracked, &w.err), &w.err);
    assert_int_equal(0, pull(&w, 1, &a).held);
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM todos"));
    asking_done(&a);
    world_done(&w);
}

/* Events that only people can read are counted and left, not guessed at; they are told of as long as they are like that, and taken when they are not. */
static void events_without_a_body_are_left_and_not_forgotten(void **state)
{
    (void)state;
    world w;
    asking a;
    world_init(&w, 2, 1, SCHEMA, tables, 0);
    asking_init(&a, &w, 0);
    a.is_bodyless = true;
    world_run(&w, 0, "INSERT INTO todos VALUES(1, 'row', 1)");
    world_fold(&w, 0);
    const tide_table_events_pulled pulled = pull(&w, 1, &a);
    assert_int_equal(1, pulled.bodyless);
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM todos"));
    world_advance(&w, INT64_C(86400000000));
    world_run(&w, 0, "INSERT INTO todos VALUES(2, 'row', 1)");
    world_fold(&w, 0);
    (void)pull(&w, 1, &a);
    assert_int_equal(2, pull(&w, 1, &a).bodyless);
    a.is_bodyless = false;
    assert_int_equal(0, pull(&w, 1, &a).bodyless);
    assert_int_equal(2, world_number(&w, 1, "SELECT count(*) FROM todos"));
    asking_done(&a);
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_has_all_nine_columns),
        cmocka_unit_test(pages_by_token_and_by_number_cover_everything),
        cmocka_unit_test(what_the_requester_has_is_left_out),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(a_peer_without_cursors_is_pulled_by_time),
        cmocka_unit_test(cursors_go_along),
        cmocka_unit_test(what_came_late_by_relay_is_noticed),
        cmocka_unit_test(a_batch_that_is_not_whole_waits_and_is_told),
        cmocka_unit_test(events_without_a_body_are_left_and_not_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
