#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/snapshot.h"
#include "sim/replica/world.h"

enum { LOSS = 25, DOUBLE = 12, LATE = 10, PAGE_ROWS_MAX = 12, MESSAGE_MAX = 1 << 20 };

/* ---- pages on their own ---- */

typedef struct page_head {
    tide_origin_mark mark;
    int64_t count;
} page_head;

static void send_bytes(world_node *n, world_node *to, const tide_origin_mark *mark,
                       const tide_peer_page *page)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    const page_head head = {.mark = *mark, .count = page->count};
    tide_buffer_init(&out, MESSAGE_MAX);
    assert_ok(tide_buffer_append(&out, &head, sizeof head));
    for (int i = 0; i < page->count; i++) {
        const tide_view event = tide_peer_page_event(page, i);
        assert_ok(tide_buffer_append_u32(&out, (uint32_t)event.len));
        assert_ok(tide_buffer_append_view(&out, event));
    }
    n->w->tally.pages++;
    sim_send(n->w->sim, n->id, to->id, tide_buffer_view(&out));
}

static world_node *draw_other(world_node *n)
{
    world_node *other = &n->w->nodes[world_below(n->w, (uint64_t)n->w->count)];
    return other == n ? NULL : other;
}

typedef struct mark_list {
    tide_origin_mark of[WORLD_LOGS_MAX];
    int count;
} mark_list;

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    mark_list *list = arg;
    (void)err;
    assert_true(list->count < WORLD_LOGS_MAX);
    list->of[list->count++] = *mark;
    return TIDE_OK;
}

/* Any page of any log: below what the other has, or above a hole. */
void world_send_page(world_node *n)
{
    tide_error err;
    bool more = false;
    int64_t events = 0;
    mark_list marks = {.count = 0};
    world_node *to = draw_other(n);
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_peer_page_init(&page);
    if (!to)
        return;
    world_node_must(n, tide_node_fold(n->node, &events, &more, &err), &err, "fold");
    world_node_must(n, tide_node_marks(n->node, keep_mark, &marks, &err), &err, "tell its marks");
    if (marks.count == 0)
        return;
    const tide_origin_mark *mark = &marks.of[world_below(n->w, (uint64_t)marks.count)];
    const int64_t from = mark->floor > mark->start ? mark->floor : mark->start;
    if (mark->highest <= from)
        return;
    const int64_t after = from + (int64_t)world_below(n->w, (uint64_t)(mark->highest - from));
    tide_peer here = tide_peer_of_node(n->node, n->name);
    const tide_status got =
        here.read(here.arg, &mark->origin, mark->epoch, after,
                  1 + (int64_t)world_below(n->w, PAGE_ROWS_MAX), 1 << 16, &page, &err);
    world_node_must(n, got, &err, "read a page");
    if (got == TIDE_OK && page.count > 0)
        send_bytes(n, to, mark, &page);
}

/* Events of its own that a file which was restored unseen does not know are refused: nothing else is. */
void world_receive_page(world_node *n, tide_view message)
{
    tide_error err;
    tide_applied applied;
    page_head head;
    tide_peer here = tide_peer_of_node(n->node, n->name);
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_peer_page_init(&page);
    memcpy(&head, message.ptr, sizeof head);
    tide_reader from =
        tide_reader_of(tide_view_bytes(message.ptr + sizeof head, message.len - sizeof head));
    for (int64_t i = 0; i < head.count; i++) {
        uint32_t len = 0;
        tide_view event;
        assert_ok(tide_reader_u32(&from, &len));
        assert_ok(tide_reader_bytes(&from, len, &event));
        assert_ok(tide_peer_page_add(&page, event, &err));
    }
    n->w->tally.late++;
    world_node_must(n, here.push(here.arg, &head.mark, &page, &applied, &err), &err, "take a page");
}

/* ---- a peer behind the network ---- */

typedef struct far_peer {
    world_node *asks;
    world_node *answers;
    tide_peer near;
} far_peer;

