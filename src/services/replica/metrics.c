#include "services/replica/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/text/uuid.h"
#include "replica/peer.h"
#include "store/sql_template.h"
#include "tidemark_templates.h"

enum { LABEL = 128, LABELS = 2 };

/* ---- the table of metrics ---- */

/* X(id, name, type, unit, labels, help) */
#define FIGURES(X)                                                                                 \
    X(SYNCS, "tidemark_replica_syncs", COUNTER, "", "peer,result", "syncs that ended, and how")    \
    X(PULLED, "tidemark_replica_pulled_events", COUNTER, "", "peer",                               \
      "events that syncs brought here, and that were new")                                         \
    X(PUSHED, "tidemark_replica_pushed_events", COUNTER, "", "peer",                               \
      "events that syncs brought to a peer, and that were new to it")                              \
    X(COLLECTED, "tidemark_replica_collected_rows", COUNTER, "", "kind",                           \
      "rows that were deleted because nobody needs them any more")                                 \
    X(PROVEN_AGE, "tidemark_replica_proven_age_seconds", GAUGE, "seconds", "peer",                 \
      "since a sync with this peer was proven")                                                    \
    X(DIFFERING, "tidemark_replica_differing_tables", GAUGE, "", "peer",                           \
      "tables that differ from this peer's although the logs are equal: replica verify --repair")  \
    X(TABLE_ROWS, "tidemark_replica_table_rows", GAUGE, "", "table", "rows of a tracked table")    \
    X(TABLE_EVENTS, "tidemark_replica_table_events", GAUGE, "", "table",                           \
      "events of a table that are kept")                                                           \
    X(TOMBSTONES, "tidemark_replica_tombstones", GAUGE, "", "",                                    \
      "rows that were deleted and are remembered")                                                 \
    X(FILE_BYTES, "tidemark_replica_file_bytes", GAUGE, "bytes", "",                               \
      "size of the database, without its log")                                                     \
    X(LAG, "tidemark_replica_lag_events", GAUGE, "", "origin",                                     \
      "events of an origin that a peer has and this node has not")                                 \
    X(PEER_LAG, "tidemark_replica_peer_lag_events", GAUGE, "", "peer",                             \
      "events that this node has and a peer has not, as it said last")                             \
    X(PEER_SEEN, "tidemark_replica_peer_seen_age_seconds", GAUGE, "seconds", "peer",               \
      "since a peer told how far it is")                                                           \
    X(PREFIX, "tidemark_replica_log_prefix", GAUGE, "", "origin",                                  \
      "number up to which an origin's log is complete here")                                       \
    X(FLOOR, "tidemark_replica_log_floor", GAUGE, "", "origin",                                    \
      "number up to which an origin's log was collected here")                                     \
    X(FLOOR_PIN, "tidemark_replica_floor_pin", GAUGE, "", "origin,peer",                           \
      "the least mark of live peers, and whose it is: nothing above it is collected")              \
    X(CLOCK_AHEAD, "tidemark_replica_clock_ahead_seconds", GAUGE, "seconds", "",                   \
      "how far stamps that were met lie ahead of this node's clock")                               \
    X(CONFLICTS, "tidemark_replica_conflicts", GAUGE, "", "",                                      \
      "writes that were lost to concurrent ones, kept for people")                                 \
    X(ASIDE, "tidemark_replica_aside_rows", GAUGE, "", "",                                         \
      "rows that a constraint keeps out of their tables")                                          \
    X(QUARANTINED, "tidemark_replica_quarantined_events", GAUGE, "", "",                           \
      "events that cannot be merged yet")

typedef enum figure {
#define ID(id, ...) FIGURE_##id,
    FIGURES(ID)
#undef ID
        FIGURE_COUNT
} figure;

static const tide_metric_row rows[FIGURE_COUNT] = {
#define ROW(id_, name_, type_, unit_, labels_, help_)                                              \
    [FIGURE_##id_] = {.name = (name_),                                                             \
                      .type = TIDE_METRIC_##type_,                                                 \
                      .unit = (unit_),                                                             \
                      .labels = (labels_),                                                         \
                      .help = (help_)},
    FIGURES(ROW)
#undef ROW
};

const tide_metric_row *tide_replica_metric_rows(size_t *count)
{
    *count = FIGURE_COUNT;
    return rows;
}

typedef struct sample {
    char labels[LABELS][LABEL];
    int64_t value;
} sample;

typedef struct family {
    sample *samples;
    int count;
} family;

