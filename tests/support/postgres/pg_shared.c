#include "support/postgres/pg_cluster_internal.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"

static pg_cluster shared;
static bool has_shared;
static pid_t shared_owner;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void stop_shared(void)
{
    /* A copy of this process made by fork() must not stop what is not its own. */
    if (getpid() == shared_owner)
        pg_cluster_stop(&shared);
}

static void options_freep(PQconninfoOption **options)
{
    PQconninfoFree(*options);
}

/* Take over the server behind a URL: all its settings become query parameters, but the database. */
static tide_status use_url(pg_cluster *c, const char *url, tide_error *err)
{
    *c = (pg_cluster){.base = "postgres:///", .server = pg_no_process, .supervisor = pg_no_process};
    char *reason = NULL;
    TIDE_CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(url, &reason);
    if (options == NULL) {
        const tide_status status = tide_fail(err, TIDE_E_INVALID, "TIDEMARK_TEST_PG_URL: %s",
                                             reason != NULL ? reason : "?");
        PQfreemem(reason);
        return status;
    }
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (o->val == NULL || strcmp(o->keyword, "dbname") == 0)
            continue;
        pg_append_text(c->query, sizeof(c->query), c->query[0] == '\0' ? "?" : "&");
        pg_append_text(c->query, sizeof(c->query), o->keyword);
        pg_append_text(c->query, sizeof(c->query), "=");
        pg_append_encoded(c->query, sizeof(c->query), o->val);
    }
    return TIDE_OK;
}

static tide_status open_shared(tide_error *err)
{
    const char *url = getenv("TIDEMARK_TEST_PG_URL");
    const char *directory = getenv("TIDEMARK_TEST_PG_DIR");
    if (url != NULL && url[0] != '\0')
        return use_url(&shared, url, err);
    if (directory != NULL && directory[0] != '\0') {
        char socket_url[PG_CLUSTER_URL_MAX] = "postgres://" PG_SERVER_USER "@";
        pg_append_encoded(socket_url, sizeof(socket_url), directory);
        return use_url(&shared, socket_url, err);
    }
    TIDE_TRY(pg_cluster_start(&shared, &(pg_cluster_options){.is_copy = true}, err));
    shared_owner = getpid();
    atexit(stop_shared);
    return TIDE_OK;
}

tide_status pg_cluster_shared(pg_cluster **out, tide_error *err)
{
    pthread_mutex_lock(&shared_lock);
    const tide_status status = has_shared ? TIDE_OK : open_shared(err);
    has_shared = status == TIDE_OK;
    pthread_mutex_unlock(&shared_lock);
    if (status == TIDE_OK)
        *out = &shared;
    return status;
}

pg_cluster *pg_cluster_for_test(void)
{
    pg_cluster *c = NULL;
    tide_error err;
    const tide_status status = pg_cluster_shared(&c, &err);
    if (status == TIDE_E_NOT_FOUND && !check_is_ci()) {
        print_error("\n*** SKIPPED, NOT TESTED ON POSTGRESQL: %s ***\n\n", err.text);
        skip();
    }
    if (status != TIDE_OK)
        fail_msg("PostgreSQL: %s", err.text);
    return c;
}
