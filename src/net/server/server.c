#include "net/server/server.h"

#include <assert.h>
#include <event2/listener.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "net/server/auth.h"
#include "net/server/loop.h"
#include "net/server/pool.h"

struct tide_server {
    tide_loop_shared shared;
    tide_loop **loops;
    size_t loop_count;
    size_t next_loop; /* the acceptor's: who gets the next connection */
    tide_pool *pool;
    int64_t connection_max;
    bool is_bound_by_files; /* connection_max is what the process may open, less the reserve */
    struct evconnlistener *listeners[TIDE_SERVER_LISTEN_MAX];
    char addresses[TIDE_SERVER_LISTEN_MAX][TIDE_ADDRESS_TEXT_MAX];
    size_t listener_count;
    struct event *retry; /* accept again, after files ran out */
};

#define ACCEPT_RETRY_US 100000

enum {
    ON_THEIR_WAY = 16,        /* connections above a limit for which a place is looked for */
    MMAP_FROM_LEN = 1 << 20,  /* larger blocks are the system's */
    HEAP_SPARE_LEN = 2 << 20, /* what a heap keeps at its end */
};

static bool enter_peer(tide_server *server, const tide_peer_key *key, int64_t more)
{
    const tide_server_context *context = server->shared.context;
    return tide_peers_enter(&server->shared.peers, key, context->limits.peer_connections + more);
}

/* Files ran out, or what connections may have of them: who calls waits in the kernel's queue until
 * some are closed. */
static void wait_for_files(tide_server *server)
{
    const struct timeval wait = {.tv_usec = ACCEPT_RETRY_US};
    for (size_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i])
            (void)evconnlistener_disable(server->listeners[i]);
    (void)event_add(server->retry, &wait);
}

/* On loop 0. What is above a limit takes the place of an idle connection, which its loop looks for;
 * a few may be on their way there. The rest is closed at once: that costs the peer as much as
 * us. */
static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int len, void *arg)
{
    (void)listener;
    tide_server *server = arg;
    tide_net_counters *counters = &server->shared.context->counters;
    tide_peer_key key;
    tide_room room = TIDE_ROOM_THERE;
    const int64_t open_count = tide_counted(&counters->connections_open);
    if (open_count >= server->connection_max + ON_THEIR_WAY) {
        tide_count(&counters->refused_connections, 1);
        (void)close(fd);
        return;
    }
    if (tide_peer_key_of(&key, address) && !enter_peer(server, &key, 0)) {
        if (!enter_peer(server, &key, ON_THEIR_WAY)) {
            tide_count(&counters->refused_peer_connections, 1);
            (void)close(fd);
            return;
        }
        room = TIDE_ROOM_OF_PEER;
    } else if (open_count >= server->connection_max) {
        room = TIDE_ROOM_OF_ANYBODY;
    }
    tide_count(&counters->connections_open, 1);
    tide_count(&counters->connections_accepted, 1);
    (void)pthread_mutex_lock(&server->shared.lock);
    server->shared.link_count++;
    (void)pthread_mutex_unlock(&server->shared.lock);
    tide_loop *loop = server->loops[server->next_loop];
    server->next_loop = (server->next_loop + 1) % server->loop_count;
    tide_loop_hand_over(loop, fd, address, (socklen_t)len, room);
    if (server->is_bound_by_files && open_count + 1 >= server->connection_max)
        wait_for_files(server);
}

static void on_accept_failed(struct evconnlistener *listener, void *arg)
{
    (void)listener;
    wait_for_files(arg);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    tide_server *server = arg;
    const tide_net_counters *counters = &server->shared.context->counters;
    if (server->is_bound_by_files &&
        tide_counted(&counters->connections_open) >= server->connection_max) {
        for (size_t i = 0; i < server->loop_count; i++)
            tide_loop_make_room(server->loops[i]);
        wait_for_files(server);
        return;
    }
    for (size_t i = 0; i < server->listener_count; i++) {
        if (server->listeners[i])
            (void)evconnlistener_enable(server->listeners[i]);
    }
}

/* On loop 0, or when no loop runs. */
static void stop_listening(void *arg)
{
    tide_server *server = arg;
    for (size_t i = 0; i < server->listener_count; i++) {
        if (!server->listeners[i])
            continue;
        evconnlistener_free(server->listeners[i]);
        server->listeners[i] = NULL;
        if (strncmp(server->addresses[i], "unix:", strlen("unix:")) == 0)
            (void)unlink(server->addresses[i] + strlen("unix:"));
    }
    if (server->retry)
        event_free(server->retry);
    server->retry = NULL;
}