struct tide_replica_metrics {
    tide_node *node;
    tide_env *env;
    pthread_mutex_t lock;
    family families[FIGURE_COUNT];
    int64_t looked_us; /* 0: never */
};

/* ---- samples ---- */

static sample *find_sample(tide_replica_metrics *m, figure id, const char *first,
                           const char *second)
{
    family *f = &m->families[id];
    for (int i = 0; i < f->count; i++)
        if (strncmp(f->samples[i].labels[0], first, LABEL - 1) == 0 &&
            strncmp(f->samples[i].labels[1], second, LABEL - 1) == 0)
            return &f->samples[i];
    if (f->count == TIDE_REPLICA_METRICS_MAX)
        return NULL;
    if (!f->samples)
        f->samples = calloc(TIDE_REPLICA_METRICS_MAX, sizeof *f->samples);
    if (!f->samples)
        return NULL;
    sample *s = &f->samples[f->count++];
    *s = (sample){.value = 0};
    (void)snprintf(s->labels[0], LABEL, "%s", first);
    (void)snprintf(s->labels[1], LABEL, "%s", second);
    return s;
}

static void add(tide_replica_metrics *m, figure id, const char *first, const char *second,
                int64_t by)
{
    sample *s = find_sample(m, id, first, second);
    if (s)
        s->value += by;
}

static void set(tide_replica_metrics *m, figure id, const char *first, const char *second,
                int64_t value)
{
    sample *s = find_sample(m, id, first, second);
    if (s)
        s->value = value;
}

static void name_node(char out[TIDE_UUID_TEXT_SIZE], const tide_node_id *node)
{
    tide_uuid id;
    memcpy(id.bytes, node->bytes, sizeof id.bytes);
    tide_uuid_format(&id, out);
}

/* ---- what happened ---- */

static const char *name_result(tide_status status)
{
    switch ((int)status) {
    case TIDE_OK:
        return "proven";
    case TIDE_E_UNSUPPORTED:
        return "by_time";
    case TIDE_E_NOT_FOUND:
        return "snapshot_required";
    case TIDE_E_UNAVAILABLE:
    case TIDE_E_TIMEOUT:
        return "unavailable";
    default:
        return "failed";
    }
}

void tide_replica_metrics_synced(tide_replica_metrics *metrics, const char *peer,
                                 tide_status status, const tide_sync_result *result)
{
    TIDE_HOLD(&metrics->lock);
    add(metrics, FIGURE_SYNCS, peer, name_result(status), 1);
    add(metrics, FIGURE_PULLED, peer, "", result->pulled.events);
    add(metrics, FIGURE_PUSHED, peer, "", result->pushed.events);
    if (status == TIDE_OK) /* kept as a time, shown as an age */
        set(metrics, FIGURE_PROVEN_AGE, peer, "", metrics->env->mono_us(metrics->env));
}

void tide_replica_metrics_compared(tide_replica_metrics *metrics, const char *peer, int differing)
{
    TIDE_HOLD(&metrics->lock);
    set(metrics, FIGURE_DIFFERING, peer, "", differing);
}

void tide_replica_metrics_collected(tide_replica_metrics *metrics, const tide_collected *done)
{
    TIDE_HOLD(&metrics->lock);
    add(metrics, FIGURE_COLLECTED, "events", "", done->events);
    add(metrics, FIGURE_COLLECTED, "tombstones", "", done->tombstones);
    add(metrics, FIGURE_COLLECTED, "knowledge", "", done->knowledge);
}

/* ---- what is in the file ---- */

static tide_status get_number(int64_t *out, tide_foreign_tx *tx, const tide_template *template,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, template->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

typedef struct look_call {
    tide_replica_metrics *m;
    tide_foreign_tx *tx;
} look_call;

static tide_status count_table(void *arg, const tide_table *table, tide_error *err)
{
    const look_call *call = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, call->tx, table, TIDE_TABLE_COUNT, err);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        set(call->m, FIGURE_TABLE_ROWS, table->name, "", tide_foreign_col_i64(query));
    return TIDE_OK;
}

static tide_status look_at_clock(tide_replica_metrics *m, tide_foreign_tx *tx, tide_error *err)
{
    int64_t hybrid = 0;
    TIDE_TRY(get_number(&hybrid, tx, TIDE_TEMPLATE_APPLY_HYBRID_GET, err));
    const tide_stamp last = {.time = (uint64_t)hybrid};
    const int64_t ahead_us = tide_stamp_us(&last) - m->env->wall_us(m->env);
    set(m, FIGURE_CLOCK_AHEAD, "", "", ahead_us > 0 ? ahead_us : 0);
    return TIDE_OK;
}

