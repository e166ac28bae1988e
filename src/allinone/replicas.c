#include "allinone/replicas.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/replica/daemon.h"
#include "tidemark_up_v1_up.pb-c.h"

enum { ADDRESS_SIZE = 300, UNDER_SIZE = TIDE_UP_REPLICA_NAME_MAX + 16 };

#define EVERY_US INT64_C(5000000)
#define COLLECT_US INT64_C(3600000000)
#define SNAPSHOT_US INT64_C(86400000000)

typedef struct database {
    const tide_up_replica *given;
    char under[UNDER_SIZE];
    char *file;                                      /* absolute path */
    char addresses[TIDE_UP_PEERS_MAX][ADDRESS_SIZE]; /* of peers, from start on */
    tide_replicad_options options;
    tide_node *node;
    tide_replicad *replicad;
} database;

struct tide_replicas {
    tide_replicas_options options;
    tide_listener *listener;
    database databases[TIDE_UP_REPLICAS_MAX];
    int count;
};

/* ---- names ---- */

static tide_status check_name(const char *name, tide_error *err)
{
    const size_t len = strlen(name);
    bool is_good = len > 0 && len <= TIDE_UP_REPLICA_NAME_MAX && name[0] != '.';
    for (size_t i = 0; i < len; i++)
        is_good = is_good && (isalnum((unsigned char)name[i]) || strchr("-_.", name[i]));
    return is_good ? TIDE_OK
                   : tide_fail(err, TIDE_E_INVALID,
                               "'%s' is no name of a database: want up to %d letters, digits and "
                               "-_.",
                               name, TIDE_UP_REPLICA_NAME_MAX);
}

static const database *find_database(const tide_replicas *replicas, const char *name)
{
    for (int i = 0; i < replicas->count; i++)
        if (strcmp(replicas->databases[i].given->name, name) == 0)
            return &replicas->databases[i];
    return NULL;
}

/* ---- the service ---- */

typedef Tidemark__Up__V1__Replica replica_message;
typedef Tidemark__Up__V1__ListReplicasResponse list_response;

static void serve_list(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    const tide_replicas *replicas = arg;
    replica_message rows[TIDE_UP_REPLICAS_MAX];
    replica_message *pointers[TIDE_UP_REPLICAS_MAX];
    char *peers[TIDE_UP_REPLICAS_MAX][TIDE_UP_PEERS_MAX];
    list_response response = TIDEMARK__UP__V1__LIST_REPLICAS_RESPONSE__INIT;
    for (int i = 0; i < replicas->count; i++) {
        const database *db = &replicas->databases[i];
        rows[i] = (replica_message)TIDEMARK__UP__V1__REPLICA__INIT;
        rows[i].name = tide_rpc_borrow(db->given->name);
        rows[i].path = tide_rpc_borrow(db->under);
        rows[i].file = tide_rpc_borrow(db->file ? db->file : db->given->file);
        for (int k = 0; k < db->given->peer_count; k++)
            peers[i][k] = tide_rpc_borrow(db->addresses[k]);
        rows[i].peers = peers[i];
        rows[i].n_peers = (size_t)db->given->peer_count;
        pointers[i] = &rows[i];
    }
    response.replicas = pointers;
    response.n_replicas = (size_t)replicas->count;
    tide_call_respond_message(call, &response.base);
}

static const tide_method methods[] = {
    {.path = "/tidemark.up.v1.UpService/ListReplicas",
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .request = &tidemark__up__v1__list_replicas_request__descriptor,
     .response = &tidemark__up__v1__list_replicas_response__descriptor,
     .run = serve_list},
    {.path = NULL},
};

/* ---- life ---- */

