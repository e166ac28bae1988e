#include "crash/chaos_sampler.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <string.h>
#include <time.h>

enum { ROUND_MS = 150, COLUMNS = 6 };

static void pause_round(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ROUND_MS * 1000000L}, NULL);
}

/* True: everything that could be seen before is durable. */
static bool flush(PGconn *connection)
{
    PGresult *result =
        PQexec(connection, "SELECT pg_logical_emit_message(true, 'chaos', 'everything so far')");
    const bool is_done = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return is_done;
}

static void write_rows(chaos_sampler *s, const PGresult *rows)
{
    const int64_t now_ms = proc_now_ms() - s->began_ms;
    for (int row = 0; row < PQntuples(rows); row++) {
        (void)fprintf(s->out, "%" PRId64, now_ms);
        for (int column = 0; column < COLUMNS; column++)
            (void)fprintf(s->out, " %s", PQgetvalue(rows, row, column));
        (void)fputc('\n', s->out);
    }
}

/* False: the connection is of no use any more. */
static bool look(chaos_sampler *s, PGconn *connection)
{
    PGresult *rows =
        PQexec(connection, "SELECT agent_id, data_type, session_id, epoch, version, last_seq_id "
                           "FROM polling_checkpoints WHERE session_id <> ''");
    const bool is_there = PQresultStatus(rows) == PGRES_TUPLES_OK;
    if (is_there && flush(connection)) {
        write_rows(s, rows);
        atomic_fetch_add(&s->rounds, 1);
    }
    PQclear(rows);
    return PQstatus(connection) == CONNECTION_OK;
}

static void *run_sampler(void *arg)
{
    chaos_sampler *s = arg;
    PGconn *connection = NULL;
    while (!atomic_load(&s->is_over)) {
        if (!connection)
            connection = PQconnectdb(s->url);
        if (PQstatus(connection) != CONNECTION_OK || !look(s, connection)) {
            PQfinish(connection);
            connection = NULL;
        }
        pause_round();
    }
    PQfinish(connection);
    return NULL;
}

tide_status chaos_sampler_open(chaos_sampler *sampler, const char *url, const char *path,
                               tide_error *err)
{
    sampler->url = url;
    sampler->began_ms = proc_now_ms();
    sampler->out = fopen(path, "we");
    if (!sampler->out)
        return tide_fail(err, TIDE_E_IO, "%s cannot be written", path);
    if (pthread_create(&sampler->thread, NULL, run_sampler, sampler) != 0)
        return tide_fail(err, TIDE_E_NOMEM, "no thread");
    return TIDE_OK;
}

void chaos_sampler_close(chaos_sampler *sampler)
{
    if (sampler->thread) {
        atomic_store(&sampler->is_over, true);
        (void)pthread_join(sampler->thread, NULL);
        sampler->thread = 0;
    }
    if (sampler->out)
        (void)fclose(sampler->out);
    sampler->out = NULL;
}
