/* Verify, salvage, dump; frames and binaries. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash/copying.h"
#include "feed/feed_fixture.h"
#include "store/statement.h"
#include "support/disk/fault_vfs.h"
#include "support/prng.h"

typedef struct findings {
    int count;
    char last[400];
    char all[4000]; /* as many as fit */
} findings;

static void note_finding(void *arg, const char *stream, const char *finding)
{
    findings *f = arg;
    f->count++;
    (void)snprintf(f->last, sizeof f->last, "%s %s", stream, finding);
    const size_t len = strlen(f->all);
    (void)snprintf(f->all + len, sizeof f->all - len, "%s\n", f->last);
}

static void fill(tide_feed *feed)
{
    tide_error err;
    for (int i = 0; i < 6; i++)
        (void)put_logs(feed, 50, "api", 1000 * i);
    assert_ok_err(tide_feed_declare(feed, "orders", &err), &err);
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_OPAQUE), 0);
    tide_record_begin(&batch);
    tide_record_blob(&batch, TIDE_OPAQUE_DATA, tide_view_of("an order"));
    assert_ok(tide_record_end(&batch));
    tide_feed_records records = tide_record_batch_feed(&batch, "orders");
    assert_ok_err(tide_feed_commit(feed, &records, 1, &err), &err);
    tide_record_batch_done(&batch);
}

/* Each kind of damage is found, and named by its numbers. */
static void verify_finds_every_kind_of_damage(void **state)
{
    store_test *t = *state;
    static const struct {
        const char *damage;
        const char *finding;
    } cases[] = {
        {"UPDATE feed_batches SET body = CAST(substr(body, 1, 30) || x'ff' || substr(body, 32) AS "
         "BLOB) WHERE "
         "first_seq = 51",
         "logs 51 to 100: the body's checksum"},
        {"UPDATE feed_batches SET arrived_at = '2020-01-01 00:00:00.000000' WHERE first_seq = 51",
         "logs 51 to 100: the head's checksum"},
        {"DELETE FROM feed_batches WHERE first_seq = 101", "logs 101 to 150: no batch has"},
        {"DELETE FROM feed_batches WHERE first_seq = 251", "logs 251 to 300: no batch has"},
    };
    run_sql(t, "DROP TRIGGER feed_batches_keep");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_sql(t,
                "DELETE FROM feed_batches; DELETE FROM feed_losses; DROP TRIGGER IF EXISTS "
                "sequences_stay;"
                "DELETE FROM sequences WHERE name IN ('seq_logs', 'seq_orders');"
                "DROP TRIGGER IF EXISTS feed_streams_rise; UPDATE feed_streams SET floor_seq = 0");
        tide_feed *feed = feed_test_open(t, NULL);
        fill(feed);
        findings f = {0};
        assert_ok_err(tide_feed_verify(feed, NULL, note_finding, &f, &t->err), &t->err);
        assert_int_equal(0, f.count);
        run_sql(t, cases[i].damage);
        assert_status(TIDE_E_DAMAGED, tide_feed_verify(feed, NULL, note_finding, &f, &t->err));
        assert_true(f.count >= 1);
        assert_contains(f.last, cases[i].finding);
        assert_status(TIDE_OK, tide_feed_verify(feed, "orders", note_finding, &f, &t->err));
        tide_feed_close(feed);
    }
}

/* Bits flipped anywhere in the file: the feed serves what it can, never a wrong record, never a crash; verify finds what was
 * served wrongly by nobody; salvage makes a sound store of the rest. */