static tide_status lose(const far_peer *f, tide_error *err)
{
    return tide_fail(err, TIDE_E_UNAVAILABLE, "%s does not hear %s", f->answers->name,
                     f->asks->name);
}

/* The question, or the answer, is lost; or one of them has fallen. */
static bool is_lost(const far_peer *f)
{
    const world *w = f->asks->w;
    return !world_node_is_up(f->answers) || !world_node_is_up(f->asks) ||
           w->cut_until_us[f->asks->index][f->answers->index] > sim_now_us(w->sim) ||
           world_happens(f->asks->w, LOSS);
}

static tide_status far_marks(void *arg, const tide_peer_marks *others, tide_peer_marks *out,
                             tide_error *err)
{
    far_peer *f = arg;
    if (is_lost(f))
        return lose(f, err);
    const tide_status status = f->near.marks(f->near.arg, others, out, err);
    world_node_must(f->answers, status, err, "tell its marks");
    return is_lost(f) ? lose(f, err) : status;
}

static tide_status far_offer(void *arg, const tide_peer_table *tables, int count, int *created,
                             tide_error *err)
{
    far_peer *f = arg;
    if (is_lost(f))
        return lose(f, err);
    const tide_status status = f->near.offer(f->near.arg, tables, count, created, err);
    world_node_must(f->answers, status, err, "take a table");
    return is_lost(f) ? lose(f, err) : status;
}

static tide_status far_read(void *arg, const tide_node_id *origin, int64_t epoch, int64_t after,
                            int64_t max_rows, int64_t max_bytes, tide_peer_page *page,
                            tide_error *err)
{
    far_peer *f = arg;
    if (is_lost(f))
        return lose(f, err);
    const tide_status status =
        f->near.read(f->near.arg, origin, epoch, after, max_rows, max_bytes, page, err);
    world_node_must(f->answers, status, err, "read a page");
    return is_lost(f) ? lose(f, err) : status;
}

/* A page that is too late comes all the same. */
static tide_status far_push(void *arg, const tide_origin_mark *mark, const tide_peer_page *page,
                            tide_applied *out, tide_error *err)
{
    far_peer *f = arg;
    world *w = f->asks->w;
    if (is_lost(f))
        return lose(f, err);
    if (world_happens(w, LATE)) {
        send_bytes(f->asks, f->answers, mark, page);
        return lose(f, err);
    }
    tide_status status = f->near.push(f->near.arg, mark, page, out, err);
    tide_applied again;
    if (status == TIDE_OK && world_happens(w, DOUBLE))
        status = f->near.push(f->near.arg, mark, page, &again, err);
    world_node_must(f->answers, status, err, "take a page");
    return is_lost(f) ? lose(f, err) : status;
}

/* ---- what lies below a floor ---- */

typedef struct bringing {
    world_node *here;
    world_node *there;
} bringing;

/* A snapshot is made beside the file, where a disk that fails has no room for it: so of a copy, which is a node of its own and has
 * nothing to tell that the other has not told. */
static tide_status make_snapshot(const bringing *b, const tempdir *dir, const char *path,
                                 tide_error *err)
{
    char copy[TEMPDIR_PATH_MAX];
    tide_node *node = NULL;
    TIDE_CLEANUP(tide_snapshot_info_done) tide_snapshot_info info = {.bytes = 0};
    TIDE_TRY(tide_peer_look(b->there->node, NULL, err));
    world_files_copy(b->there->dir.path, dir->path);
    tempdir_join(dir, "store.db", copy);
    const tide_node_options options = {.env = &b->there->clock.env, .state_dir = dir->path};
    assert_ok_err(tide_node_open(&node, copy, &options, err), err);
    const tide_status status = tide_snapshot_create(node, path, NULL, &info, err);
    world_node_must(b->there, status, err, "make a snapshot");
    tide_node_close(node);
    return status;
}

