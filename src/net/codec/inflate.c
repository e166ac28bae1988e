#include "net/codec/inflate.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zstd.h>
#include <zstd_errors.h>

#define ZLIB_CONST /* what it reads is const */
#include <zlib.h>

#include "base/cleanup.h"

enum {
    STEP_LEN = 64 << 10,        /* the output grows by this much at a time */
    ZSTD_WINDOW_LOG_MAX = 23,   /* 8 MiB */
    WINDOW_BITS_GZIP = 15 + 16, /* zlib's way to say gzip */
    WINDOW_BITS_ZLIB = 15,
    WINDOW_BITS_RAW = -15,
};

typedef enum place {
    PLACE_START,  /* nothing was fed yet */
    PLACE_FIRST,  /* deflate: one byte is known, which does not show the format */
    PLACE_INSIDE, /* of a member or frame */
    PLACE_BETWEEN,
    PLACE_PADDING, /* zeros behind the last member */
} place;

struct tide_inflater {
    tide_coding coding;
    tide_inflate_limits limits;
    place place;
    uint8_t first; /* PLACE_FIRST: the byte */
    bool has_zlib; /* zlib was initialised */
    z_stream zlib;
    ZSTD_DCtx *zstd;
    uint64_t input_len; /* consumed */
    uint64_t output_len;
};

static const struct {
    const char *name;
    tide_coding coding;
} names[] = {
    {"identity", TIDE_CODING_IDENTITY}, {"gzip", TIDE_CODING_GZIP},
    {"deflate", TIDE_CODING_DEFLATE},   {"zstd", TIDE_CODING_ZSTD},
    {"x-gzip", TIDE_CODING_GZIP},
};

tide_status tide_coding_find(tide_coding *out, tide_view name, tide_error *err)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].name) == name.len &&
            strncasecmp(names[i].name, name.ptr, name.len) == 0) {
            *out = names[i].coding;
            return TIDE_OK;
        }
    }
    return tide_fail(err, TIDE_E_UNSUPPORTED,
                     "encoding \"%.*s\" is not one of " TIDE_CODING_ACCEPTED,
                     name.len > 32 ? 32 : (int)name.len, name.len > 0 ? name.ptr : "");
}

const char *tide_coding_name(tide_coding coding)
{
    assert((size_t)coding < sizeof names / sizeof names[0]);
    return names[coding].name;
}

/* --- one unpacker --- */

