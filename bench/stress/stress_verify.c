/* stress_verify.c - what the writers of a stress run knew, beside what is in the store. See stress.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench/stress/stress_internal.h"
#include "lake/mark_map.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { COMMITS_PAGE = 5000, LINE_MAX_BYTES = 1024 };

/* What became of a request, in the lowest bits; above them the snapshot of an acknowledged one. */
enum { ASKED = 1, ACKNOWLEDGED, REFUSED, SEEN, STATE_BITS = 3, STATE_MASK = 7 };

typedef struct judgement {
    const tide_stress *run;
    tide_mark_map requests; /* by key */
    tide_lake_finding_fn *fn;
    void *arg;
    tide_stress_report *out;
    int64_t acknowledged_there;
    int64_t after;
    bool is_last;
} judgement;

static void judgement_done(judgement *j)
{
    tide_mark_map_done(&j->requests);
}

static tide_status set_state(judgement *j, const char *key, int64_t snapshot, int state,
                             tide_error *err)
{
    const tide_digest128 digest = tide_digest128_of(tide_view_of(key));
    return tide_mark_map_put(&j->requests, &digest, (snapshot << STATE_BITS) | state, err);
}

/* ---- logs ---- */

static tide_status take_error(judgement *j, const char *line, int64_t status)
{
    const bool is_known = status < 0 && status > -(TIDE_STRESS_STATUSES - 1);
    j->out->errors++;
    j->out->by_status[is_known ? -status : TIDE_STRESS_STATUSES - 1]++;
    if (strstr(line, "23505") || strstr(line, "UNIQUE") || strstr(line, "duplicate key"))
        j->out->duplicate_keys++;
    if (!j->out->first_error[0])
        (void)snprintf(j->out->first_error, sizeof j->out->first_error, "%.*s",
                       (int)strcspn(line, "\n"), line);
    return TIDE_OK;
}

static tide_status take_line(judgement *j, const char *line, int64_t *commits, tide_error *err)
{
    char key[TIDE_STRESS_NAME_MAX] = "";
    int64_t first = 0; /* of A a catalog, of R and E a status */
    int64_t snapshot = 0;
    int64_t tries = 0;
    const char *at = line + 1;
    const bool has_key = tide_stress_word(&at, key);
    const bool has_first = has_key && tide_stress_number(&at, &first);
    const bool is_whole =
        has_first && tide_stress_number(&at, &snapshot) && tide_stress_number(&at, &tries);
    switch (line[0]) {
    case 'I':
        return set_state(j, key, 0, ASKED, err);
    case 'A':
        if (!is_whole)
            return TIDE_OK; /* torn: the writer died in it, and its successor asks again */
        (*commits)++;
        j->out->retries += tries > 1 ? tries - 1 : 0;
        return set_state(j, key, snapshot, ACKNOWLEDGED, err);
    case 'R':
        j->out->conflicts += first == TIDE_E_CONFLICT;
        j->out->refused += first != TIDE_E_CONFLICT;
        return set_state(j, key, 0, REFUSED, err);
    case 'U':
        j->out->unknown++;
        return TIDE_OK;
    case 'P':
        j->out->repeats++;
        return TIDE_OK;
    case 'E':
        return take_error(j, line, first);
    default:
        return tide_fail(err, TIDE_E_DAMAGED, "a line of a stress log that is none: %.80s", line);
    }
}

static tide_status read_log(judgement *j, const char *path, tide_error *err)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return tide_fail(err, TIDE_E_IO, "cannot read %s: %s", path, strerror(errno));
    char line[LINE_MAX_BYTES];
    int64_t commits = 0;
    tide_status status = TIDE_OK;
    while (status >= TIDE_OK && fgets(line, sizeof line, in))
        status = take_line(j, line, &commits, err);
    (void)fclose(in);
    TIDE_TRY(status);
    tide_stress_report *out = j->out;
    out->slowest = out->slowest < 0 || commits < out->slowest ? commits : out->slowest;
    out->fastest = commits > out->fastest ? commits : out->fastest;
    out->commits += commits;
    return TIDE_OK;
}

