#include "net/http/http1_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <tidemark/error.h>

#include "net/http/authority.h"

/* What the fields say about the message, gathered line by line. */
typedef struct framing {
    int length_count;
    int coding_count;
    int host_count;
    int expect_count;
    bool is_bad_length;
    bool is_chunked;
    bool asks_close;
    bool asks_keep_alive;
    uint64_t body_len;
    tide_view host;
    tide_view expect;
} framing;

static tide_view slice(tide_view text, size_t from, size_t to)
{
    return tide_view_bytes(text.ptr + from, to - from);
}

static bool equals_ignoring_case(tide_view text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.ptr, word, text.len) == 0;
}

static tide_view trim(tide_view text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
        text = slice(text, 1, text.len);
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool tide_http1_is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

/* ---- the request line ---- */

/* CONNECT asks for a tunnel, which we never are: its target has another form. */
static bool is_method(tide_view method)
{
    static const char *const methods[] = {"GET",    "HEAD",    "POST",  "PUT",
                                          "DELETE", "OPTIONS", "PATCH", "TRACE"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (tide_view_equal(method, tide_view_of(methods[i])))
            return true;
    return false;
}

static const char *read_request_line(tide_http1_head *out, tide_view line, tide_view *target)
{
    size_t at = 0;
    while (at < line.len && line.ptr[at] != ' ')
        at++;
    const tide_view method = slice(line, 0, at);
    if (at == line.len || !is_method(method))
        return "the request line does not begin with a method";
    memcpy(out->method, method.ptr, method.len);
    const size_t begin = ++at;
    while (at < line.len && line.ptr[at] > ' ' && line.ptr[at] < 0x7F && line.ptr[at] != '#')
        at++;
    if (at == begin || at == line.len || line.ptr[at] != ' ')
        return "the request line has no target";
    *target = slice(line, begin, at);
    const tide_view version = slice(line, at + 1, line.len);
    out->is_http10 = tide_view_equal(version, tide_view_of("HTTP/1.0"));
    if (!out->is_http10 && !tide_view_equal(version, tide_view_of("HTTP/1.1")))
        return "the version is not HTTP/1.1 or HTTP/1.0";
    return NULL;
}

/* "http://authority/path" is its path; the authority has to be that of Host. */
static const char *cut_authority(tide_view *target, const framing *found)
{
    static const struct {
        const char *prefix;
        int port;
    } schemes[] = {{"http://", 80}, {"https://", 443}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const size_t prefix_len = strlen(schemes[i].prefix);
        if (target->len < prefix_len ||
            strncasecmp(target->ptr, schemes[i].prefix, prefix_len) != 0)
            continue;
        const tide_view rest = slice(*target, prefix_len, target->len);
        size_t end = 0;
        while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
            end++;
        tide_authority named;
        tide_authority host;
        if (!tide_authority_parse(&named, slice(rest, 0, end)) || named.host.len == 0)
            return "the target names no host";
        if (found->host_count != 1 || !tide_authority_parse(&host, found->host) ||
            !tide_authority_equal(&named, &host, schemes[i].port))
            return "the target and Host name different hosts";
        *target = slice(rest, end, rest.len);
        return NULL;
    }
    return "the target is not a path";
}

/* Returns a code, 0: fine. */
static int copy_target(tide_http1_head *out, tide_view target, const framing *found,
                       const char **wrong)
{
    const bool is_asterisk = tide_view_equal(target, tide_view_of("*"));
    if (is_asterisk && strcmp(out->method, "OPTIONS") != 0)
        *wrong = "only OPTIONS has the target *";
    else if (!is_asterisk && target.ptr[0] != '/')
        *wrong = cut_authority(&target, found);
    if (*wrong)
        return 400;
    if (target.len > TIDE_HTTP1_TARGET_MAX) {
        *wrong = "the target is too long";
        return 414;
    }
    const bool has_path = target.len > 0 && target.ptr[0] != '?';
    out->target = malloc(target.len + 2);
    if (!out->target) {
        *wrong = tide_status_get(TIDE_E_NOMEM)->text;
        return 503;
    }
    out->target[0] = '/'; /* "http://host?query" has an empty path, which means "/" */
    char *rest = out->target + (has_path ? 0 : 1);
    memcpy(rest, target.ptr, target.len);
    rest[target.len] = '\0';
    return 0;
}

/* ---- fields ---- */

static bool read_length(uint64_t *out, tide_view text)
{
    uint64_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        if (c < '0' || c > '9' || len > (UINT64_MAX - 9) / 10)
            return false;
        len = len * 10 + (uint64_t)(c - '0');
    }
    *out = len;
    return text.len > 0;
}

/* Connection is a list, over any number of lines. */
static void read_connection(framing *found, tide_view list)
{
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        const size_t len = comma ? (size_t)(comma - list.ptr) : list.len;
        const tide_view word = trim(slice(list, 0, len));
        found->asks_close |= equals_ignoring_case(word, "close");
        found->asks_keep_alive |= equals_ignoring_case(word, "keep-alive");
        list = slice(list, comma ? len + 1 : len, list.len);
    }
}

static void note_field(framing *found, tide_view name, tide_view value)
{
    if (equals_ignoring_case(name, "content-length")) {
        found->length_count++;
        found->is_bad_length |= !read_length(&found->body_len, value);
    } else if (equals_ignoring_case(name, "transfer-encoding")) {
        found->coding_count++;
        found->is_chunked = equals_ignoring_case(value, "chunked");
    } else if (equals_ignoring_case(name, "host")) {
        found->host_count++;
        found->host = value;
    } else if (equals_ignoring_case(name, "expect")) {
        found->expect_count++;
        found->expect = value;
    } else if (equals_ignoring_case(name, "connection")) {
        read_connection(found, value);
    }
}

