#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"

/* ---- plain SQL ---- */

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

tide_status try_sql(tide_store *store, const char *text, tide_error *err)
{
    return tide_store_write(store, run_script, (void *)text, err);
}

void run_sql(tide_store *store, const char *text)
{
    tide_error err;
    assert_ok_err(try_sql(store, text, &err), &err);
}

void refuse_sql(tide_store *store, const char *text, tide_error *err)
{
    const tide_status status = try_sql(store, text, err);
    if (status >= TIDE_OK)
        fail_msg("accepted: %s", text);
}

typedef struct question {
    const tide_sql *sql;
    int64_t answer;
} question;

static tide_status ask(tide_tx *tx, void *arg, tide_error *err)
{
    question *q = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, q->sql, err));
    TIDE_TRY(tide_query_one(query, err));
    q->answer = tide_query_col_i64(query);
    return TIDE_OK;
}

int64_t ask_number(tide_store *store, const tide_sql *sql)
{
    question q = {.sql = sql};
    tide_error err;
    assert_ok_err(tide_store_read(store, ask, &q, &err), &err);
    return q.answer;
}

/* ---- stores ---- */

tide_store *open_empty(store_test *t)
{
    tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    char url[PG_CLUSTER_URL_MAX];
    static int count;
    if (t->engine == TIDE_ENGINE_SQLITE) {
        char name[32];
        (void)snprintf(name, sizeof name, "empty%d.db", ++count);
        tempdir_join(&t->dir, name, url);
    } else {
        char name[PG_CLUSTER_NAME_MAX];
        assert_ok_err(pg_cluster_fresh_database(pg_cluster_for_test(), NULL, name, &t->err),
                      &t->err);
        pg_cluster_url(pg_cluster_for_test(), name, url);
    }
    assert_ok_err(tide_store_open(&store, url, &options, &t->err), &t->err);
    t->others[t->other_count++] = store;
    return store;
}

/* ---- tasks and checkpoints ---- */

void make_task(store_test *t, const char *task_id)
{
    char text[512];
    (void)snprintf(text, sizeof text, "INSERT INTO tasks (task_id, title) VALUES ('%s', 'task %s')",
                   task_id, task_id);
    run_sql(t->store, text);
}

tide_checkpoint_numbers append_new(store_test *t, tide_checkpoint_new checkpoint)
{
    tide_checkpoint_numbers numbers = {0};
    assert_ok_err(tide_journal_append(t->store, &checkpoint, &numbers, &t->err), &t->err);
    return numbers;
}

tide_checkpoint_numbers append_json(store_test *t, const char *task_id, const char *type,
                                    const char *json)
{
    return append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id,
                                               .type = type, .snapshot = tide_view_of(json)});
}

tide_checkpoint_numbers append_n(store_test *t, const char *task_id, int n)
{
    char json[32];
    (void)snprintf(json, sizeof json, "{\"n\":%d}", n);
    return append_json(t, task_id, "manual_checkpoint", json);
}

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

tide_status see(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    seen_list *list = arg;
    assert_true(list->count < SEEN_MAX);
    seen *row = &list->rows[list->count++];
    *row = (seen){
        .global_sequence = checkpoint->global_sequence,
        .sequence_number = checkpoint->sequence_number,
        .origin_global = checkpoint->origin_global,
        .origin_number = checkpoint->origin_number,
        .created_at_us = checkpoint->created_at_us,
        .is_sealed = checkpoint->is_sealed,
        .snapshot_len = (size_t)checkpoint->snapshot_len,
    };
    copy_text(row->checkpoint_id, sizeof row->checkpoint_id, checkpoint->checkpoint_id);
    copy_text(row->task_id, sizeof row->task_id, checkpoint->task_id);
    copy_text(row->type, sizeof row->type, checkpoint->type);
    copy_text(row->message, sizeof row->message, checkpoint->message);
    copy_text(row->trigger, sizeof row->trigger, checkpoint->trigger);
    copy_text(row->origin_session, sizeof row->origin_session, checkpoint->origin_session);
    if (checkpoint->has_snapshot) {
        assert_int_equal(checkpoint->snapshot_len, checkpoint->snapshot.len);
        (void)snprintf(row->snapshot, sizeof row->snapshot, "%.*s", (int)checkpoint->snapshot.len,
                       checkpoint->snapshot.ptr);
    }
    for (int i = 0; i < checkpoint->tag_count; i++) {
        const size_t used = strlen(row->tags);
        (void)snprintf(row->tags + used, sizeof row->tags - used, "%s%s", used ? "," : "",
                       checkpoint->tags[i]);
    }
    if (list->stop_after > 0 && list->count == list->stop_after)
        return tide_fail(err, TIDE_E_INTERRUPTED, "enough");
    return TIDE_OK;
}

