#include "services/access/token_lookup.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"

/* Members are the lock's; the token is the thread's while it is checked. */
typedef struct check_request {
    struct check_request *next;
    bool is_done;
    bool is_abandoned; /* its caller has gone, and the thread frees it */
    tide_status status;
    tide_token found;
    tide_error error;
    size_t token_len;
    char token[];
} check_request;

struct tide_token_lookup {
    tide_store *store;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t has_work;
    pthread_cond_t has_answer;
    check_request *first; /* waiting, oldest first */
    int count;
    bool is_ending;
    int64_t late_us; /* tide_cond_until: from then on the check that runs is late; 0: none runs */
};

static void free_request(check_request *request)
{
    explicit_bzero(request->token, request->token_len);
    free(request);
}

/* ---- the thread ---- */

/* Under the lock. The oldest for which a caller waits; NULL: there is none. */
static check_request *next_request(tide_token_lookup *lookup)
{
    while (lookup->first) {
        check_request *request = lookup->first;
        lookup->first = request->next;
        lookup->count--;
        if (!request->is_abandoned)
            return request;
        free_request(request);
    }
    return NULL;
}

/* Under the lock, but while the store is read. */
static void run_check(tide_token_lookup *lookup, check_request *request)
{
    lookup->late_us = tide_cond_until(TIDE_TOKEN_LOOKUP_US);
    (void)pthread_mutex_unlock(&lookup->lock);
    tide_token found = {.role = TIDE_TOKEN_READ};
    tide_error error = {.status = TIDE_OK};
    const tide_status status = tide_token_check(
        lookup->store, tide_view_bytes(request->token, request->token_len), &found, &error);
    (void)pthread_mutex_lock(&lookup->lock);
    lookup->late_us = 0;
    if (request->is_abandoned) {
        free_request(request);
        return;
    }
    request->status = status;
    request->found = found;
    request->error = error;
    request->is_done = true;
    (void)pthread_cond_broadcast(&lookup->has_answer);
}

static void *run_checks(void *arg)
{
    tide_token_lookup *lookup = arg;
    TIDE_HOLD(&lookup->lock);
    while (!lookup->is_ending) {
        check_request *request = next_request(lookup);
        if (request)
            run_check(lookup, request);
        else
            (void)pthread_cond_wait(&lookup->has_work, &lookup->lock);
    }
    return NULL;
}

/* ---- callers ---- */

static tide_status fail_late(tide_error *err)
{
    return tide_fail(err, TIDE_E_UNAVAILABLE,
                     "cannot check the token: the store has not answered within %d ms; retry",
                     (int)(TIDE_TOKEN_LOOKUP_US / 1000));
}

/* Under the lock. */
static bool is_hopeless(const tide_token_lookup *lookup)
{
    return lookup->count >= TIDE_TOKEN_LOOKUPS ||
           (lookup->late_us != 0 && lookup->late_us <= tide_cond_until(0));
}

static void add_request(tide_token_lookup *lookup, check_request *request)
{
    check_request **last = &lookup->first;
    while (*last)
        last = &(*last)->next;
    *last = request;
    lookup->count++;
    (void)pthread_cond_signal(&lookup->has_work);
}

tide_status tide_token_lookup_check(tide_token_lookup *lookup, tide_view token, tide_token *out,
                                    tide_error *err)
{
    const int64_t until_us = tide_cond_until(TIDE_TOKEN_LOOKUP_US);
    check_request *request = calloc(1, sizeof *request + token.len);
    TIDE_NEED_MEMORY(request, err);
    request->token_len = token.len;
    memcpy(request->token, token.ptr, token.len);
    TIDE_HOLD(&lookup->lock);
    if (is_hopeless(lookup)) {
        free_request(request);
        return fail_late(err);
    }
    add_request(lookup, request);
    bool is_in_time = true;
    while (!request->is_done && is_in_time)
        is_in_time = tide_cond_wait(&lookup->has_answer, &lookup->lock, until_us);
    if (!request->is_done) {
        request->is_abandoned = true;
        return fail_late(err);
    }
    const tide_status status = request->status;
    *out = request->found;
    if (err)
        *err = request->error;
    free_request(request);
    return status;
}

/* ---- open, close ---- */

tide_status tide_token_lookup_open(tide_token_lookup **out, tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_token_lookup_closep) TIDE_NEW(tide_token_lookup, lookup, err);
    lookup->store = store;
    (void)pthread_mutex_init(&lookup->lock, NULL);
    (void)pthread_cond_init(&lookup->has_work, NULL);
    (void)pthread_cond_init(&lookup->has_answer, NULL);
    TIDE_TRY(tide_thread_start(&lookup->thread, run_checks, lookup, err));
    lookup->has_thread = true;
    *out = TIDE_TAKE(lookup);
    return TIDE_OK;
}

void tide_token_lookup_close(tide_token_lookup *lookup)
{
    if (!lookup)
        return;
    (void)pthread_mutex_lock(&lookup->lock);
    lookup->is_ending = true;
    (void)pthread_cond_signal(&lookup->has_work);
    (void)pthread_mutex_unlock(&lookup->lock);
    if (lookup->has_thread)
        (void)pthread_join(lookup->thread, NULL);
    while (lookup->first) {
        check_request *request = lookup->first;
        lookup->first = request->next;
        free_request(request);
    }
    (void)pthread_cond_destroy(&lookup->has_answer);
    (void)pthread_cond_destroy(&lookup->has_work);
    (void)pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}