static tide_status listen_on(tide_server *server, const tide_server_options *options,
                             const char *address, tide_error *err)
{
    const size_t index = server->listener_count;
    if (index == TIDE_SERVER_LISTEN_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d addresses", TIDE_SERVER_LISTEN_MAX);
    TIDE_TRY(tide_address_check(address, err)); /* before its reach is judged */
    TIDE_TRY(tide_auth_check_listen(address, options->tls != NULL, options->authorise != NULL,
                                    options->is_insecure, err));
    int fd = -1;
    TIDE_TRY(tide_address_listen(&fd, address, server->addresses[index], err));
    server->listeners[index] =
        evconnlistener_new(server->loops[0]->base, on_accept, server,
                           LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!server->listeners[index]) {
        (void)close(fd);
        return tide_no_memory(err);
    }
    evconnlistener_set_error_cb(server->listeners[index], on_accept_failed);
    server->listener_count++;
    return TIDE_OK;
}

static tide_status make_loops(tide_server *server, tide_error *err)
{
    const size_t count = (size_t)server->shared.context->limits.loops;
    server->loops = calloc(count, sizeof(void *));
    if (!server->loops)
        return tide_no_memory(err);
    for (; server->loop_count < count; server->loop_count++)
        TIDE_TRY(tide_loop_new(&server->loops[server->loop_count], &server->shared, err));
    assert(server->loops[0]);
    server->loops[0]->on_drain = stop_listening;
    server->loops[0]->on_drain_arg = server;
    server->retry = evtimer_new(server->loops[0]->base, on_retry, server);
    return server->retry ? TIDE_OK : tide_no_memory(err);
}

/* Where few files are allowed an eighth of them is for connections. */
static int64_t bound_connections(int64_t wanted)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return wanted;
    const int64_t limit = (int64_t)files.rlim_cur;
    const int64_t room =
        limit / 8 > limit - TIDE_SERVER_FILE_RESERVE ? limit / 8 : limit - TIDE_SERVER_FILE_RESERVE;
    return room < 1 ? 1 : room < wanted ? room : wanted;
}

static void init_shared(tide_loop_shared *shared)
{
    tide_peers_init(&shared->peers);
    (void)pthread_mutex_init(&shared->lock, NULL);
    (void)pthread_cond_init(&shared->emptied, NULL);
}

static tide_status fill_server(tide_server *server, const tide_server_options *options,
                               tide_error *err)
{
    tide_server_context *context = server->shared.context;
    context->authorise = options->authorise;
    context->authorise_arg = options->authorise_arg;
    context->on_ended = options->on_ended;
    context->on_ended_arg = options->on_ended_arg;
    server->shared.tls = options->tls;
    server->connection_max = bound_connections(context->limits.connections);
    server->is_bound_by_files = server->connection_max < context->limits.connections;
    TIDE_TRY(tide_pool_new(&server->pool, (size_t)context->limits.workers,
                           (size_t)context->limits.worker_queue, err));
    context->run_blocking = tide_pool_run;
    context->run_blocking_arg = server->pool;
    TIDE_TRY(make_loops(server, err));
    for (const char *const *address = options->listen; *address; address++)
        TIDE_TRY(listen_on(server, options, *address, err));
    for (size_t i = 0; i < server->loop_count; i++)
        TIDE_TRY(tide_loop_start(server->loops[i], err));
    return TIDE_OK;
}

static void free_server(tide_server *server)
{
    /* The listeners belong to loop 0: it closes them, if it runs. */
    if (server->loop_count > 0 && server->loops[0]->is_started)
        tide_server_drain(server);
    else
        stop_listening(server);
    /* Loop 0 ends last: the acceptor hands connections to the others. */
    for (size_t i = server->loop_count; i > 1; i--)
        tide_loop_free(server->loops[i - 1]);
    if (server->loop_count > 0)
        tide_loop_free(server->loops[0]);
    free(server->loops);
    tide_pool_free(server->pool);
    tide_peers_done(&server->shared.peers);
    (void)pthread_cond_destroy(&server->shared.emptied);
    (void)pthread_mutex_destroy(&server->shared.lock);
    tide_server_context_release(server->shared.context);
    free(server);
}

/* glibc raises its own bounds after the first large block is freed, and then keeps tens of MiB per
 * thread for ever. With bounds that somebody has set it does not: large blocks go back to the
 * system at once, the rest of a heap soon. */
static void bound_allocator(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM_LEN);
    (void)mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_LEN);
#endif
}

tide_status tide_server_open(tide_server **out, const tide_server_options *options, tide_error *err)
{
    tide_server *server = calloc(1, sizeof *server);
    if (!server)
        return tide_no_memory(err);
    init_shared(&server->shared);
    bound_allocator();
    tide_env *env = options->env ? options->env : tide_env_system();
    tide_status status = tide_server_context_new(&server->shared.context, env, options->limits,
                                                 options->routes, err);
    if (status == TIDE_OK)
        status = fill_server(server, options, err);
    if (status != TIDE_OK) {
        free_server(server);
        return status;
    }
    *out = server;
    return TIDE_OK;
}

void tide_server_drain(tide_server *server)
{
    for (size_t i = 0; i < server->loop_count; i++)
        tide_loop_drain(server->loops[i]);
}

static void wait_until_empty(tide_server *server)
{
    tide_loop_shared *shared = &server->shared;
    const int64_t until_us = tide_cond_until(shared->context->limits.drain_us);
    TIDE_HOLD(&shared->lock);
    while (shared->link_count > 0 && tide_cond_wait(&shared->emptied, &shared->lock, until_us)) {
    }
}

void tide_server_close(tide_server *server)
{
    if (!server)
        return;
    tide_server_drain(server);
    wait_until_empty(server);
    free_server(server);
}

const char *tide_server_address(const tide_server *server, size_t index)
{
    return index < server->listener_count ? server->addresses[index] : NULL;
}

const tide_net_counters *tide_server_counters(const tide_server *server)
{
    return &server->shared.context->counters;
}

size_t tide_server_held_len(const tide_server *server)
{
    return tide_budget_used(&server->shared.context->budget);
}

size_t tide_server_responses_len(const tide_server *server)
{
    return tide_budget_used(&server->shared.context->answers);
}