static void flipped_bits_in_the_file_cost_what_they_hit(void **state)
{
    store_test *t = *state;
    tide_feed *feed =
        feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = "none"});
    for (int i = 0; i < 40; i++)
        (void)put_logs(feed, 300, "api", 1000 * i);
    tide_feed_answer all =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_records = 50000,
                                            .max_bytes = 32 << 20});
    tide_feed_close(feed);
    const char *path = strncmp(t->url, "sqlite:", 7) == 0 ? t->url + 7 : t->url;
    char copy[TEMPDIR_PATH_MAX];
    char saved[TEMPDIR_PATH_MAX];
    prng p;
    prng_init(&p, prng_seed_from_env(5));
    tempdir_join(&t->dir, "copy.db", copy);
    tempdir_join(&t->dir, "saved.db", saved);
    (void)path;
    /* Behind the pages where tables and indexes begin, which the next case is about. */
    static const tide_sql last_root = {
        TIDE_SQL_INIT,
        .name = "last_root",
        .engine = {{.text = "SELECT max(rootpage) FROM sqlite_master"}},
    };
    int64_t first_page = 0;
    assert_ok_err(tide_store_number(&first_page, t->store, &last_root, &t->err, TIDE_NO_BIND),
                  &t->err);
    for (int round = 0; round < 12; round++) {
        (void)unlink(copy);
        (void)unlink(saved);
        assert_ok_err(tide_store_backup(t->store, copy, &t->err), &t->err);
        for (int i = 0; i < 3; i++)
            (void)fault_vfs_flip_bit(copy, first_page * 16384, INT64_MAX / 2, &p);
        const tide_store_options options = store_test_options(t);
        tide_store *store = NULL;
        if (tide_store_open(&store, copy, &options, &t->err) < TIDE_OK)
            continue;
        assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
        tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs"};
        bool has_more = true;
        int64_t served = 0;
        while (has_more) {
            tide_feed_answer answer = {0};
            if (tide_feed_read(feed, &request, &answer, &t->err) < TIDE_OK)
                break;
            tide_view rest = tide_view_bytes(answer.bytes, answer.len);
            tide_view truth = tide_view_bytes(all.bytes, all.len);
            tide_record record;
            tide_record original = {0};
            while (tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &rest, &record) ==
                   TIDE_OK) {
                while (original.seq < record.seq)
                    assert_ok(
                        tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &truth, &original));
                assert_true(tide_view_equal(original.bytes, record.bytes));
                served++;
            }
            has_more = answer.has_more && answer.scanned_through_seq > request.start_seq;
            request.start_seq = answer.scanned_through_seq;
            tide_feed_answer_done(&answer);
        }
        assert_true(served >= 12000 - 3 * 300 * 8);
        tide_feed_salvaged out = {0};
        assert_ok_err(tide_feed_salvage(feed, saved, &out, &t->err), &t->err);
        assert_true(out.records >= served);
        tide_feed_close(feed);
        tide_store_close(store);
        assert_ok_err(tide_store_open(&store, saved, &options, &t->err), &t->err);
        assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
        findings f = {0};
        if (tide_feed_verify(feed, NULL, note_finding, &f, &t->err) != TIDE_OK)
            fail_msg("salvaged, but: %s", f.last);
        tide_feed_close(feed);
        tide_store_close(store);
    }
    tide_feed_answer_done(&all);
}

/* ---- root pages ---- */

enum {
    ROOT_BATCHES = 20,
    ROOT_RECORDS = 100,
    ROOTS_MAX = 40,
    ROOT_FLIPS = 9,
    PAGE_LEN = 16384,
    HEADER_LEN = 60, /* and the first cell pointers */
    CELLS_LEN = 1200 /* cells are stored from the page's end on */
};

typedef struct root {
    int64_t page;
    char name[64];
} root;

/* The roots of everything that a feed reads, and of the schema. */
static int list_roots(const char *path, root *out)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *query = NULL;
    int count = 0;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(db,
                                        "SELECT 1, 'sqlite_master' UNION ALL "
                                        "SELECT rootpage, name FROM sqlite_master "
                                        "WHERE rootpage > 0 AND (tbl_name LIKE 'feed!_%' ESCAPE '!'"
                                        " OR tbl_name IN ('sequences', 'db_metadata'))",
                                        -1, &query, NULL));
    for (; sqlite3_step(query) == SQLITE_ROW; count++) {
        assert_true(count < ROOTS_MAX);
        out[count].page = sqlite3_column_int64(query, 0);
        (void)snprintf(out[count].name, sizeof out[count].name, "%s",
                       (const char *)sqlite3_column_text(query, 1));
    }
    assert_int_equal(SQLITE_OK, sqlite3_finalize(query));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    return count;
}

/* Of three flips one is in the page's header, two are in its cells. */
static int64_t flip_in_page(const char *path, int64_t page, int nth, prng *p)
{
    const int64_t begin = (page - 1) * PAGE_LEN;
    const int64_t header = page == 1 ? begin + 100 : begin;
    const int64_t bit = nth % 3 == 0
                            ? fault_vfs_flip_bit(path, header, HEADER_LEN, p)
                            : fault_vfs_flip_bit(path, begin + PAGE_LEN - CELLS_LEN, CELLS_LEN, p);
    return bit - 8 * begin;
}

