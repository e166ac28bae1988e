/* stress_writer.c - what one process does in a stress run. See stress.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/env.h>

#include "base/cleanup.h"
#include "bench/stress/stress_internal.h"

enum { TABLES = 6, SCHEMAS = 3, LINE_MAX_BYTES = 1024 };

struct tide_stress_writer {
    tide_lake *lake;
    tide_stress run;
    tide_env *env;
    int log;
    int64_t count;                   /* requests so far */
    char fork[TIDE_STRESS_NAME_MAX]; /* its last; "": none */
    bool has_left;                   /* its predecessor did not hear of ... */
    tide_stress_request left;
};

static uint64_t below(tide_stress_writer *w, uint64_t n)
{
    uint64_t random = 0;
    w->env->random(w->env, &random, sizeof random);
    return random % n;
}

/* ---- the log ---- */

/* One write call a line: a line is there or not. It ends with its time on the monotonic clock. */
static tide_status note(tide_stress_writer *w, char letter, const char *text, tide_error *err)
{
    char line[LINE_MAX_BYTES];
    const int len = snprintf(line, sizeof line, "%c %.900s @%" PRId64 "\n", letter, text,
                             w->env->mono_us(w->env));
    if (write(w->log, line, (size_t)len) != len)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", w->run.log, strerror(errno));
    return TIDE_OK;
}

/* The last line that is a request without an answer. */
static tide_status read_log(tide_stress_writer *w, tide_error *err)
{
    FILE *in = fopen(w->run.log, "r");
    if (!in)
        return errno == ENOENT
                   ? TIDE_OK
                   : tide_fail(err, TIDE_E_IO, "cannot read %s: %s", w->run.log, strerror(errno));
    char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof line, in)) {
        if (line[0] == 'I')
            w->has_left = tide_stress_parse(line + 2, &w->left);
        else if (strchr("ARU", line[0]))
            w->has_left = false;
    }
    (void)fclose(in);
    return TIDE_OK;
}

/* ---- what to do next ---- */

typedef struct chance {
    tide_stress_act act;
    uint64_t weight; /* of 100 */
} chance;

static const chance chances[] = {
    {TIDE_STRESS_APPEND, 66},     {TIDE_STRESS_CREATE_TABLE, 8},   {TIDE_STRESS_DROP_TABLE, 5},
    {TIDE_STRESS_ALTER_TABLE, 6}, {TIDE_STRESS_CREATE_SCHEMA, 3},  {TIDE_STRESS_DROP_SCHEMA, 3},
    {TIDE_STRESS_SEVERAL, 6},     {TIDE_STRESS_CREATE_CATALOG, 1}, {TIDE_STRESS_FORK, 2},
};

static tide_stress_act choose_act(tide_stress_writer *w)
{
    uint64_t left = below(w, 100);
    for (size_t i = 0; i < sizeof chances / sizeof *chances; i++) {
        if (left < chances[i].weight)
            return chances[i].act;
        left -= chances[i].weight;
    }
    return TIDE_STRESS_APPEND;
}

static void choose_name(tide_stress_writer *w, tide_stress_request *request)
{
    switch (request->act) {
    case TIDE_STRESS_APPEND: /* mostly to the table that is always there */
        if (below(w, 4) > 0) {
            (void)snprintf(request->name, sizeof request->name, "events");
            return;
        }
        break;
    case TIDE_STRESS_CREATE_SCHEMA:
    case TIDE_STRESS_DROP_SCHEMA:
    case TIDE_STRESS_SEVERAL:
        (void)snprintf(request->name, sizeof request->name, "s%" PRIu64, below(w, SCHEMAS));
        return;
    case TIDE_STRESS_CREATE_CATALOG:
    case TIDE_STRESS_FORK:
        (void)snprintf(request->name, sizeof request->name, "%.90s-x", request->key);
        return;
    case TIDE_STRESS_CREATE_TABLE:
    case TIDE_STRESS_DROP_TABLE:
    case TIDE_STRESS_ALTER_TABLE:
    case TIDE_STRESS_ACTS:
        break;
    }
    (void)snprintf(request->name, sizeof request->name, "t%" PRIu64, below(w, TABLES));
}

static void choose(tide_stress_writer *w, tide_stress_request *out)
{
    *out = (tide_stress_request){.act = choose_act(w)};
    (void)snprintf(out->key, sizeof out->key, "%.40s-%d-%d-%" PRId64, w->run.prefix, w->run.writer,
                   w->run.turn, ++w->count);
    if (w->fork[0] && below(w, 8) == 0)
        (void)snprintf(out->catalog, sizeof out->catalog, "%s", w->fork);
    else
        (void)snprintf(out->catalog, sizeof out->catalog, "%.40s-c%" PRIu64, w->run.prefix,
                       below(w, (uint64_t)w->run.catalogs));
    choose_name(w, out);
}

/* ---- asking ---- */

