#include "crash/chaos/chaos_sampler.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "support/history.h"

enum { ROUND_MS = 150 };

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

static int64_t number_of(const PGresult *rows, int row, int column)
{
    return strtoll(PQgetvalue(rows, row, column), NULL, 10);
}

static void write_rows(chaos_sampler *s, const PGresult *rows, int64_t begin_ns)
{
    const int64_t end_ns = history_now_ns();
    for (int row = 0; row < PQntuples(rows); row++) {
        history_line line;
        history_begin_at(&line, "sampler", "position", begin_ns);
        history_text(&line, "source", PQgetvalue(rows, row, 0));
        history_text(&line, "stream", PQgetvalue(rows, row, 1));
        history_text(&line, "session", PQgetvalue(rows, row, 2));
        history_number(&line, "epoch", number_of(rows, row, 3));
        history_number(&line, "version", number_of(rows, row, 4));
        history_number(&line, "number", number_of(rows, row, 5));
        history_end_at(&line, s->history, HISTORY_OK, end_ns);
    }
}

/* False: the connection is of no use any more. */
static bool look(chaos_sampler *s, PGconn *connection)
{
    const int64_t begin_ns = history_now_ns();
    PGresult *rows =
        PQexec(connection, "SELECT agent_id, data_type, session_id, epoch, version, last_seq_id "
                           "FROM polling_checkpoints WHERE session_id <> ''");
    const bool is_there = PQresultStatus(rows) == PGRES_TUPLES_OK;
    if (is_there && flush(connection)) {
        write_rows(s, rows, begin_ns);
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
    sampler->history = history_open(path);
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
    if (sampler->history > 0)
        (void)close(sampler->history);
    sampler->history = 0;
}
