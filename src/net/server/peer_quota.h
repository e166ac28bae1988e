/* peer_quota.h - what one address holds of the server's memory: its shares of the budgets.
 *
 *     context.budget  (budget_len) <-- quota.requests (peer_budget_len) <-- bodies that come in
 *     context.answers (answer_len) <-- quota.answers  (peer_answer_len) <-- responses
 *
 * One address can use up its share, never everybody's. An IPv6 peer is its /64 (peers.h). On this
 * machine each user of an address has a share (peer_owner.h), and so has each user of local
 * sockets; all that cannot be told apart are one.
 *
 * A quota is kept by references, one per call, and goes with the last.
 *
 * Threads: safe. Limits: as many quotas as there are unfinished calls. */
#pragma once

#include <pthread.h>

#include <tidemark/export.h>

#include "net/http/budget.h"
#include "net/http/limits.h"
#include "net/server/peer_owner.h"
#include "net/server/peers.h"

enum { TIDE_PEER_QUOTA_CHAINS = 256 };

typedef struct tide_peer_quota_key {
    tide_peer_key peer;
    uint8_t owner[5]; /* 1 and the uid; zeros: not known */
} tide_peer_quota_key;

typedef struct tide_peer_quota {
    struct tide_peer_quota *next;
    tide_peer_quota_key key;
    size_t refs; /* with the lock of all */
    tide_budget requests;
    tide_budget answers;
} tide_peer_quota;

typedef struct tide_peer_quotas {
    pthread_mutex_t lock;
    tide_peer_quota *chains[TIDE_PEER_QUOTA_CHAINS];
    tide_budget *requests; /* the wholes */
    tide_budget *answers;
    size_t requests_share;
    size_t answers_share;
} tide_peer_quotas;

void tide_peer_quotas_init(tide_peer_quotas *quotas, tide_budget *requests, tide_budget *answers,
                           const tide_net_limits *limits);
void tide_peer_quotas_done(tide_peer_quotas *quotas);

/* A budget of max bytes, a part of whole (NULL: of nothing). */
void tide_budget_init(tide_budget *budget, size_t max, tide_budget *whole);

/* The quota of a peer ("address:port", as address.h writes it) and its user. NULL: an allocation
 * failed. */
TIDE_MUST_CHECK tide_peer_quota *tide_peer_quota_get(tide_peer_quotas *quotas, const char *peer,
                                                     tide_peer_owner owner);
void tide_peer_quota_release(tide_peer_quotas *quotas, tide_peer_quota *quota); /* takes NULL */
