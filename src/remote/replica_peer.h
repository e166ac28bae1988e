/* replica_peer.h - a node behind a network, as a tide_peer (replica/sync.h).
 *
 * Every call is idempotent: positions decide, so what was sent twice changes nothing. Messages are
 * compressed.
 *
 * Threads: one at a time. */
#pragma once

#include "base/cleanup.h"
#include "net/client/client.h"
#include "replica/sync.h"

typedef struct tide_remote tide_remote;

/* How peers are spoken to. NULL: as client.h. */
typedef struct tide_remote_options {
    /* HOST:PORT, https://HOST:PORT, unix:PATH; HOST:PORT/PATH where a service has several
     * databases. */
    const char *address;
    /* That path, where the address cannot have one (unix:PATH); NULL: as the address has it. */
    const char *under;
    const char *ca_file; /* speak TLS */
    const char *cert_file;
    const char *key_file;
    const char *token_file;
    bool is_insecure;
    tide_env *env;
    tide_client_count_fn *count;
    void *count_arg;
} tide_remote_options;

TIDE_MUST_CHECK tide_status tide_remote_open(tide_remote **out, const tide_remote_options *options,
                                             tide_error *err);
void tide_remote_close(tide_remote *remote); /* takes NULL */
TIDE_CLEANUP_FN(tide_remote_closep, tide_remote, tide_remote_close)
/* End what is under way, from any thread. */
void tide_remote_stop(tide_remote *remote);

tide_peer *tide_remote_peer(tide_remote *remote);

/* The digests of its tables. */
TIDE_MUST_CHECK tide_status tide_remote_digests(tide_remote *remote, tide_digest_fn *fn, void *arg,
                                                tide_error *err);