/* What lies below a floor. */
static tide_status bring_snapshot(void *arg, tide_error *err)
{
    const bringing *b = arg;
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_snapshot_restored restored;
    if (!world_node_is_up(b->here) || !world_node_is_up(b->there))
        return tide_fail(err, TIDE_E_UNAVAILABLE, "one of them has fallen");
    assert_ok_err(tempdir_make(&dir, err), err);
    tempdir_join(&dir, "snapshot", path);
    tide_status status = make_snapshot(b, &dir, path, err);
    if (status >= TIDE_OK)
        status = tide_snapshot_restore(b->here->node, path, NULL, &restored, err);
    /* CONFLICT: a table is not tracked here, or lacks a column. INVALID: its stamps lie ahead. */
    if (status != TIDE_E_CONFLICT && status != TIDE_E_INVALID && !fault_vfs_is_cut(b->there->disk))
        world_node_must(b->here, status, err, "restore a snapshot");
    sim_trace(b->here->w->sim, "%s gets a snapshot of %s: %s", b->here->name, b->there->name,
              status < TIDE_OK ? err->text : "restored");
    b->here->w->tally.bootstraps += status >= TIDE_OK;
    TIDE_IGNORE(tempdir_remove(&dir, NULL));
    return status;
}

/* ---- a sync ---- */

/* CONFLICT and INVALID: of a snapshot. */
static bool is_expected(tide_status status)
{
    return status >= TIDE_OK || status == TIDE_E_UNAVAILABLE || status == TIDE_E_NOT_FOUND ||
           status == TIDE_E_CONFLICT || status == TIDE_E_INVALID;
}

void world_sync(world_node *n)
{
    world *w = n->w;
    tide_error err;
    tide_sync_result result;
    world_node *other = draw_other(n);
    if (!other || !world_node_is_up(other))
        return;
    world_node_arm(other);
    tide_peer here = tide_peer_of_node(n->node, n->name);
    far_peer far = {
        .asks = n, .answers = other, .near = tide_peer_of_node(other->node, other->name)};
    tide_peer there = {.arg = &far,
                       .name = other->name,
                       .marks = far_marks,
                       .offer = far_offer,
                       .read = far_read,
                       .push = far_push};
    const uint64_t way = world_below(w, 6);
    const tide_sync_options options = {.is_pull_only = way == 0,
                                       .is_push_only = way == 1,
                                       .page_rows = 1 + (int64_t)world_below(w, PAGE_ROWS_MAX),
                                       .bootstrap = bring_snapshot,
                                       .arg = &(bringing){.here = n, .there = other}};
    const tide_status status = tide_sync(&here, &there, &options, &result, &err);
    w->tally.syncs++;
    w->tally.proven += status == TIDE_OK;
    w->tally.broken += status < TIDE_OK;
    if (!is_expected(status) && !fault_vfs_is_cut(n->disk) && !fault_vfs_is_cut(other->disk))
        sim_fail(w->sim, "%s does not sync with %s: %s", n->name, other->name, err.text);
    if (status == TIDE_OK && world_node_is_up(n) && world_node_is_up(other) && world_happens(w, 4))
        world_check_digests(n, other);
    if (!world_node_fell(other))
        world_check_marks(other);
}

tide_status world_sync_calmly(world_node *here, world_node *there, int64_t *moved, tide_error *err)
{
    tide_sync_result result;
    tide_peer near = tide_peer_of_node(here->node, here->name);
    tide_peer far = tide_peer_of_node(there->node, there->name);
    const tide_sync_options options = {.page_rows = 50,
                                       .bootstrap = bring_snapshot,
                                       .arg = &(bringing){.here = here, .there = there}};
    const tide_status status = tide_sync(&near, &far, &options, &result, err);
    *moved += result.pulled.events + result.pushed.events + result.tables_created;
    if (result.pulled.events + result.pushed.events + result.tables_created > 0)
        sim_trace(here->w->sim, "%s and %s: %lld events came, %lld went, %d tables were made",
                  here->name, there->name, (long long)result.pulled.events,
                  (long long)result.pushed.events, result.tables_created);
    return status;
}