tide_status tide_inflater_new(tide_inflater **out, tide_coding coding,
                              const tide_inflate_limits *limits, tide_error *err)
{
    TIDE_CLEANUP(tide_inflater_freep) TIDE_NEW(tide_inflater, made, err);
    made->coding = coding;
    made->limits = limits ? *limits : (tide_inflate_limits){0};
    if (made->limits.output_len == 0)
        made->limits.output_len = TIDE_INFLATE_OUTPUT_MAX;
    if (made->limits.ratio == 0)
        made->limits.ratio = TIDE_INFLATE_RATIO_MAX;
    if (made->limits.ratio_floor_len == 0)
        made->limits.ratio_floor_len = TIDE_INFLATE_RATIO_FLOOR_LEN;
    if (coding == TIDE_CODING_ZSTD) {
        made->zstd = ZSTD_createDCtx();
        TIDE_NEED_MEMORY(made->zstd, err);
        (void)ZSTD_DCtx_setParameter(made->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    }
    *out = TIDE_TAKE(made);
    return TIDE_OK;
}

void tide_inflater_free(tide_inflater *inflater)
{
    if (!inflater)
        return;
    if (inflater->has_zlib)
        (void)inflateEnd(&inflater->zlib);
    (void)ZSTD_freeDCtx(inflater->zstd);
    free(inflater);
}

/* --- limits --- */

/* Room for the next piece of output; *len may be 0 where no byte more is allowed. */
static tide_status make_room(const tide_inflater *inflater, tide_buffer *out, size_t *len,
                             tide_error *err)
{
    const uint64_t left = inflater->limits.output_len - inflater->output_len;
    *len = STEP_LEN;
    if (*len > left)
        *len = (size_t)left;
    if (*len > out->max - out->len)
        *len = out->max - out->len;
    const tide_status status = tide_buffer_reserve(out, *len);
    if (status != TIDE_OK)
        return tide_buffer_check(status, err);
    return TIDE_OK;
}

static tide_status fail_too_large(const tide_inflater *inflater, const tide_buffer *out,
                                  tide_error *err)
{
    const size_t max =
        out->max < inflater->limits.output_len ? out->max : inflater->limits.output_len;
    return tide_fail(err, TIDE_E_LIMIT, "the body is larger than %zu bytes unpacked", max);
}

/* Account for a piece that was unpacked. */
static tide_status add_output(tide_inflater *inflater, tide_buffer *out, size_t len,
                              tide_error *err)
{
    out->len += len;
    if (out->ptr)
        out->ptr[out->len] = '\0';
    inflater->output_len += len;
    if (inflater->output_len > inflater->limits.ratio_floor_len &&
        inflater->output_len / inflater->limits.ratio > inflater->input_len)
        return tide_fail(err, TIDE_E_LIMIT,
                         "the body unpacks to more than %zu times its size, which is refused",
                         inflater->limits.ratio);
    return TIDE_OK;
}

static tide_status feed_identity(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                                 tide_error *err)
{
    if (bytes.len > inflater->limits.output_len - inflater->output_len)
        return fail_too_large(inflater, out, err);
    const tide_status status = tide_buffer_append_view(out, bytes);
    if (status == TIDE_E_LIMIT)
        return fail_too_large(inflater, out, err);
    inflater->output_len += bytes.len;
    return tide_buffer_check(status, err);
}

/* --- gzip and deflate --- */

static tide_status begin_zlib(tide_inflater *inflater, int window_bits, tide_error *err)
{
    inflater->zlib = (z_stream){0};
    if (inflateInit2(&inflater->zlib, window_bits) != Z_OK)
        return tide_no_memory(err);
    inflater->has_zlib = true;
    inflater->place = PLACE_INSIDE;
    return TIDE_OK;
}

static tide_status fail_damaged(const tide_inflater *inflater, const char *why, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "the body is not %s: %s",
                     tide_coding_name(inflater->coding), why ? why : "damaged");
}

/* One call of zlib: some input, at most STEP_LEN of output. *is_idle: it wants more input. */
static tide_status step_zlib(tide_inflater *inflater, tide_buffer *out, bool *is_idle,
                             tide_error *err)
{
    size_t room;
    TIDE_TRY(make_room(inflater, out, &room, err));
    uint8_t beyond = 0; /* output that there is no room for: one byte of it is proof enough */
    z_stream *zlib = &inflater->zlib;
    zlib->next_out = room > 0 ? (Bytef *)out->ptr + out->len : &beyond;
    zlib->avail_out = room > 0 ? (uInt)room : 1;
    const uInt given_in = zlib->avail_in;
    const uInt given_out = zlib->avail_out;
    const int code = inflate(zlib, Z_NO_FLUSH);
    const size_t made = given_out - zlib->avail_out;
    inflater->input_len += given_in - zlib->avail_in;
    if (room == 0 && made > 0)
        return fail_too_large(inflater, out, err);
    TIDE_TRY(add_output(inflater, out, made, err));
    if (code == Z_STREAM_END)
        inflater->place = PLACE_BETWEEN;
    else if (code == Z_MEM_ERROR)
        return tide_no_memory(err);
    else if (code != Z_OK && code != Z_BUF_ERROR)
        return fail_damaged(inflater, code == Z_NEED_DICT ? "it needs a dictionary" : zlib->msg,
                            err);
    *is_idle = code == Z_BUF_ERROR || (zlib->avail_in == 0 && zlib->avail_out > 0);
    return TIDE_OK;
}

/* Behind a member: another one, or zeros to the end. Only gzip has members. */
static tide_status step_between(tide_inflater *inflater, tide_error *err)
{
    z_stream *zlib = &inflater->zlib;
    if (*zlib->next_in == 0 || inflater->place == PLACE_PADDING) {
        inflater->place = PLACE_PADDING;
        for (; zlib->avail_in > 0; zlib->avail_in--, zlib->next_in++) {
            if (*zlib->next_in != 0)
                return fail_damaged(inflater, "something follows its end", err);
        }
        return TIDE_OK;
    }
    if (inflater->coding != TIDE_CODING_GZIP)
        return fail_damaged(inflater, "something follows its end", err);
    if (inflateReset(zlib) != Z_OK)
        return fail_damaged(inflater, zlib->msg, err);
    inflater->place = PLACE_INSIDE;
    return TIDE_OK;
}

