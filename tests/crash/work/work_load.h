/* work_load.h - work under load: processes add items and work on them, and each writes what it was answered.
 *
 *     LOAD_ADD      adds items without end: batches, delays, unique keys, dependencies
 *     LOAD_RUNTIME  the worker runtime (worker.h): threads, prefetch, renewal, sweeps
 *     LOAD_PLAIN    claim, renew, finish and finish_many in a loop, and a sweep when there is nothing to do
 *
 * Their calls are a history for tests/check/leases.py: add, claim, renew and finish, announced before they are
 * made. A claim of the runtime is only known to lie between the start of the load and its first sight. For each
 * acknowledgement `say` is called with a word (add, try, done, fail), an item and a token: it sets the pace of
 * the test.
 *
 * A finish leaves its effect in the same commit: the output names the token, a checkpoint (iteration_end) names it, and
 * a follow-up item carries it in its id. So an item finished twice has two effects. Items finished by finish_many have
 * the output only, and say so in it.
 *
 * Wrong workers, to see that the checks notice:
 *
 *     hasty  writes down a finish before it is made
 *     split  adds the follow-up first, in a transaction of its own
 *
 * Threads: a load is one thread (the runtime has its own); say is called on any. */
#pragma once

#include <stdatomic.h>

#include <tidemark/tidemark.h>
#include <tidemark/watch.h>
#include <tidemark/work.h>
#include <tidemark/worker.h>

enum {
    LOAD_ID_SIZE = 96,
    LOAD_LINE_MAX = 160,
    LOAD_TASKS = 3,
    LOAD_TYPES = 2,
    LOAD_RETRIES_MAX = 3,
    LOAD_THREADS = 3, /* of the runtime */
};

#define LOAD_LEASE_US INT64_C(300000)

typedef enum load_role { LOAD_ADD, LOAD_RUNTIME, LOAD_PLAIN } load_role;

typedef struct load load;
struct load {
    load_role role;
    tide_store *store;
    int64_t cycle;
    int64_t child;
    uint64_t seed;
    bool is_hasty;
    bool is_split;
    bool is_server_mortal;   /* the server may go away and come back */
    const atomic_bool *stop; /* not heard by the runtime: tide_worker_stop */
    int history;             /* where its calls are written (support/history.h) */
    int64_t began_ns;        /* filled */
    char name[32];           /* filled */
    void (*say)(const load *from, const char *word, const char *id, int64_t token);
    void *arg;
};

/* Make the tasks that the items belong to. */
TIDE_MUST_CHECK tide_status load_prepare(tide_store *store, tide_error *err);

/* Until *stop, or until the store says something that it should not say. */
TIDE_MUST_CHECK tide_status load_run(load *l, tide_error *err);

/* The worker of a LOAD_RUNTIME, for those who run and stop it themselves. The load must outlive it. */
TIDE_MUST_CHECK tide_status load_open_worker(load *l, tide_worker **out, tide_error *err);

/* "ack WORD ID TOKEN\n"; returns the length. */
size_t load_format(char out[LOAD_LINE_MAX], const char *word, const char *id, int64_t token);

/* What a finish writes: `{"by":TOKEN}`, or of finish_many `{"many":TOKEN}`. */
void load_output(char out[48], const char *how, int64_t token);

/* Follow-ups have no follow-ups. */
bool load_is_root(const char *id);
void load_follow_up_id(char out[LOAD_ID_SIZE], const char *root, int64_t token);
