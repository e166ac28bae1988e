#include "feed/reader_token.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE_TOKEN "came with token "
#define BEFORE_SEEN " after "

tide_status tide_reader_token_refuse(const char *reader, int64_t token, int64_t seen_token,
                                     tide_error *err)
{
    return tide_fail(err, TIDE_E_LEASE_LOST,
                     "reader %s " BEFORE_TOKEN "%" PRId64 BEFORE_SEEN "%" PRId64, reader, token,
                     seen_token);
}

static bool parse(const char *text, char end, int64_t *out, const char **rest)
{
    char *behind = NULL;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoll(text, &behind, 10);
    *rest = behind;
    return errno == 0 && *behind == end;
}

/* A reader's name may contain anything: the last occurrence is ours. */
static const char *find_last(const char *text, const char *what)
{
    const char *found = NULL;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        found = at;
    return found;
}

int64_t tide_reader_token_seen(const char *text)
{
    const char *at = text ? find_last(text, BEFORE_TOKEN) : NULL;
    int64_t token = 0;
    int64_t seen = 0;
    if (!at || !parse(at + strlen(BEFORE_TOKEN), ' ', &token, &at) ||
        strncmp(at, BEFORE_SEEN, strlen(BEFORE_SEEN)) != 0 ||
        !parse(at + strlen(BEFORE_SEEN), '\0', &seen, &at))
        return 0;
    return seen > token ? seen : 0;
}