static const char *read_field(tide_view line, tide_view *name, tide_view *value)
{
    size_t at = 0;
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return "a folded header line";
    while (at < line.len && tide_http1_is_token(line.ptr[at]))
        at++;
    if (at == 0 || at == line.len || line.ptr[at] != ':')
        return "a header line without a name and a colon";
    *name = slice(line, 0, at);
    *value = trim(slice(line, at + 1, line.len));
    for (size_t i = 0; i < value->len; i++) {
        const unsigned char byte = (unsigned char)value->ptr[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7F)
            return "a control character in a header";
    }
    return NULL;
}

/* The next line of *rest, without its CR LF. */
static const char *cut_line(tide_view *rest, tide_view *line)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    if (!end)
        return "a line without an end";
    const size_t len = (size_t)(end - rest->ptr);
    if (len == 0 || end[-1] != '\r')
        return "a line that ends without CR";
    *line = slice(*rest, 0, len - 1);
    *rest = slice(*rest, len + 1, rest->len);
    return memchr(line->ptr, '\r', line->len) ? "a CR inside a line" : NULL;
}

static const char *check_framing(const framing *found, bool is_http10)
{
    tide_authority host;
    if (found->length_count > 1)
        return "more than one Content-Length";
    if (found->is_bad_length)
        return "a Content-Length that is no number";
    if (found->coding_count > 0 && found->length_count > 0)
        return "both Content-Length and Transfer-Encoding";
    if (found->coding_count > 1 || (found->coding_count == 1 && !found->is_chunked))
        return "a Transfer-Encoding other than chunked";
    if (found->coding_count > 0 && is_http10)
        return "Transfer-Encoding in HTTP/1.0";
    if (found->host_count > 1 || (found->host_count == 0 && !is_http10))
        return "not exactly one Host";
    if (found->host_count == 1 && !tide_authority_parse(&host, found->host))
        return "a Host that is no host and port";
    return NULL;
}

/* Every line is judged, and what they say is gathered in *found. */
static const char *read_lines(tide_http1_head *out, tide_view bytes, tide_view *target,
                              framing *found)
{
    tide_view line;
    tide_view rest = bytes;
    const char *wrong = cut_line(&rest, &line);
    if (!wrong)
        wrong = read_request_line(out, line, target);
    while (!wrong && rest.len > 0) {
        tide_view name;
        tide_view value;
        wrong = cut_line(&rest, &line);
        if (!wrong && line.len == 0)
            return rest.len == 0 ? check_framing(found, out->is_http10)
                                 : "an empty line inside the head";
        if (!wrong)
            wrong = read_field(line, &name, &value);
        if (!wrong)
            note_field(found, name, value);
    }
    return wrong ? wrong : "no empty line at the end";
}

/* Neither a method nor a version: no HTTP at all. */
static bool is_foreign(tide_view bytes)
{
    const char *end = memchr(bytes.ptr, '\r', bytes.len);
    const tide_view line = slice(bytes, 0, end ? (size_t)(end - bytes.ptr) : bytes.len);
    const char *space = memchr(line.ptr, ' ', line.len);
    if (line.len == 0 || memmem(line.ptr, line.len, "HTTP/", 5) ||
        memmem(line.ptr, line.len, "http/", 5))
        return false;
    for (size_t i = 0; i < line.len; i++)
        if (line.ptr[i] < ' ')
            return false;
    return !is_method(slice(line, 0, space ? (size_t)(space - line.ptr) : line.len));
}

/* The lines are known to be good. */
static tide_status copy_fields(tide_headers *fields, tide_view bytes)
{
    tide_view line;
    tide_view name;
    tide_view value;
    tide_view rest = bytes;
    (void)cut_line(&rest, &line);
    while (!cut_line(&rest, &line) && line.len > 0 && !read_field(line, &name, &value))
        TIDE_TRY(tide_headers_add(fields, name, value));
    return TIDE_OK;
}

int tide_http1_head_read(tide_http1_head *out, tide_view bytes, size_t fields_max,
                         const char **wrong)
{
    *out = (tide_http1_head){.target = NULL};
    tide_headers_init(&out->fields, fields_max);
    framing found = {0};
    tide_view target;
    *wrong = read_lines(out, bytes, &target, &found);
    if (*wrong)
        return is_foreign(bytes) ? TIDE_HTTP1_NO_HTTP : 400;
    const int code = copy_target(out, target, &found, wrong);
    if (code != 0)
        return code;
    out->is_chunked = found.is_chunked;
    out->body_len = found.body_len;
    out->is_kept_alive = !found.asks_close && (!out->is_http10 || found.asks_keep_alive);
    if (found.expect_count > 0 && !out->is_http10) {
        out->expects_continue =
            found.expect_count == 1 && equals_ignoring_case(found.expect, "100-continue");
        out->expects_unknown = !out->expects_continue;
    }
    const tide_status status = copy_fields(&out->fields, bytes);
    if (status == TIDE_OK)
        return 0;
    *wrong = status == TIDE_E_LIMIT ? "the header fields are too long"
                                    : tide_status_get(TIDE_E_NOMEM)->text;
    return status == TIDE_E_LIMIT ? 431 : 503;
}

void tide_http1_head_done(tide_http1_head *head)
{
    tide_headers_done(&head->fields);
    free(head->target);
    head->target = NULL;
}