static void assert_records_are_of(const tide_feed_answer *answer, const tide_feed_answer *all)
{
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_view truth = tide_view_bytes(all->bytes, all->len);
    const tide_stream_type *type = tide_stream_type_of(TIDE_STREAM_LOGS);
    tide_record record;
    tide_record original = {0};
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        while (original.seq < record.seq)
            assert_ok(tide_record_next(type, &truth, &original));
        assert_true(tide_view_equal(original.bytes, record.bytes));
    }
}

/* What a reader got out of a damaged store. */
typedef struct reading {
    tide_status status; /* of the last page */
    int64_t served;     /* records, each as it was written */
    int64_t reported;   /* numbers in holes that are called damaged or lost */
} reading;

static reading read_damaged(tide_feed *feed, const tide_feed_answer *all, tide_error *err)
{
    reading got = {.status = TIDE_OK};
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs", .max_records = 700};
    bool has_more = true;
    for (int pages = 0; has_more && pages < ROOT_BATCHES; pages++) {
        tide_feed_answer answer = {0};
        got.status = tide_feed_read(feed, &request, &answer, err);
        if (got.status < TIDE_OK)
            break;
        assert_records_are_of(&answer, all);
        got.served += answer.count;
        for (int i = 0; i < answer.hole_count; i++)
            if (strcmp(answer.holes[i].reason, "damaged") == 0 ||
                strcmp(answer.holes[i].reason, "lost") == 0)
                got.reported += answer.holes[i].last_seq - answer.holes[i].first_seq + 1;
        has_more = answer.has_more;
        request.start_seq = answer.scanned_through_seq;
        tide_feed_answer_done(&answer);
    }
    return got;
}

/* The feed of a store that was damaged: what does not open, or is not served, is called damaged by all
 * who are asked, and salvage copies the rest or tells what it could not copy. */
static void judge_damaged(store_test *t, const char *path, const char *saved,
                          const tide_feed_answer *all, const char *what)
{
    const int64_t total = all->count;
    const tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    tide_status status = tide_store_open(&store, path, &options, &t->err);
    if (status >= TIDE_OK)
        status = tide_feed_open(&feed, store, NULL, &t->err);
    if (status < TIDE_OK) {
        if (status != TIDE_E_DAMAGED)
            fail_msg("%s: not opened with %s: %s", what, tide_status_get(status)->name,
                     t->err.text);
        tide_store_close(store);
        return;
    }
    findings f = {0};
    const tide_status verified = tide_feed_verify(feed, NULL, note_finding, &f, &t->err);
    if (verified != TIDE_OK && (verified != TIDE_E_DAMAGED || f.count == 0))
        fail_msg("%s: verify ended with %s: %s", what, tide_status_get(verified)->name,
                 t->err.text);
    tide_feed_salvaged out = {0};
    status = tide_feed_salvage(feed, saved, &out, &t->err);
    if (status < TIDE_OK)
        fail_msg("%s: salvage ended with %s: %s", what, tide_status_get(status)->name, t->err.text);
    if (out.records < total && out.lost_records == 0 && out.lost_batches == 0)
        fail_msg("%s: %lld records salvaged, and none called lost", what, (long long)out.records);
    const reading got = read_damaged(feed, all, &t->err);
    if (got.status != TIDE_OK && got.status != TIDE_E_DAMAGED)
        fail_msg("%s: read ended with %s: %s", what, tide_status_get(got.status)->name,
                 t->err.text);
    /* A floor that is too high makes expired numbers of what is stored: only verify can tell. */
    if (got.status == TIDE_OK && got.served < total && verified == TIDE_OK)
        fail_msg("%s: %lld records served, and verify found nothing", what, (long long)got.served);
    if (got.status == TIDE_OK && got.served + got.reported < total &&
        !strstr(f.all, "below the floor"))
        fail_msg("%s: %lld records served, %lld numbers reported, and no failure: %s", what,
                 (long long)got.served, (long long)got.reported, f.all);
    if (got.served > out.records)
        fail_msg("%s: %lld records served, %lld salvaged", what, (long long)got.served,
                 (long long)out.records);
    tide_feed_close(feed);
    tide_store_close(store);
    assert_ok_err(tide_store_open(&store, saved, &options, &t->err), &t->err);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    if (tide_feed_verify(feed, NULL, note_finding, &f, &t->err) != TIDE_OK)
        fail_msg("%s: salvaged, but: %s", what, f.last);
    tide_feed_close(feed);
    tide_store_close(store);
}

