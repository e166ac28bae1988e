#include "net/http/authority.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { PORT_MAX = 65535, PORT_DIGITS = 5 };

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* RFC 3986 reg-name: unreserved, sub-delims and pct-encoded; this includes IPv4 addresses. */
static bool is_name(tide_view host)
{
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.ptr[i];
        if (c == '%') {
            if (host.len - i < 3 || !is_hex(host.ptr[i + 1]) || !is_hex(host.ptr[i + 2]))
                return false;
            i += 2;
            continue;
        }
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            (c == '\0' || !strchr("-._~!$&'()*+,;=", c)))
            return false;
    }
    return true;
}

static bool is_v6_address(tide_view host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.len >= sizeof text)
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* ":8080", ":" (RFC 3986 allows it) or nothing. */
static bool parse_port(int *out, tide_view text)
{
    *out = -1;
    if (text.len == 0)
        return true;
    if (text.ptr[0] != ':' || text.len > PORT_DIGITS + 1)
        return false;
    int port = 0;
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        port = port * 10 + (text.ptr[i] - '0');
    }
    *out = text.len > 1 ? port : -1;
    return port <= PORT_MAX;
}

bool tide_authority_parse(tide_authority *out, tide_view text)
{
    *out = (tide_authority){.is_v6 = text.len > 0 && text.ptr[0] == '['};
    const char *end = text.len > 0 ? memchr(text.ptr, out->is_v6 ? ']' : ':', text.len) : NULL;
    if (out->is_v6) {
        if (!end)
            return false;
        out->host = tide_view_bytes(text.ptr + 1, (size_t)(end - text.ptr) - 1);
        end++;
    } else {
        end = end ? end : text.ptr + text.len;
        out->host = tide_view_bytes(text.ptr, (size_t)(end - text.ptr));
    }
    const tide_view port = tide_view_bytes(end, text.len - (size_t)(end - text.ptr));
    if (!parse_port(&out->port, port))
        return false;
    if (out->is_v6)
        return is_v6_address(out->host);
    return is_name(out->host) && (out->host.len > 0 || port.len == 0);
}

bool tide_authority_equal(const tide_authority *one, const tide_authority *other, int default_port)
{
    const int one_port = one->port < 0 ? default_port : one->port;
    const int other_port = other->port < 0 ? default_port : other->port;
    return one_port == other_port && one->is_v6 == other->is_v6 &&
           one->host.len == other->host.len &&
           strncasecmp(one->host.ptr ? one->host.ptr : "", other->host.ptr ? other->host.ptr : "",
                       one->host.len) == 0;
}
