/* auth_address.c - which addresses are this machine's: see auth.h. */
#include "net/server/auth.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "net/http/authority.h"

enum { NAME_SIZE = TIDE_AUTH_HOST_MAX + 2 }; /* with a dot and a terminator */

/* "[::1]:80" is "::1", "127.0.0.1:80" is "127.0.0.1"; "::1", as in options, stays. false: none of
 * these. */
static bool cut_host(char out[NAME_SIZE], const char *address)
{
    struct in6_addr v6;
    tide_authority parsed = {.host = tide_view_of(address)};
    if (inet_pton(AF_INET6, address, &v6) != 1 &&
        !tide_authority_parse(&parsed, tide_view_of(address)))
        return false;
    if (parsed.host.len >= NAME_SIZE)
        return false;
    memcpy(out, parsed.host.ptr, parsed.host.len);
    out[parsed.host.len] = '\0';
    return true;
}

static bool is_loopback_v4(const struct in_addr *address)
{
    return (ntohl(address->s_addr) >> 24) == 127;
}

bool tide_auth_is_local(const char *address)
{
    char host[NAME_SIZE];
    struct in_addr v4;
    struct in6_addr v6;
    if (strncmp(address, "unix:", 5) == 0)
        return true;
    if (!cut_host(host, address))
        return false;
    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return is_loopback_v4(&v4);
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(&v4, &v6.s6_addr[12], sizeof v4);
        return is_loopback_v4(&v4);
    }
    return IN6_IS_ADDR_LOOPBACK(&v6);
}

/* "localhost." is the same name: the dot is the root of all names. */
static void cut_dot(char *name)
{
    const size_t len = strlen(name);
    if (len > 0 && name[len - 1] == '.')
        name[len - 1] = '\0';
}

static bool is_same_name(const char *name, const char *given)
{
    const size_t len = strlen(name);
    return strncasecmp(name, given, len) == 0 &&
           (given[len] == '\0' || strcmp(given + len, ".") == 0);
}

/* "[::1]", "127.0.0.1", "localhost" or one of names; with or without a port. */
static bool is_own_name(const char *host, const char *const *names, size_t name_count)
{
    char name[NAME_SIZE];
    struct in_addr v4;
    struct in6_addr v6;
    if (!cut_host(name, host))
        return false;
    cut_dot(name);
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &v4) == 1 ||
        inet_pton(AF_INET6, name, &v6) == 1)
        return true;
    for (size_t i = 0; i < name_count; i++)
        if (is_same_name(name, names[i]))
            return true;
    return false;
}

tide_status tide_auth_check_name(const char *name, tide_error *err)
{
    size_t label_len = 0;
    size_t len = 0;
    for (; name[len] != '\0'; len++) {
        const bool is_dot = name[len] == '.';
        if (is_dot ? label_len == 0
                   : !isalnum((unsigned char)name[len]) && name[len] != '-' && name[len] != '_')
            break;
        label_len = is_dot ? 0 : label_len + 1;
    }
    if (len == 0 || len > TIDE_AUTH_HOST_MAX || name[len] != '\0')
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.100s' is not the name of a host: want letters, digits, '-', '_' and "
                         "dots, without a scheme, a port or a path",
                         name);
    return TIDE_OK;
}

/* "http://localhost:4318" is a page of "localhost:4318". */
static bool is_same_host(const char *origin, const char *host)
{
    const char *colon = strstr(origin, "://");
    return colon && host && strcasecmp(colon + 3, host) == 0;
}

tide_status tide_auth_check_host(const char *host, const char *origin, const char *const *names,
                                 size_t name_count, tide_error *err)
{
    if (host && !is_own_name(host, names, name_count))
        return tide_fail(err, TIDE_E_DENIED,
                         "'%.100s' is not known to be this machine: without a token call it by its "
                         "address or as localhost, or name it with --allow-host",
                         host);
    if (origin && !is_same_host(origin, host))
        return tide_fail(err, TIDE_E_DENIED, "a web page of '%.100s' may not call without a token",
                         origin);
    return TIDE_OK;
}

tide_status tide_auth_check_listen(const char *address, bool has_tls, bool has_credentials,
                                   bool is_insecure, tide_error *err)
{
    if (is_insecure || tide_auth_is_local(address) || (has_tls && has_credentials))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "%s can be reached from other machines, and there is %s: give %s, listen on "
                     "127.0.0.1, or insist with --insecure",
                     address, has_tls ? "no authentication" : "no TLS",
                     has_tls ? "tokens or client certificates" : "a certificate and tokens");
}
