#include "net/server/peer_quota.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

enum { HOST_SIZE = 64 };

_Static_assert(sizeof(tide_peer_quota_key) == 14, "keys are compared as bytes, without gaps");

void tide_budget_init(tide_budget *budget, size_t max, tide_budget *whole)
{
    atomic_init(&budget->used, 0);
    budget->max = max;
    budget->reserve = max / TIDE_BUDGET_RESERVE_PART;
    budget->is_lenient = false;
    budget->whole = whole;
}

void tide_peer_quotas_init(tide_peer_quotas *quotas, tide_budget *requests, tide_budget *answers,
                           const tide_net_limits *limits)
{
    *quotas = (tide_peer_quotas){.requests = requests,
                                 .answers = answers,
                                 .requests_share = (size_t)limits->peer_budget_len,
                                 .answers_share = (size_t)limits->peer_answer_len};
    (void)pthread_mutex_init(&quotas->lock, NULL);
}

void tide_peer_quotas_done(tide_peer_quotas *quotas)
{
    for (size_t i = 0; i < TIDE_PEER_QUOTA_CHAINS; i++)
        assert(!quotas->chains[i]);
    (void)pthread_mutex_destroy(&quotas->lock);
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

static tide_peer_quota_key make_key(const char *peer, tide_peer_owner owner)
{
    tide_peer_quota_key key = {.peer = key_of(peer)};
    key.owner[0] = owner.is_known;
    if (owner.is_known)
        memcpy(key.owner + 1, &owner.uid, sizeof owner.uid);
    return key;
}

static tide_peer_quota **find_place(tide_peer_quotas *quotas, const tide_peer_quota_key *key)
{
    size_t hash = 0;
    const uint8_t *bytes = (const uint8_t *)key;
    for (size_t i = 0; i < sizeof *key; i++)
        hash = hash * 31 + bytes[i];
    tide_peer_quota **at = &quotas->chains[hash % TIDE_PEER_QUOTA_CHAINS];
    while (*at && memcmp(&(*at)->key, key, sizeof *key) != 0)
        at = &(*at)->next;
    return at;
}

static tide_peer_quota *make_quota(const tide_peer_quotas *quotas, const tide_peer_quota_key *key)
{
    tide_peer_quota *quota = calloc(1, sizeof *quota);
    if (!quota)
        return NULL;
    quota->key = *key;
    tide_budget_init(&quota->requests, quotas->requests_share, quotas->requests);
    tide_budget_init(&quota->answers, quotas->answers_share, quotas->answers);
    quota->answers.is_lenient = true;
    return quota;
}

tide_peer_quota *tide_peer_quota_get(tide_peer_quotas *quotas, const char *peer,
                                     tide_peer_owner owner)
{
    const tide_peer_quota_key key = make_key(peer, owner);
    TIDE_HOLD(&quotas->lock);
    tide_peer_quota **at = find_place(quotas, &key);
    if (!*at)
        *at = make_quota(quotas, &key);
    tide_peer_quota *quota = *at;
    if (quota)
        quota->refs++;
    return quota;
}

void tide_peer_quota_release(tide_peer_quotas *quotas, tide_peer_quota *quota)
{
    if (!quota)
        return;
    (void)pthread_mutex_lock(&quotas->lock);
    const bool is_last = --quota->refs == 0;
    if (is_last) {
        assert(tide_budget_used(&quota->requests) == 0);
        assert(tide_budget_used(&quota->answers) == 0);
        *find_place(quotas, &quota->key) = quota->next;
    }
    (void)pthread_mutex_unlock(&quotas->lock);
    if (is_last)
        free(quota);
}