static tide_status run_zlib(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                            tide_error *err)
{
    z_stream *zlib = &inflater->zlib;
    zlib->next_in = (const Bytef *)bytes.ptr;
    zlib->avail_in = (uInt)bytes.len;
    bool is_idle = false;
    while (!is_idle && (zlib->avail_in > 0 || inflater->place == PLACE_INSIDE)) {
        if (inflater->place == PLACE_INSIDE)
            TIDE_TRY(step_zlib(inflater, out, &is_idle, err));
        else
            TIDE_TRY(step_between(inflater, err));
        if (inflater->place != PLACE_INSIDE)
            is_idle = false; /* the rest belongs to the caller */
    }
    return TIDE_OK;
}

/* A zlib header: method 8 (deflate), and a multiple of 31. A bare stream that begins like one would
 * have to be a stored block with bits that no encoder sets. */
static bool is_zlib_header(uint8_t first, uint8_t second)
{
    return (first & 0x0FU) == 8 && (first >> 4) <= 7 && (first * 256U + second) % 31U == 0;
}

/* The format is known after two bytes. */
static tide_status feed_deflate(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                                tide_error *err)
{
    if (inflater->place == PLACE_START) {
        inflater->first = (uint8_t)bytes.ptr[0];
        inflater->place = PLACE_FIRST;
        bytes = tide_view_bytes(bytes.ptr + 1, bytes.len - 1);
    }
    if (inflater->place == PLACE_FIRST) {
        if (bytes.len == 0)
            return TIDE_OK;
        const bool is_zlib = is_zlib_header(inflater->first, (uint8_t)bytes.ptr[0]);
        TIDE_TRY(begin_zlib(inflater, is_zlib ? WINDOW_BITS_ZLIB : WINDOW_BITS_RAW, err));
        const char first = (char)inflater->first;
        TIDE_TRY(run_zlib(inflater, tide_view_bytes(&first, 1), out, err));
    }
    return run_zlib(inflater, bytes, out, err);
}

static tide_status feed_gzip(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                             tide_error *err)
{
    if (inflater->place == PLACE_START)
        TIDE_TRY(begin_zlib(inflater, WINDOW_BITS_GZIP, err));
    return run_zlib(inflater, bytes, out, err);
}

/* --- zstd --- */

static tide_status fail_zstd(const tide_inflater *inflater, size_t code, tide_error *err)
{
    const ZSTD_ErrorCode kind = ZSTD_getErrorCode(code);
    if (kind == ZSTD_error_memory_allocation)
        return tide_no_memory(err);
    if (kind == ZSTD_error_frameParameter_windowTooLarge)
        return tide_fail(err, TIDE_E_LIMIT, "the body's zstd window is larger than %d MiB",
                         1 << (ZSTD_WINDOW_LOG_MAX - 20));
    return fail_damaged(inflater, ZSTD_getErrorName(code), err);
}

/* A frame, or one that is skipped. Builds of libzstd also read the formats before RFC 8878, with
 * decoders that know no limit of the window and end differently when the bytes come in pieces. */
static bool begins_zstd_frame(uint8_t first)
{
    return first == 0x28 || (first & 0xf0) == 0x50;
}

static tide_status feed_zstd(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                             tide_error *err)
{
    ZSTD_inBuffer in = {.src = bytes.ptr, .size = bytes.len};
    bool has_more = true; /* output that did not fit */
    while (in.pos < in.size || has_more) {
        size_t room;
        if (in.pos < in.size && inflater->place != PLACE_INSIDE &&
            !begins_zstd_frame((uint8_t)bytes.ptr[in.pos]))
            return fail_damaged(inflater, "it has no frame of RFC 8878", err);
        TIDE_TRY(make_room(inflater, out, &room, err));
        char beyond = 0;
        ZSTD_outBuffer piece = {.dst = room > 0 ? out->ptr + out->len : &beyond,
                                .size = room > 0 ? room : 1};
        const size_t start = in.pos;
        const size_t code = ZSTD_decompressStream(inflater->zstd, &piece, &in);
        inflater->input_len += in.pos - start;
        if (ZSTD_isError(code))
            return fail_zstd(inflater, code, err);
        if (room == 0 && piece.pos > 0)
            return fail_too_large(inflater, out, err);
        TIDE_TRY(add_output(inflater, out, piece.pos, err));
        inflater->place = code == 0 ? PLACE_BETWEEN : PLACE_INSIDE;
        has_more = piece.pos == piece.size && code != 0;
    }
    return TIDE_OK;
}