/* Where tables and indexes begin a bit can cost everything: then it is reported. */
static void a_flipped_bit_in_a_root_page_is_reported_or_costs_nothing(void **state)
{
    store_test *t = *state;
    tide_feed *feed =
        feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = "none"});
    for (int i = 0; i < ROOT_BATCHES; i++)
        (void)put_logs(feed, ROOT_RECORDS, "api", 1000 * i);
    tide_feed_answer all =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_records = 50000,
                                            .max_bytes = 32 << 20});
    assert_int_equal(ROOT_BATCHES * ROOT_RECORDS, all.count);
    tide_feed_close(feed);
    char sound[TEMPDIR_PATH_MAX];
    char copy[TEMPDIR_PATH_MAX];
    char saved[TEMPDIR_PATH_MAX];
    char what[200];
    root roots[ROOTS_MAX];
    prng p;
    /* Always the same bits, and those of the commit's seed at length. */
    prng_init(&p, is_soak() || getenv("TIDEMARK_SEED") ? prng_seed_from_env(5) : 5);
    tempdir_join(&t->dir, "sound.db", sound);
    tempdir_join(&t->dir, "copy.db", copy);
    tempdir_join(&t->dir, "saved.db", saved);
    assert_ok_err(tide_store_backup(t->store, sound, &t->err), &t->err);
    const int count = list_roots(sound, roots);
    for (int i = 0; i < count * ROOT_FLIPS; i++) {
        const root *hit = &roots[i / ROOT_FLIPS];
        copy_file(sound, copy);
        const int64_t bit = flip_in_page(copy, hit->page, i % ROOT_FLIPS, &p);
        (void)snprintf(what, sizeof what, "%s, bit %lld of its root page", hit->name,
                       (long long)bit);
        judge_damaged(t, copy, saved, &all, what);
        remove_store(copy);
        remove_store(saved);
    }
    tide_feed_answer_done(&all);
}

/* Salvage copies numbers and chains as they are; what is missing is a hole with a receipt there, and numbers go on. */
static void salvage_keeps_numbers_and_names_what_is_missing(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    fill(feed);
    run_sql(t, "DROP TRIGGER feed_batches_keep; UPDATE feed_batches SET body = x'00' WHERE "
               "first_seq = 101");
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "saved.db", path);
    tide_feed_salvaged out = {0};
    assert_ok_err(tide_feed_salvage(feed, path, &out, &t->err), &t->err);
    assert_int_equal(251, out.records);
    assert_int_equal(1, out.lost_batches);
    assert_int_equal(50, out.lost_records);
    assert_status(TIDE_E_EXISTS, tide_feed_salvage(feed, path, NULL, &t->err));
    tide_feed_answer old = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    tide_feed_close(feed);
    const tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &t->err), &t->err);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(250, answer.count);
    assert_hole(&answer, 0, 101, 150, "damaged");
    assert_memory_equal(old.chain, answer.chain, sizeof answer.chain);
    assert_string_not_equal(old.session, answer.session);
    assert_int_equal(50, count_receipts(feed, "logs", "damaged"));
    assert_int_equal(301, put_logs(feed, 1, "api", 1));
    tide_feed_answer_done(&old);
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
    tide_store_close(store);
}

/* A counter that was damaged downwards is raised to what is stored before it gives a number. */
static void a_counter_below_its_batches_gives_no_number_twice(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    fill(feed);
    tide_feed_close(feed);
    run_sql(t, "DROP TRIGGER IF EXISTS sequences_rise; DROP TRIGGER IF EXISTS sequences_of_streams;"
               "UPDATE sequences SET last = 120 WHERE name = 'seq_logs'");
    assert_int_equal(120, ask_sql(t, "SELECT last FROM sequences WHERE name = 'seq_logs'"));
    feed = feed_test_open(t, NULL);
    tide_feed_counters counters;
    tide_feed_count(feed, &counters);
    assert_int_equal(1, counters.raised);
    assert_int_equal(301, put_logs(feed, 1, "api", 1));
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 1, 301);
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
}

