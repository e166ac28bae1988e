/* account.h - what one address holds of the server's memory: its shares of the budgets.
 *
 *     site.budget  (budget_len) <-- account.requests (peer_budget_len) <-- bodies that come in
 *     site.answers (answer_len) <-- account.answers  (peer_answer_len) <-- responses
 *
 * One address can use up its share, never everybody's. An IPv6 peer is its /64 (peers.h). On this
 * machine each user of an address has a share (peer_owner.h), and so has each user of local
 * sockets; all that cannot be told apart are one.
 *
 * An account is kept by references, one per call, and goes with the last.
 *
 * Threads: safe. Limits: as many accounts as there are unfinished calls. */
#pragma once

#include <pthread.h>

#include <tidemark/export.h>

#include "net/http/budget.h"
#include "net/http/limits.h"
#include "net/server/peer_owner.h"
#include "net/server/peers.h"

enum { TIDE_ACCOUNT_CHAINS = 256 };

typedef struct tide_account_key {
    tide_peer_key peer;
    uint8_t owner[5]; /* 1 and the uid; zeros: not known */
} tide_account_key;

typedef struct tide_account {
    struct tide_account *next;
    tide_account_key key;
    size_t refs; /* with the lock of all */
    tide_budget requests;
    tide_budget answers;
} tide_account;

typedef struct tide_accounts {
    pthread_mutex_t lock;
    tide_account *chains[TIDE_ACCOUNT_CHAINS];
    tide_budget *requests; /* the wholes */
    tide_budget *answers;
    size_t requests_share;
    size_t answers_share;
} tide_accounts;

void tide_accounts_init(tide_accounts *accounts, tide_budget *requests, tide_budget *answers,
                        const tide_net_limits *limits);
void tide_accounts_done(tide_accounts *accounts);

/* A budget of max bytes, a part of whole (NULL: of nothing). */
void tide_budget_init(tide_budget *budget, size_t max, tide_budget *whole);

/* The account of a peer ("address:port", as address.h writes it) and its user. NULL: an allocation
 * failed. */
TIDE_MUST_CHECK tide_account *tide_account_get(tide_accounts *accounts, const char *peer,
                                               tide_peer_owner owner);
void tide_account_release(tide_accounts *accounts, tide_account *account); /* takes NULL */