static tide_status look_at_file(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_replica_metrics *m = arg;
    look_call call = {.m = m, .tx = tx};
    int64_t number = 0;
    TIDE_TRY(tide_table_list(tx, count_table, &call, err));
    TIDE_TRY(get_number(&number, tx, TIDE_TEMPLATE_METRIC_TOMBSTONES, err));
    set(m, FIGURE_TOMBSTONES, "", "", number);
    TIDE_TRY(get_number(&number, tx, TIDE_TEMPLATE_METRIC_FILE_BYTES, err));
    set(m, FIGURE_FILE_BYTES, "", "", number);
    TIDE_TRY(look_at_clock(m, tx, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_METRIC_TABLE_EVENTS->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        char table[LABEL];
        const tide_view name = tide_foreign_col_bytes(query);
        (void)snprintf(table, sizeof table, "%.*s", (int)(name.len < LABEL ? name.len : LABEL - 1),
                       name.ptr ? name.ptr : "");
        set(m, FIGURE_TABLE_EVENTS, table, "", tide_foreign_col_i64(query));
    }
    return TIDE_OK;
}

/* ---- logs and peers ---- */

typedef struct marks_call {
    tide_replica_metrics *m;
    tide_peer_marks ours;
    tide_origin_mark *greatest; /* prefix: the greatest mark of a peer, per log of ours */
    tide_origin_mark *least;    /* prefix: the least, and whose */
    char (*whose)[TIDE_UUID_TEXT_SIZE];
    bool *has_least;
    char peer[TIDE_UUID_TEXT_SIZE];
    tide_node_id peer_id;
    int64_t peer_lag;
    uint64_t *seen; /* logs that the peer has told of: a bit each is not needed, its turn is */
    uint64_t turn;
} marks_call;

static void marks_call_done(marks_call *c)
{
    tide_peer_marks_done(&c->ours);
    free(c->greatest);
    free(c->least);
    free(c->whose);
    free(c->has_least);
    free(c->seen);
}

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    return tide_peer_marks_add(&((marks_call *)arg)->ours, mark, err);
}

static void meet_mark(marks_call *c, int index, int64_t mark)
{
    const tide_origin_mark *own = &c->ours.origins[index];
    c->seen[index] = c->turn;
    if (mark > c->greatest[index].prefix)
        c->greatest[index].prefix = mark;
    if (own->prefix > mark)
        c->peer_lag += own->prefix - mark;
    const bool is_origin = memcmp(&own->origin, &c->peer_id, sizeof c->peer_id) == 0;
    if (!is_origin && (!c->has_least[index] || mark < c->least[index].prefix)) {
        c->has_least[index] = true;
        c->least[index].prefix = mark;
        memcpy(c->whose[index], c->peer, sizeof c->peer);
    }
}

/* A peer's marks are over: of logs that it did not tell of it has nothing. */
static void end_peer(marks_call *c)
{
    if (c->turn == 0)
        return;
    for (int i = 0; i < c->ours.origin_count; i++)
        if (c->seen[i] != c->turn)
            meet_mark(c, i, c->ours.origins[i].start);
    set(c->m, FIGURE_PEER_LAG, c->peer, "", c->peer_lag);
}

static tide_status meet_peer(void *arg, const tide_peer_seen *peer, tide_error *err)
{
    marks_call *c = arg;
    (void)err;
    end_peer(c);
    c->turn++;
    c->peer_id = peer->node;
    c->peer_lag = 0;
    name_node(c->peer, &peer->node);
    set(c->m, FIGURE_PEER_SEEN, c->peer, "", c->m->env->wall_us(c->m->env) - peer->seen_at_us);
    return TIDE_OK;
}

static tide_status meet_peer_mark(void *arg, const tide_node_id *peer, const tide_node_id *origin,
                                  int64_t epoch, int64_t mark, tide_error *err)
{
    marks_call *c = arg;
    char name[TIDE_UUID_TEXT_SIZE];
    (void)peer;
    (void)err;
    const tide_origin_mark *own = tide_peer_marks_find(&c->ours, origin, epoch);
    if (own) {
        meet_mark(c, (int)(own - c->ours.origins), mark);
    } else if (mark > 0) { /* a log of which nothing is here */
        name_node(name, origin);
        add(c->m, FIGURE_LAG, name, "", mark);
    }
    return TIDE_OK;
}

