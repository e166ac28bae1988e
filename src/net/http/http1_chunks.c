#include "net/http/http1_chunks.h"

#include "net/http/http1_head.h"

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

static tide_chunk_state next_in_name(tide_chunk_decoder *decoder, char c)
{
    if (!tide_http1_is_token(c) || ++decoder->extra_len > TIDE_CHUNK_EXTRA_MAX)
        return TIDE_CHUNK_BAD;
    return TIDE_CHUNK_TRAILER_NAME;
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
        return next_in_name(decoder, c);
    case TIDE_CHUNK_TRAILER_NAME:
        return c == ':' ? TIDE_CHUNK_TRAILER : next_in_name(decoder, c);
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
