#include "replica/sync.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/form.h"

typedef struct syncing {
    tide_peer *here;
    tide_peer *there;
    const tide_sync_options *options;
    tide_sync_result *result;
    int64_t moved;       /* events that were new to somebody, in this round */
    tide_status failure; /* the first of a log; others went on */
    tide_error why;
} syncing;

/* One direction. */
typedef struct direction {
    tide_peer *from;
    tide_peer *to;
    const tide_peer_marks *from_marks;
    const tide_peer_marks *to_marks;
    tide_applied *applied;
    bool is_pull;
} direction;

static void name_log(char out[64], const tide_origin_mark *mark)
{
    char hex[2 * TIDE_NODE_LEN + 1];
    tide_hex_encode(hex, mark->origin.bytes, TIDE_NODE_LEN);
    (void)snprintf(out, 64, "%.8s (epoch %lld)", hex, (long long)mark->epoch);
}

static void add_applied(tide_applied *sum, const tide_applied *page)
{
    sum->events += page->events;
    sum->known += page->known;
    sum->rows += page->rows;
    sum->conflicts += page->conflicts;
    sum->quarantined += page->quarantined;
    sum->waiting += page->waiting;
}

static tide_status check_page(const direction *way, const tide_origin_mark *mark, int64_t after,
                              const tide_peer_page *page, tide_error *err)
{
    char log[64];
    name_log(log, mark);
    if (page->through < after || (page->has_more && page->through == after))
        return tide_fail(err, TIDE_E_CONFLICT,
                         "%s does not get on: after %lld of log %s it gives %d events through %lld",
                         way->from->name, (long long)after, log, page->count,
                         (long long)page->through);
    return TIDE_OK;
}

static tide_status fail_floor(const direction *way, const tide_origin_mark *mark, int64_t after,
                              int64_t floor, tide_error *err)
{
    char log[64];
    name_log(log, mark);
    return tide_fail(
        err, TIDE_E_NOT_FOUND,
        "a snapshot is required: %s has log %s only above %lld, %s has it through %lld",
        way->from->name, log, (long long)floor, way->to->name, (long long)after);
}

/* Move what `from` has of one log. TIDE_NONE: below its floor. */
static tide_status move_log(syncing *s, const direction *way, const tide_origin_mark *mark,
                            tide_peer_page *page, tide_error *err)
{
    const tide_sync_options *options = s->options;
    const tide_origin_mark *theirs =
        tide_peer_marks_find(way->to_marks, &mark->origin, mark->epoch);
    int64_t after = theirs ? theirs->prefix : mark->start;
    if (after < mark->start)
        after = mark->start;
    while (after < mark->highest) {
        tide_applied applied = {0};
        if (options->is_over && options->is_over(options->arg))
            return tide_fail(err, TIDE_E_INTERRUPTED, "the sync was interrupted");
        TIDE_TRY(way->from->read(
            way->from->arg, &mark->origin, mark->epoch, after,
            options->page_rows > 0 ? options->page_rows : TIDE_SYNC_PAGE_ROWS,
            options->page_bytes > 0 ? options->page_bytes : TIDE_SYNC_PAGE_BYTES, page, err));
        if (page->needs_snapshot) {
            TIDE_IGNORE(fail_floor(way, mark, after,
                                   page->floor > mark->floor ? page->floor : mark->floor, err));
            return TIDE_NONE;
        }
        TIDE_TRY(check_page(way, mark, after, page, err));
        if (page->count > 0)
            TIDE_TRY(way->to->push(way->to->arg, mark, page, &applied, err));
        add_applied(way->applied, &applied);
        s->moved += applied.events;
        after = page->through;
        if (!page->has_more)
            break;
    }
    return TIDE_OK;
}

/* A log that cannot be moved does not hold up the others; what stands in its way is told at the end. */
static tide_status move_logs(syncing *s, const direction *way, bool *is_below, tide_error *err)
{
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_peer_page_init(&page);
    for (int i = 0; i < way->from_marks->origin_count; i++) {
        tide_error log_err = {0};
        const tide_status status = move_log(s, way, &way->from_marks->origins[i], &page, &log_err);
        if (status == TIDE_OK)
            continue;
        if (status == TIDE_NONE)
            *is_below = *is_below || way->is_pull;
        if (s->failure == TIDE_OK) {
            s->failure = status == TIDE_NONE ? TIDE_E_NOT_FOUND : status;
            s->why = log_err;
        }
        if (status == TIDE_E_INTERRUPTED || status == TIDE_E_UNAVAILABLE ||
            status == TIDE_E_TIMEOUT || status == TIDE_E_DENIED)
            return tide_fail(err, status, "%s", log_err.text); /* nobody is there: so for all */
    }
    return TIDE_OK;
}

/* ---- tables ---- */

static tide_status offer_tables(syncing *s, const tide_peer_marks *from, const tide_peer_marks *to,
                                tide_peer *receiver, tide_error *err)
{
    int created = 0;
    for (int i = 0; i < from->table_count; i++) {
        const tide_peer_table *table = &from->tables[i];
        const tide_peer_table *theirs = tide_peer_marks_table(to, table->name);
        if (theirs && tide_peer_table_knows(theirs, table))
            continue;
        TIDE_TRY(receiver->offer(receiver->arg, table, 1, &created, err));
        s->result->tables_created += created;
    }
    return TIDE_OK;
}