/* Ask until somebody answers: what is transient and what is unknown is asked again under the same key. */
static tide_status persist(tide_stress_writer *w, const tide_stress_request *request, bool is_again,
                           bool *is_unknown, int64_t deadline_us, tide_stress_answer *out,
                           tide_error *err)
{
    for (int64_t pause_us = 1000;; pause_us = pause_us < 100000 ? 2 * pause_us : pause_us) {
        const tide_status status = tide_stress_ask(w->lake, &w->run, request, is_again, out, err);
        const bool is_lost = status == TIDE_E_OUTCOME_UNKNOWN;
        if (!is_lost && !tide_status_get(status)->is_retryable)
            return status;
        *is_unknown = *is_unknown || is_lost;
        is_again = true;
        TIDE_IGNORE(note(w, 'P', request->key, err));
        if (w->env->mono_us(w->env) >= deadline_us)
            return status;
        w->env->sleep_us(w->env, pause_us);
    }
}

static tide_status note_answer(tide_stress_writer *w, const tide_stress_request *request,
                               tide_status status, bool is_unknown,
                               const tide_stress_answer *answer, const tide_error *why,
                               tide_error *err)
{
    char text[LINE_MAX_BYTES];
    const bool is_collision = status == TIDE_E_CONFLICT;
    if (status == TIDE_OK) {
        (void)snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 " %d", request->key,
                       answer->catalog_id, answer->snapshot_id, answer->tries);
        return note(w, 'A', text, err);
    }
    (void)snprintf(text, sizeof text, "%s %d %s", request->key, (int)status, why->text);
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = ' ';
    const bool is_expected = is_collision || status == TIDE_E_EXISTS || status == TIDE_E_NOT_FOUND;
    if (!is_expected && !tide_status_get(status)->is_retryable && status != TIDE_E_OUTCOME_UNKNOWN)
        TIDE_TRY(note(w, 'E', text, err));
    return note(w, is_unknown || !is_expected ? 'U' : 'R', text, err);
}

tide_status tide_stress_writer_step(tide_stress_writer *w, int64_t deadline_us, tide_error *err)
{
    tide_stress_request request;
    const bool is_again = w->has_left;
    if (is_again) {
        request = w->left;
        w->has_left = false;
        TIDE_TRY(note(w, 'P', request.key, err));
    } else {
        choose(w, &request);
        char line[512];
        tide_stress_line(&request, line);
        TIDE_TRY(note(w, 'I', line, err));
    }
    bool is_unknown = is_again;
    tide_stress_answer answer = {0};
    tide_error why = {0};
    const tide_status status =
        persist(w, &request, is_again, &is_unknown, deadline_us, &answer, &why);
    if (status == TIDE_OK && request.act == TIDE_STRESS_FORK)
        (void)snprintf(w->fork, sizeof w->fork, "%s", request.name);
    return note_answer(w, &request, status, is_unknown, &answer, &why, err);
}

tide_status tide_stress_writer_open(tide_stress_writer **out, tide_lake *lake,
                                    const tide_stress *run, tide_error *err)
{
    TIDE_CLEANUP(tide_stress_writer_closep)
    tide_stress_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tide_no_memory(err);
    w->lake = lake;
    w->run = *run;
    w->env = tide_store_env(tide_lake_store(lake));
    w->log = -1;
    TIDE_TRY(read_log(w, err));
    w->log = open(run->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (w->log < 0)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", run->log, strerror(errno));
    *out = TIDE_TAKE(w);
    return TIDE_OK;
}

void tide_stress_writer_close(tide_stress_writer *w)
{
    if (w && w->log >= 0)
        (void)close(w->log);
    free(w);
}

/* ---- what is there before ---- */

static tide_status make_events(tide_lake *lake, const char *catalog, const char *key,
                               tide_error *err)
{
    static const tide_lake_column_def column = {.name = "a", .type = "int64"};
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_TRY(tide_lake_begin(&change, lake, catalog, 0, err));
    const tide_status status = tide_lake_create_table(change, "main", "events", &column, 1, err);
    if (status == TIDE_E_EXISTS)
        return TIDE_OK;
    TIDE_TRY(status);
    const tide_lake_commit_options options = {
        .request_key = key, .request_hash = tide_view_of(key), .author = "stress"};
    tide_lake_committed committed;
    return tide_lake_commit(change, &options, &committed, err);
}

static tide_status make_seed(const tide_stress *run, tide_error *err)
{
    if (access(run->seed_file, F_OK) == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) char *path = strdup(run->seed_file);
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", run->seed_file, strerror(errno));
    const bool is_written = fputs("PAR1PAR1", out) >= 0;
    if (fclose(out) != 0 || !is_written)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", run->seed_file, strerror(errno));
    return TIDE_OK;
}

tide_status tide_stress_prepare(tide_lake *lake, const tide_stress *run, tide_error *err)
{
    TIDE_TRY(make_seed(run, err));
    for (int i = 0; i < run->catalogs; i++) {
        char name[TIDE_STRESS_NAME_MAX];
        char key[TIDE_STRESS_NAME_MAX];
        (void)snprintf(name, sizeof name, "%.40s-c%d", run->prefix, i);
        (void)snprintf(key, sizeof key, "%.40s-prepare-%d", run->prefix, i);
        const tide_lake_commit_options options = {
            .request_key = key, .request_hash = tide_view_of(key), .author = "stress"};
        tide_lake_created created;
        TIDE_TRY(tide_lake_create_catalog(lake, name, true, &options, &created, err));
        (void)snprintf(key, sizeof key, "%.40s-prepare-%d-events", run->prefix, i);
        TIDE_TRY(make_events(lake, name, key, err));
    }
    return TIDE_OK;
}