/* ---- the store ---- */

static void tell(judgement *j, const char *rule, int64_t snapshot, const char *key,
                 const char *words)
{
    char text[256];
    (void)snprintf(text, sizeof text, "request %.90s: %s", key, words);
    if (j->fn)
        j->fn(j->arg, &(tide_lake_finding){rule, 0, snapshot, text});
}

static tide_status match_commit(judgement *j, int64_t snapshot, const char *key, tide_error *err)
{
    char prepared[TIDE_STRESS_NAME_MAX];
    (void)snprintf(prepared, sizeof prepared, "%.40s-prepare-", j->run->prefix);
    if (strncmp(key, prepared, strlen(prepared)) == 0)
        return TIDE_OK;
    const tide_digest128 digest = tide_digest128_of(tide_view_of(key));
    const int64_t found = tide_mark_map_get(&j->requests, &digest);
    switch (found & STATE_MASK) {
    case ASKED: /* and never answered: it may be there */
        return set_state(j, key, snapshot, SEEN, err);
    case ACKNOWLEDGED:
        if (found >> STATE_BITS != snapshot) {
            j->out->lost++;
            tell(j, "lost", snapshot, key, "acknowledged with another snapshot than it has");
        }
        j->acknowledged_there++;
        return set_state(j, key, snapshot, SEEN, err);
    case REFUSED:
        j->out->phantoms++;
        tell(j, "phantom", snapshot, key, "refused, but committed");
        return TIDE_OK;
    case SEEN:
        j->out->phantoms++;
        tell(j, "phantom", snapshot, key, "committed twice");
        return TIDE_OK;
    default:
        j->out->phantoms++;
        tell(j, "phantom", snapshot, key, "nobody asked for it");
        return TIDE_OK;
    }
}

static tide_status match_page(tide_tx *tx, void *arg, tide_error *err)
{
    judgement *j = arg;
    char prefix[TIDE_STRESS_NAME_MAX];
    (void)snprintf(prefix, sizeof prefix, "%.40s-", j->run->prefix);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_STRESS_COMMITS, err,
                              tide_bind_text("prefix", prefix), tide_bind_i64("after", j->after),
                              tide_bind_i64("limit", COMMITS_PAGE)));
    int64_t rows = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        j->after = tide_query_col_i64(query);
        const tide_view key = tide_query_col_text(query);
        char text[TIDE_LAKE_KEY_MAX + 1];
        (void)snprintf(text, sizeof text, "%.*s", (int)key.len, key.len > 0 ? key.ptr : "");
        TIDE_TRY(match_commit(j, j->after, text, err));
        rows++;
    }
    j->is_last = rows < COMMITS_PAGE;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status match_all(tide_tx *tx, void *arg, tide_error *err)
{
    judgement *j = arg;
    for (j->is_last = false; !j->is_last;)
        TIDE_TRY(match_page(tx, j, err));
    return TIDE_OK;
}

tide_status tide_stress_judge(tide_lake *lake, const tide_stress *run, const char *const *logs,
                              int count, tide_lake_finding_fn *fn, void *arg,
                              tide_stress_report *out, tide_error *err)
{
    *out = (tide_stress_report){.slowest = -1};
    TIDE_CLEANUP(judgement_done) judgement j = {.run = run, .fn = fn, .arg = arg, .out = out};
    for (int i = 0; i < count; i++)
        TIDE_TRY(read_log(&j, logs[i], err));
    TIDE_TRY(tide_store_read(tide_lake_store(lake), match_all, &j, err));
    const int64_t missing = out->commits - j.acknowledged_there;
    if (missing > 0) {
        out->lost += missing;
        tell(&j, "lost", 0, "(several)", "acknowledged, and not there");
    }
    if (out->lost + out->phantoms > 0)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "%" PRId64 " acknowledged commits are lost, %" PRId64
                         " were made that nobody asked for",
                         out->lost, out->phantoms);
    return TIDE_OK;
}