/* ---- the proof ---- */

/* Is everything that was in `had`, at the beginning, in `has`? *mark: the first log that is not. */
static bool has_all(const tide_peer_marks *has, const tide_peer_marks *had,
                    const tide_origin_mark **mark)
{
    for (int i = 0; i < had->origin_count; i++) {
        const tide_origin_mark *old = &had->origins[i];
        const tide_origin_mark *now = tide_peer_marks_find(has, &old->origin, old->epoch);
        const int64_t prefix = now ? now->prefix : old->start;
        if (prefix < old->prefix) {
            *mark = old;
            return false;
        }
    }
    return true;
}

static tide_status ask_marks(const syncing *s, tide_peer_marks *here, tide_peer_marks *there,
                             tide_error *err)
{
    tide_peer_marks_done(here);
    tide_peer_marks_done(there);
    TIDE_TRY(s->here->marks(s->here->arg, NULL, here, err));
    TIDE_TRY(s->there->marks(s->there->arg, here, there, err));
    if (memcmp(&here->node, &there->node, sizeof here->node) == 0)
        return tide_fail(err, TIDE_E_CONFLICT, "%s is this node itself", s->there->name);
    return TIDE_OK;
}

static tide_status exchange(syncing *s, tide_peer_marks *here, tide_peer_marks *there,
                            tide_error *err)
{
    bool has_begun = false;
    bool differs = false;
    TIDE_TRY(ask_marks(s, here, there, err));
    if (s->here->compare)
        TIDE_TRY(s->here->compare(s->here->arg, there, &has_begun, &differs, err));
    s->result->differs = s->result->differs || differs;
    if (has_begun)
        TIDE_TRY(ask_marks(s, here, there, err));
    s->result->node = there->node;
    s->result->epoch = there->epoch;
    s->result->quarantined = here->quarantined;
    s->result->waiting = here->waiting;
    s->result->peer_quarantined = there->quarantined;
    s->result->peer_waiting = there->waiting;
    tide_form_compare(s->result->unlike, here, there);
    return TIDE_OK;
}

static tide_status fail_stuck(const syncing *s, const tide_origin_mark *mark, bool is_pull,
                              tide_error *err)
{
    char log[64];
    name_log(log, mark);
    if (s->failure != TIDE_OK)
        return tide_fail(err, s->failure, "%s", s->why.text);
    return tide_fail(err, TIDE_E_CONFLICT, "nothing moves: %s has log %s through %lld, %s does not",
                     is_pull ? s->there->name : s->here->name, log, (long long)mark->prefix,
                     is_pull ? s->here->name : s->there->name);
}

static tide_status move_round(syncing *s, const tide_peer_marks *here, const tide_peer_marks *there,
                              tide_error *err)
{
    bool is_below = false;
    s->moved = 0;
    s->failure = TIDE_OK;
    if (!s->options->is_push_only) {
        const direction pull = {.from = s->there,
                                .to = s->here,
                                .from_marks = there,
                                .to_marks = here,
                                .applied = &s->result->pulled,
                                .is_pull = true};
        TIDE_TRY(move_logs(s, &pull, &is_below, err));
    }
    if (!s->options->is_pull_only) {
        const direction push = {.from = s->here,
                                .to = s->there,
                                .from_marks = here,
                                .to_marks = there,
                                .applied = &s->result->pushed};
        TIDE_TRY(move_logs(s, &push, &is_below, err));
    }
    if (is_below && s->options->bootstrap && !s->result->has_bootstrapped) {
        s->result->has_bootstrapped = true;
        s->moved++;
        TIDE_TRY(s->options->bootstrap(s->options->arg, err));
    }
    return TIDE_OK;
}

static tide_status run(syncing *s, tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks here = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks there = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks here_first = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks there_first = {.origin_count = 0};
    const tide_origin_mark *mark = NULL;
    TIDE_TRY(exchange(s, &here_first, &there_first, err));
    if (!s->options->is_push_only)
        TIDE_TRY(offer_tables(s, &there_first, &here_first, s->here, err));
    if (!s->options->is_pull_only)
        TIDE_TRY(offer_tables(s, &here_first, &there_first, s->there, err));
    TIDE_TRY(move_round(s, &here_first, &there_first, err));
    for (s->result->rounds = 1;; s->result->rounds++) {
        TIDE_TRY(exchange(s, &here, &there, err));
        const bool is_pulled = s->options->is_push_only || has_all(&here, &there_first, &mark);
        const bool is_pushed =
            s->options->is_pull_only || (is_pulled && has_all(&there, &here_first, &mark));
        if (is_pulled && is_pushed)
            break;
        if (s->moved == 0 || s->result->rounds >= TIDE_SYNC_ROUNDS_MAX)
            return fail_stuck(s, mark, !is_pulled, err);
        TIDE_TRY(move_round(s, &here, &there, err));
    }
    s->result->is_proven = true;
    tide_peer_marks_done(&here);
    return s->here->marks(s->here->arg, &there, &here, err); /* their acknowledgement */
}

tide_status tide_sync(tide_peer *here, tide_peer *there, const tide_sync_options *options,
                      tide_sync_result *out, tide_error *err)
{
    *out = (tide_sync_result){.rounds = 0};
    syncing s = {.here = here, .there = there, .options = options, .result = out};
    return run(&s, err);
}