static void tell_logs(marks_call *c)
{
    for (int i = 0; i < c->ours.origin_count; i++) {
        const tide_origin_mark *own = &c->ours.origins[i];
        char origin[TIDE_UUID_TEXT_SIZE];
        const int64_t greatest = c->greatest[i].prefix;
        const int64_t highest = greatest > own->highest ? greatest : own->highest;
        name_node(origin, &own->origin);
        add(c->m, FIGURE_LAG, origin, "", highest > own->prefix ? highest - own->prefix : 0);
        /* epochs ascend: the newest stands */
        set(c->m, FIGURE_PREFIX, origin, "", own->prefix);
        set(c->m, FIGURE_FLOOR, origin, "", own->floor);
        const bool is_newest = i + 1 == c->ours.origin_count ||
                               memcmp(&own[1].origin, &own->origin, sizeof own->origin) != 0;
        if (is_newest && c->has_least[i])
            set(c->m, FIGURE_FLOOR_PIN, origin, c->whose[i], c->least[i].prefix);
    }
}

static tide_status look_at_logs(tide_replica_metrics *m, tide_error *err)
{
    TIDE_CLEANUP(marks_call_done) marks_call c = {.m = m};
    TIDE_TRY(tide_node_marks(m->node, keep_mark, &c, err));
    TIDE_TRY(tide_peer_marks_sort(&c.ours, err));
    const size_t count = (size_t)c.ours.origin_count + 1;
    c.greatest = calloc(count, sizeof *c.greatest);
    c.least = calloc(count, sizeof *c.least);
    c.whose = calloc(count, sizeof *c.whose);
    c.has_least = calloc(count, sizeof *c.has_least);
    c.seen = calloc(count, sizeof *c.seen);
    TIDE_NEED_MEMORY(c.greatest && c.least && c.whose && c.has_least && c.seen, err);
    TIDE_TRY(tide_peer_list(m->node, meet_peer, meet_peer_mark, &c, err));
    end_peer(&c);
    tell_logs(&c);
    return TIDE_OK;
}

static tide_status look(tide_replica_metrics *m, tide_error *err)
{
    tide_node_counts counts = {.conflicts = 0};
    for (int id = FIGURE_TABLE_ROWS; id < FIGURE_COUNT; id++)
        m->families[id].count = 0;
    TIDE_TRY(tide_foreign_read(tide_node_file(m->node), look_at_file, m, err));
    TIDE_TRY(look_at_logs(m, err));
    TIDE_TRY(tide_node_count(m->node, &counts, err));
    set(m, FIGURE_CONFLICTS, "", "", counts.conflicts);
    set(m, FIGURE_ASIDE, "", "", counts.aside);
    set(m, FIGURE_QUARANTINED, "", "", counts.quarantined);
    return TIDE_OK;
}

/* ---- showing ---- */

static void write_family(tide_replica_metrics *m, tide_metrics_writer *writer, int id)
{
    const family *f = &m->families[id];
    const int64_t now_us = m->env->mono_us(m->env);
    if (f->count == 0)
        return;
    tide_metrics_family(writer, &rows[id]);
    for (int i = 0; i < f->count; i++) {
        const sample *s = &f->samples[i];
        tide_metrics_sample(writer, (const char *const[]){s->labels[0], s->labels[1]},
                            id == FIGURE_PROVEN_AGE ? now_us - s->value : s->value);
    }
}

static void write_figures(void *arg, tide_metrics_writer *writer)
{
    tide_replica_metrics *m = arg;
    TIDE_HOLD(&m->lock);
    const int64_t now_us = m->env->mono_us(m->env);
    if (m->looked_us == 0 || now_us - m->looked_us >= TIDE_REPLICA_METRICS_US) {
        tide_error err = {.status = TIDE_OK};
        if (look(m, &err) >= TIDE_OK)
            m->looked_us = now_us;
    }
    for (int id = 0; id < FIGURE_COUNT; id++)
        write_family(m, writer, id);
}

/* ---- life ---- */

tide_status tide_replica_metrics_new(tide_replica_metrics **out, tide_metrics *metrics,
                                     tide_node *node, tide_error *err)
{
    TIDE_NEW(tide_replica_metrics, m, err);
    m->node = node;
    m->env = tide_foreign_env(tide_node_file(node));
    (void)pthread_mutex_init(&m->lock, NULL);
    if (metrics)
        tide_metrics_add_source(metrics, write_figures, m);
    *out = m;
    return TIDE_OK;
}

void tide_replica_metrics_free(tide_replica_metrics *metrics)
{
    if (!metrics)
        return;
    for (int id = 0; id < FIGURE_COUNT; id++)
        free(metrics->families[id].samples);
    (void)pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}