/* Numbers that were given twice all the same are salvaged once. */
static void salvage_leaves_out_what_stands_there_twice(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    fill(feed);
    run_sql(t, "DROP TRIGGER IF EXISTS sequences_rise; DROP TRIGGER IF EXISTS sequences_of_streams;"
               "UPDATE sequences SET last = 250 WHERE name = 'seq_logs'");
    assert_int_equal(251, put_logs(feed, 20, "again", 1));
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "saved.db", path);
    tide_feed_salvaged out = {0};
    assert_ok_err(tide_feed_salvage(feed, path, &out, &t->err), &t->err);
    assert_int_equal(271, out.records); /* with the order */
    assert_int_equal(1, out.lost_batches);
    tide_feed_close(feed);
    const tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &t->err), &t->err);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    findings f = {0};
    if (tide_feed_verify(feed, NULL, note_finding, &f, &t->err) != TIDE_OK)
        fail_msg("salvaged, but: %s", f.last);
    tide_feed_close(feed);
    tide_store_close(store);
}

typedef struct lines {
    int count;
    char first[400];
} lines;

static tide_status note_line(void *arg, tide_view line, tide_error *err)
{
    lines *l = arg;
    (void)err;
    if (l->count++ == 0)
        (void)snprintf(l->first, sizeof l->first, "%.*s", (int)line.len, line.ptr);
    return TIDE_OK;
}

static void dump_gives_a_line_per_record(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    fill(feed);
    lines l = {0};
    assert_ok_err(
        tide_feed_dump(feed,
                       &(tide_feed_dump_request){TIDE_FEED_DUMP_REQUEST_INIT, .stream = "logs",
                                                 .first_seq = 42, .last_seq = 260},
                       note_line, &l, &t->err),
        &t->err);
    assert_int_equal(219, l.count);
    assert_contains(l.first, "{\"seq_id\":42,\"timestamp\":41,\"service_name\":\"api\"");
    assert_contains(l.first, "\"attributes\":{\"host\":\"a\"}}");
    assert_status(TIDE_E_NOT_FOUND,
                  tide_feed_dump(feed,
                                 &(tide_feed_dump_request){TIDE_FEED_DUMP_REQUEST_INIT,
                                                           .stream = "none", .first_seq = 1},
                                 note_line, &l, &t->err));
    tide_feed_close(feed);
}

static tide_status count_streams(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    (void)err;
    *(int *)arg += 1;
    if (strcmp(stream->name, "logs") == 0) {
        assert_int_equal(300, stream->head_seq);
        assert_int_equal(6, stream->batches);
        assert_true(stream->bytes > 0 && stream->is_built_in);
        assert_int_equal(-1, stream->settled_seq);
    }
    return TIDE_OK;
}

static void the_list_tells_where_each_stream_stands(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    fill(feed);
    int count = 0;
    assert_ok_err(tide_feed_list(feed, count_streams, &count, &t->err), &t->err);
    assert_int_equal(TIDE_STREAM_BUILT_IN_COUNT + 1, count);
    tide_feed_stream stream;
    assert_ok_err(tide_feed_show(feed, "orders", &stream, &t->err), &t->err);
    assert_string_equal("seq_orders", stream.sequence);
    assert_status(TIDE_E_NOT_FOUND, tide_feed_show(feed, "none", &stream, &t->err));
    tide_feed_close(feed);
}

static tide_status note_frame(void *arg, uint64_t id, tide_view name, tide_error *err)
{
    (void)err;
    char *out = arg;
    (void)snprintf(out + strlen(out), 100, "%llu=%.*s ", (unsigned long long)id, (int)name.len,
                   name.ptr);
    return TIDE_OK;
}

static tide_status note_binary(void *arg, const tide_feed_binary *binary, tide_error *err)
{
    (void)err;
    (void)snprintf(arg, 100, "%.*s %d", (int)binary->binary_path.len, binary->binary_path.ptr,
                   (int)binary->has_debug_info);
    return TIDE_OK;
}