/* --- the whole --- */

tide_status tide_inflater_feed(tide_inflater *inflater, tide_view bytes, tide_buffer *out,
                               tide_error *err)
{
    while (bytes.len > 0) {
        const size_t len = bytes.len < STEP_LEN ? bytes.len : STEP_LEN; /* zlib counts in 32 bits */
        const tide_view piece = tide_view_bytes(bytes.ptr, len);
        switch (inflater->coding) {
        case TIDE_CODING_IDENTITY:
            TIDE_TRY(feed_identity(inflater, piece, out, err));
            break;
        case TIDE_CODING_GZIP:
            TIDE_TRY(feed_gzip(inflater, piece, out, err));
            break;
        case TIDE_CODING_DEFLATE:
            TIDE_TRY(feed_deflate(inflater, piece, out, err));
            break;
        case TIDE_CODING_ZSTD:
            TIDE_TRY(feed_zstd(inflater, piece, out, err));
            break;
        }
        bytes = tide_view_bytes(bytes.ptr + len, bytes.len - len);
    }
    return TIDE_OK;
}

tide_status tide_inflater_finish(tide_inflater *inflater, tide_error *err)
{
    const bool is_whole = inflater->coding == TIDE_CODING_IDENTITY ||
                          inflater->place == PLACE_BETWEEN || inflater->place == PLACE_PADDING;
    return is_whole ? TIDE_OK : fail_damaged(inflater, "it ends too early", err);
}

tide_status tide_inflate(tide_buffer *out, tide_view bytes, const char *encoding, tide_error *err)
{
    tide_coding coding;
    TIDE_TRY(tide_coding_find(&coding, tide_view_of(encoding), err));
    const tide_inflate_limits limits = {.output_len = out->max - out->len};
    const size_t before_len = out->len;
    TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
    TIDE_TRY(tide_inflater_new(&inflater, coding, &limits, err));
    tide_status status = tide_inflater_feed(inflater, bytes, out, err);
    if (status == TIDE_OK)
        status = tide_inflater_finish(inflater, err);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

static tide_status deflate_into(z_stream *zlib, tide_buffer *out, tide_view bytes, tide_error *err)
{
    const size_t bound = deflateBound(zlib, bytes.len);
    const size_t room = bound < out->max - out->len ? bound : out->max - out->len;
    const tide_status status = tide_buffer_reserve(out, room);
    if (status != TIDE_OK)
        return tide_buffer_check(status, err);
    zlib->next_in = (const Bytef *)bytes.ptr;
    zlib->avail_in = (uInt)bytes.len;
    zlib->next_out = (Bytef *)out->ptr + out->len;
    zlib->avail_out = (uInt)room;
    if (deflate(zlib, Z_FINISH) != Z_STREAM_END)
        return tide_fail(err, TIDE_E_LIMIT, "%zu bytes do not fit compressed", bytes.len);
    out->len += room - zlib->avail_out;
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

tide_status tide_gzip_append(tide_buffer *out, tide_view bytes, int level, tide_error *err)
{
    assert(level >= 0 && level <= 9);
    enum { MEMORY_LEVEL = 8 };
    if (bytes.len > UINT32_MAX / 2)
        return tide_fail(err, TIDE_E_LIMIT, "%zu bytes are too many to compress", bytes.len);
    z_stream zlib = {0};
    if (deflateInit2(&zlib, level > 0 ? level : 1, Z_DEFLATED, WINDOW_BITS_GZIP, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return tide_no_memory(err);
    const tide_status status = deflate_into(&zlib, out, bytes, err);
    (void)deflateEnd(&zlib);
    return status;
}