/* All ports listen: peers that are databases of this process have an address now. */
static tide_status name_peers(void *arg, tide_error *err)
{
    tide_replicas *replicas = arg;
    for (int i = 0; i < replicas->count; i++) {
        database *db = &replicas->databases[i];
        for (int k = 0; k < db->given->peer_count; k++) {
            const char *peer = db->given->peers[k];
            const database *ours = find_database(replicas, peer);
            const int len =
                ours ? snprintf(db->addresses[k], ADDRESS_SIZE, "%s://%s%s",
                                replicas->options.is_tls ? "https" : "http",
                                tide_listener_address(replicas->listener, 0), ours->under)
                     : snprintf(db->addresses[k], ADDRESS_SIZE, "%s", peer);
            if (len >= ADDRESS_SIZE)
                return tide_fail(err, TIDE_E_INVALID, "the peer's address '%s' is too long", peer);
            db->options.remotes[k] = (tide_remote_options){
                .address = ours ? tide_listener_inside(replicas->listener) : db->addresses[k],
                .under = ours ? ours->under : NULL,
                .env = replicas->options.env};
        }
    }
    return TIDE_OK;
}

static int64_t or_else(int64_t given, int64_t otherwise)
{
    return given > 0 ? given : otherwise;
}

static tide_status open_database(tide_replicas *replicas, const tide_up_replica *given,
                                 tide_error *err)
{
    const tide_replicas_options *options = &replicas->options;
    database *db = &replicas->databases[replicas->count];
    TIDE_TRY(check_name(given->name, err));
    if (find_database(replicas, given->name))
        return tide_fail(err, TIDE_E_INVALID, "two databases are called '%s'", given->name);
    db->given = given;
    (void)snprintf(db->under, sizeof db->under, "/replica/%s", given->name);
    replicas->count++; /* close takes it from here */
    TIDE_TRY(tide_node_open(&db->node, given->file,
                            &(tide_node_options){.env = options->env, .is_new = true}, err));
    TIDE_TRY(tide_node_establish(db->node, err));
    db->file = realpath(given->file, NULL);
    db->options = (tide_replicad_options){.listener = {.env = options->env, .log = options->log},
                                          .node = db->node,
                                          .remote_count = given->peer_count,
                                          .every_us = or_else(options->every_us, EVERY_US),
                                          .collect_us = or_else(options->collect_us, COLLECT_US),
                                          .snapshot_every_us =
                                              or_else(options->snapshot_every_us, SNAPSHOT_US),
                                          .instance = given->name,
                                          .under = db->under,
                                          .is_at_root = replicas->count == 1,
                                          .is_uncounted = replicas->count > 1,
                                          .is_kept = true};
    return tide_replicad_open(&db->replicad, replicas->listener, &db->options, err);
}

static tide_status open_all(tide_replicas *replicas, tide_error *err)
{
    TIDE_TRY(tide_listener_add(replicas->listener, methods, NULL, replicas, err));
    /* Before the databases start, which call their peers. */
    TIDE_TRY(tide_listener_join(
        replicas->listener, &(tide_listener_component){.start = name_peers, .arg = replicas}, err));
    for (int i = 0; i < replicas->options.count; i++)
        TIDE_TRY(open_database(replicas, &replicas->options.replicas[i], err));
    return TIDE_OK;
}

tide_status tide_replicas_open(tide_replicas **out, tide_listener *listener,
                               const tide_replicas_options *options, tide_error *err)
{
    TIDE_NEW(tide_replicas, replicas, err);
    replicas->options = *options;
    replicas->listener = listener;
    const tide_status status = open_all(replicas, err);
    if (status < TIDE_OK) {
        tide_replicas_close(replicas);
        return status;
    }
    *out = replicas;
    return TIDE_OK;
}

static void database_done(database *db)
{
    tide_node_close(db->node);
    free(db->file);
}

void tide_replicas_close(tide_replicas *replicas)
{
    if (!replicas)
        return;
    /* All syncs end before the first file is closed: they are each other's peers. */
    for (int i = 0; i < replicas->count; i++)
        tide_replicad_close(replicas->databases[i].replicad);
    for (int i = 0; i < replicas->count; i++)
        database_done(&replicas->databases[i]);
    free(replicas);
}

uint64_t tide_replicas_version(const tide_replicas *replicas)
{
    uint64_t sum = 0;
    for (int i = 0; i < replicas->count; i++)
        sum += tide_replicad_version(replicas->databases[i].replicad);
    return sum;
}