/* A frame keeps the number it was given first. */
static void frames_and_binaries_are_kept(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    const tide_view names[] = {tide_view_of("main"), tide_view_of("read"), tide_view_of("main")};
    uint64_t ids[3] = {0};
    uint64_t again[3] = {0};
    assert_ok_err(tide_feed_frames_put(feed, names, ids, 3, &t->err), &t->err);
    assert_ok_err(tide_feed_frames_put(feed, names, again, 3, &t->err), &t->err);
    assert_memory_equal(ids, again, sizeof ids);
    assert_int_equal(ids[0], ids[2]);
    assert_int_not_equal(ids[0], ids[1]);
    char text[400] = "";
    const uint64_t ask[] = {ids[1], 999, ids[0]};
    assert_ok_err(tide_feed_frames_get(feed, ask, 3, note_frame, text, &t->err), &t->err);
    assert_string_equal("2=read 1=main ", text);
    tide_feed_binary binary = {.build_id = tide_view_of("b"),
                               .service_id = tide_view_of("s"),
                               .binary_path = tide_view_of("/bin/s"),
                               .has_debug_info = true};
    assert_ok_err(tide_feed_binaries_put(feed, &binary, 1, &t->err), &t->err);
    assert_ok_err(tide_feed_binaries_get(feed, note_binary, text, &t->err), &t->err);
    assert_string_equal("/bin/s 1", text);
    tide_feed_close(feed);
}

static tide_status count_frame(void *arg, uint64_t id, tide_view name, tide_error *err)
{
    (void)id;
    (void)err;
    int64_t *bytes = arg;
    *bytes += (int64_t)name.len;
    return TIDE_OK;
}

/* However long their names are: they are read in slices. */
static void many_frames_with_long_names_are_read(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    enum { COUNT = 600 };
    static char texts[COUNT][TIDE_FEED_FRAME_NAME_MAX];
    static tide_view names[COUNT];
    static uint64_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        memset(texts[i], 'x', sizeof texts[i]);
        texts[i][0] = (char)('a' + i % 26);
        texts[i][1] = (char)('a' + i / 26);
        names[i] = tide_view_bytes(texts[i], sizeof texts[i]);
    }
    assert_ok_err(tide_feed_frames_put(feed, names, ids, COUNT, &t->err), &t->err);
    int64_t bytes = 0;
    assert_ok_err(tide_feed_frames_get(feed, ids, COUNT, count_frame, &bytes, &t->err), &t->err);
    assert_int_equal((int64_t)COUNT * TIDE_FEED_FRAME_NAME_MAX, bytes);
    const tide_view longer = tide_view_bytes(texts[0], sizeof texts[0] + 1);
    assert_status(TIDE_E_LIMIT, tide_feed_frames_put(feed, &longer, ids, 1, &t->err));
    tide_feed_close(feed);
}

/* Names that are always new fill the dictionary: profiles are taken all the same, and what is known keeps its name. */
static void a_full_dictionary_costs_names_and_no_samples(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    const tide_view names[] = {tide_view_of("main"), tide_view_of("new"), tide_view_of("newer")};
    uint64_t ids[3] = {0};
    assert_ok_err(tide_feed_frames_put(feed, names, ids, 1, &t->err), &t->err);
    const uint64_t main_id = ids[0];
    run_sql(t, "INSERT INTO profile_frame_dictionary (frame_id, frame_name) "
               "VALUES (1000000, 'the last')");
    for (int again = 0; again < 2; again++) {
        assert_ok_err(tide_feed_frames_put(feed, names, ids, 3, &t->err), &t->err);
        assert_int_equal(main_id, ids[0]);
        assert_int_equal(TIDE_FEED_FRAMES_MAX + 1, ids[1]);
        assert_int_equal(TIDE_FEED_FRAMES_MAX + 1, ids[2]);
    }
    char text[400] = "";
    assert_ok_err(tide_feed_frames_get(feed, ids, 2, note_frame, text, &t->err), &t->err);
    assert_string_equal("1=main 1000001=" TIDE_FEED_FRAME_FURTHER " ", text);
    tide_feed_close(feed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(verify_finds_every_kind_of_damage),
        STORE_CASE_SQLITE(flipped_bits_in_the_file_cost_what_they_hit),
        STORE_CASE_SQLITE(a_flipped_bit_in_a_root_page_is_reported_or_costs_nothing),
        STORE_CASE_SQLITE(salvage_keeps_numbers_and_names_what_is_missing),
        STORE_CASE_SQLITE(a_counter_below_its_batches_gives_no_number_twice),
        STORE_CASE_SQLITE(salvage_leaves_out_what_stands_there_twice),
        STORE_CASE_SQLITE(dump_gives_a_line_per_record),
        STORE_CASE_SQLITE(the_list_tells_where_each_stream_stands),
        STORE_CASE_SQLITE(frames_and_binaries_are_kept),
        STORE_CASE_SQLITE(many_frames_with_long_names_are_read),
        STORE_CASE_SQLITE(a_full_dictionary_costs_names_and_no_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