const seen_list *list_of(tide_store *store, tide_journal_filter filter)
{
    static seen_list list;
    list.count = 0;
    list.stop_after = 0;
    tide_error err;
    assert_ok_err(tide_journal_list(store, &filter, see, &list, &err), &err);
    return &list;
}

const seen_list *list_all(tide_store *store)
{
    return list_of(store, (tide_journal_filter){TIDE_JOURNAL_FILTER_INIT, .with_snapshot = true});
}

int64_t head_of(tide_store *store)
{
    int64_t head = -1;
    tide_error err;
    assert_ok_err(tide_journal_head(store, &head, NULL, &err), &err);
    return head;
}

char *make_state(int steps, size_t len)
{
    char *state = malloc(len + 256);
    assert_non_null(state);
    size_t used = (size_t)sprintf(state, "{\"steps\":%d,\"history\":[", steps);
    for (int i = 0; used + 64 < len; i++)
        used +=
            (size_t)sprintf(state + used, "%s{\"step\":%d,\"result\":\"%08x%08x\"}", i ? "," : "",
                            i, (unsigned)(i + 1) * 2654435761U, (unsigned)(i + 7) * 2246822519U);
    (void)sprintf(state + used, "]}");
    return state;
}

/* ---- verify ---- */

typedef struct findings {
    int64_t count;
    char *words;
    size_t size;
} findings;

static void hear(void *arg, const char *finding)
{
    findings *f = arg;
    f->count++;
    if (!f->words)
        return;
    const size_t used = strlen(f->words);
    (void)snprintf(f->words + used, f->size - used, "%s\n", finding);
}

int64_t findings_of(tide_store *store, const char *task_id, char *words, size_t size,
                    tide_journal_report *report)
{
    findings f = {.words = words, .size = size};
    if (words)
        words[0] = '\0';
    tide_error err;
    const tide_status status = tide_journal_verify(store, task_id, hear, &f, report, &err);
    if (status != TIDE_OK && status != TIDE_E_DAMAGED)
        fail_msg("%s", err.text);
    assert_int_equal(f.count > 0, status == TIDE_E_DAMAGED);
    return f.count;
}

void assert_sound(tide_store *store)
{
    char words[4096];
    if (findings_of(store, NULL, words, sizeof words, NULL) > 0)
        fail_msg("%s", words);
}

/* ---- files in memory ---- */

tide_status memory_write(void *arg, tide_view bytes, tide_error *err)
{
    memory_file *file = arg;
    if (file->fail_at > 0 && file->len + bytes.len >= file->fail_at)
        return tide_fail(err, TIDE_E_FULL, "no space left");
    if (file->len + bytes.len > file->size) {
        file->size = (file->len + bytes.len) * 2;
        char *larger = realloc(file->bytes, file->size);
        if (!larger)
            return tide_fail(err, TIDE_E_NOMEM, "no memory for a file");
        file->bytes = larger;
    }
    memcpy(file->bytes + file->len, bytes.ptr, bytes.len);
    file->len += bytes.len;
    return TIDE_OK;
}

tide_status memory_read(void *arg, void *bytes, size_t len, size_t *got, tide_error *err)
{
    memory_file *file = arg;
    if (file->fail_at > 0 && file->at >= file->fail_at)
        return tide_fail(err, TIDE_E_IO, "cannot read");
    size_t most = file->len - file->at;
    if (most > len)
        most = len;
    if (file->piece > 0 && most > file->piece)
        most = file->piece;
    if (most > 0)
        memcpy(bytes, file->bytes + file->at, most);
    file->at += most;
    *got = most;
    return TIDE_OK;
}

void memory_done(memory_file *file)
{
    free(file->bytes);
    *file = (memory_file){0};
}
void export_to(tide_store *store, const char *task_id, memory_file *file)
{
    tide_error err;
    tide_journal_transfer counts;
    assert_ok_err(tide_journal_export(store,
                                      &(tide_journal_export_request){
                                          TIDE_JOURNAL_EXPORT_REQUEST_INIT, .task_id = task_id,
                                          .write = memory_write, .arg = file},
                                      &counts, &err),
                  &err);
}

tide_status import_from(tide_store *store, memory_file *file, tide_journal_transfer *out,
                        tide_error *err)
{
    file->at = 0;
    return tide_journal_import(store, memory_read, file, NULL, out, err);
}
