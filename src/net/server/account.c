#include "net/server/account.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

enum { HOST_SIZE = 64 };

_Static_assert(sizeof(tide_account_key) == 14, "keys are compared as bytes, without gaps");

void tide_budget_init(tide_budget *budget, size_t max, tide_budget *whole)
{
    atomic_init(&budget->used, 0);
    budget->max = max;
    budget->reserve = max / TIDE_BUDGET_RESERVE_PART;
    budget->is_lenient = false;
    budget->whole = whole;
}

void tide_accounts_init(tide_accounts *accounts, tide_budget *requests, tide_budget *answers,
                        const tide_net_limits *limits)
{
    *accounts = (tide_accounts){.requests = requests,
                                .answers = answers,
                                .requests_share = (size_t)limits->peer_budget_len,
                                .answers_share = (size_t)limits->peer_answer_len};
    (void)pthread_mutex_init(&accounts->lock, NULL);
}

void tide_accounts_done(tide_accounts *accounts)
{
    for (size_t i = 0; i < TIDE_ACCOUNT_CHAINS; i++)
        assert(!accounts->chains[i]);
    (void)pthread_mutex_destroy(&accounts->lock);
}

/* "127.0.0.1:80", "[::1]:80"; anything else is the key of nobody in particular. */
static tide_peer_key key_of(const char *peer)
{
    tide_peer_key key = {{0}};
    char host[HOST_SIZE];
    const char *port = strrchr(peer, ':');
    const bool is_v6 = peer[0] == '[';
    const char *begin = is_v6 ? peer + 1 : peer;
    const char *end = is_v6 ? strchr(peer, ']') : port;
    if (!end || (size_t)(end - begin) >= sizeof host)
        return key;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    host[strcspn(host, "%")] = '\0'; /* a link's name */
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (!is_v6 && inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        (void)tide_peer_key_of(&key, (const struct sockaddr *)&v4);
    else if (is_v6 && inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        (void)tide_peer_key_of(&key, (const struct sockaddr *)&v6);
    return key;
}

static tide_account_key make_key(const char *peer, tide_peer_owner owner)
{
    tide_account_key key = {.peer = key_of(peer)};
    key.owner[0] = owner.is_known;
    if (owner.is_known)
        memcpy(key.owner + 1, &owner.uid, sizeof owner.uid);
    return key;
}

static tide_account **find_place(tide_accounts *accounts, const tide_account_key *key)
{
    size_t hash = 0;
    const uint8_t *bytes = (const uint8_t *)key;
    for (size_t i = 0; i < sizeof *key; i++)
        hash = hash * 31 + bytes[i];
    tide_account **at = &accounts->chains[hash % TIDE_ACCOUNT_CHAINS];
    while (*at && memcmp(&(*at)->key, key, sizeof *key) != 0)
        at = &(*at)->next;
    return at;
}

static tide_account *make_account(const tide_accounts *accounts, const tide_account_key *key)
{
    tide_account *account = calloc(1, sizeof *account);
    if (!account)
        return NULL;
    account->key = *key;
    tide_budget_init(&account->requests, accounts->requests_share, accounts->requests);
    tide_budget_init(&account->answers, accounts->answers_share, accounts->answers);
    account->answers.is_lenient = true;
    return account;
}

tide_account *tide_account_get(tide_accounts *accounts, const char *peer, tide_peer_owner owner)
{
    const tide_account_key key = make_key(peer, owner);
    TIDE_HOLD(&accounts->lock);
    tide_account **at = find_place(accounts, &key);
    if (!*at)
        *at = make_account(accounts, &key);
    tide_account *account = *at;
    if (account)
        account->refs++;
    return account;
}

void tide_account_release(tide_accounts *accounts, tide_account *account)
{
    if (!account)
        return;
    (void)pthread_mutex_lock(&accounts->lock);
    const bool is_last = --account->refs == 0;
    if (is_last) {
        assert(tide_budget_used(&account->requests) == 0);
        assert(tide_budget_used(&account->answers) == 0);
        *find_place(accounts, &account->key) = account->next;
    }
    (void)pthread_mutex_unlock(&accounts->lock);
    if (is_last)
        free(account);
}
