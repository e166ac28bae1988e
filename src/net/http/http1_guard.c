#include "net/http/http1_guard.h"

#include <string.h>

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7F;
}

/* METHOD SP target SP HTTP/1.x */
static const char *check_first_line(tide_view line)
{
    size_t at = 0;
    while (at < line.len && line.ptr[at] >= 'A' && line.ptr[at] <= 'Z')
        at++;
    if (at == 0 || at > 16 || at == line.len || line.ptr[at] != ' ')
        return "the request line does not begin with a method";
    const size_t target = ++at;
    while (at < line.len && is_visible(line.ptr[at]))
        at++;
    if (at == target || at == line.len || line.ptr[at] != ' ')
        return "the request line has no target";
    const tide_view version = tide_view_bytes(line.ptr + at + 1, line.len - at - 1);
    if (!tide_view_equal(version, tide_view_of("HTTP/1.1")) &&
        !tide_view_equal(version, tide_view_of("HTTP/1.0")))
        return "the version is not HTTP/1.1 or HTTP/1.0";
    return NULL;
}

static const char *check_field_line(tide_view line)
{
    size_t at = 0;
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return "a folded header line";
    while (at < line.len && is_token(line.ptr[at]))
        at++;
    if (at == 0 || at == line.len || line.ptr[at] != ':')
        return "a header line without a name and a colon";
    for (at++; at < line.len; at++) {
        const unsigned char byte = (unsigned char)line.ptr[at];
        if ((byte < ' ' && byte != '\t') || byte == 0x7F)
            return "a control character in a header";
    }
    return NULL;
}

const char *tide_http1_check_head(tide_view head)
{
    size_t start = 0;
    bool is_first = true;
    while (start < head.len) {
        const char *end = memchr(head.ptr + start, '\n', head.len - start);
        if (!end)
            return "a line without an end";
        const size_t len = (size_t)(end - (head.ptr + start));
        if (len == 0 || end[-1] != '\r')
            return "a line that ends without CR";
        const tide_view line = tide_view_bytes(head.ptr + start, len - 1);
        start += len + 1;
        if (memchr(line.ptr, '\r', line.len))
            return "a CR inside a line";
        if (line.len == 0)
            return start == head.len && !is_first ? NULL : "an empty line inside the head";
        const char *wrong = is_first ? check_first_line(line) : check_field_line(line);
        if (wrong)
            return wrong;
        is_first = false;
    }
    return "no empty line at the end";
}

void tide_chunk_init(tide_chunk_decoder *decoder)
{
    *decoder = (tide_chunk_decoder){.state = TIDE_CHUNK_SIZE};
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static tide_chunk_state next_in_size(tide_chunk_decoder *decoder, char c)
{
    const int value = hex_value(c);
    if (value >= 0) {
        decoder->left = decoder->left << 4 | (uint64_t)value;
        return ++decoder->digits > 8 ? TIDE_CHUNK_BAD : TIDE_CHUNK_SIZE;
    }
    if (decoder->digits == 0)
        return TIDE_CHUNK_BAD;
    if (c == '\r')
        return TIDE_CHUNK_SIZE_LF;
    return c == ';' ? TIDE_CHUNK_EXTENSION : TIDE_CHUNK_BAD;
}

/* Bytes that mean nothing to us: bounded, and without control characters. */
static tide_chunk_state next_in_extra(tide_chunk_decoder *decoder, char c, tide_chunk_state here,
                                      tide_chunk_state after_cr)
{
    if (c == '\r')
        return after_cr;
    if (((unsigned char)c < ' ' && c != '\t') || c == 0x7F ||
        ++decoder->extra_len > TIDE_CHUNK_EXTRA_MAX)
        return TIDE_CHUNK_BAD;
    return here;
}

static tide_chunk_state begin_chunk(tide_chunk_decoder *decoder)
{
    decoder->digits = 0;
    return decoder->left > 0 ? TIDE_CHUNK_DATA : TIDE_CHUNK_TRAILER_START;
}

static tide_chunk_state next_state(tide_chunk_decoder *decoder, char c)
{
    switch (decoder->state) {
    case TIDE_CHUNK_SIZE:
        return next_in_size(decoder, c);
    case TIDE_CHUNK_EXTENSION:
        return next_in_extra(decoder, c, TIDE_CHUNK_EXTENSION, TIDE_CHUNK_SIZE_LF);
    case TIDE_CHUNK_SIZE_LF:
        return c == '\n' ? begin_chunk(decoder) : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_DATA_CR:
        return c == '\r' ? TIDE_CHUNK_DATA_LF : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_DATA_LF:
        return c == '\n' ? TIDE_CHUNK_SIZE : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_TRAILER_START:
        if (c == '\r')
            return TIDE_CHUNK_LAST_LF;
        return is_token(c) ? next_in_extra(decoder, c, TIDE_CHUNK_TRAILER, TIDE_CHUNK_BAD)
                           : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_TRAILER:
        return next_in_extra(decoder, c, TIDE_CHUNK_TRAILER, TIDE_CHUNK_TRAILER_LF);
    case TIDE_CHUNK_TRAILER_LF:
        return c == '\n' ? TIDE_CHUNK_TRAILER_START : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_LAST_LF:
        return c == '\n' ? TIDE_CHUNK_DONE : TIDE_CHUNK_BAD;
    case TIDE_CHUNK_DATA:
    case TIDE_CHUNK_DONE:
    case TIDE_CHUNK_BAD:
        break;
    }
    return TIDE_CHUNK_BAD;
}

void tide_chunk_next(tide_chunk_decoder *decoder, tide_view *in, tide_view *data)
{
    *data = tide_view_bytes(NULL, 0);
    while (in->len > 0 && decoder->state != TIDE_CHUNK_DATA && decoder->state != TIDE_CHUNK_DONE &&
           decoder->state != TIDE_CHUNK_BAD) {
        decoder->state = next_state(decoder, in->ptr[0]);
        *in = tide_view_bytes(in->ptr + 1, in->len - 1);
    }
    if (decoder->state != TIDE_CHUNK_DATA || in->len == 0)
        return;
    const size_t len = in->len < decoder->left ? in->len : (size_t)decoder->left;
    *data = tide_view_bytes(in->ptr, len);
    *in = tide_view_bytes(in->ptr + len, in->len - len);
    decoder->left -= len;
    if (decoder->left == 0)
        decoder->state = TIDE_CHUNK_DATA_CR;
}
