#include "replica/snapshot_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"

enum { ZSTD_LEVEL = 3, CRC_AT = 60, PACKED_MAX = TIDE_SNAPSHOT_CHUNK_MAX + (64 << 10) };

static const char magic[8] = {'T', 'I', 'D', 'E', 'S', 'N', 'A', 'P'};
static const char magic_end[8] = {'P', 'A', 'N', 'S', 'E', 'D', 'I', 'T'};

static void put_u32(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

static void put_u64(uint8_t *at, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
    uint32_t number = 0;
    for (int i = 0; i < 4; i++)
        number |= (uint32_t)at[i] << (8 * i);
    return number;
}

static uint64_t get_u64(const uint8_t *at)
{
    return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static tide_status digest_chunk(uint8_t out[TIDE_SHA256_LEN],
                                const uint8_t id[TIDE_SNAPSHOT_ID_LEN], uint64_t index,
                                const uint8_t lengths[8], tide_view packed, tide_error *err)
{
    uint8_t number[8];
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {.context = NULL};
    put_u64(number, index);
    TIDE_TRY(tide_sha256_init(&sha, err));
    TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(id, TIDE_SNAPSHOT_ID_LEN), err));
    TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(number, sizeof number), err));
    TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(lengths, 8), err));
    TIDE_TRY(tide_sha256_add(&sha, packed, err));
    return tide_sha256_finish(&sha, out, err);
}

/* ---- writing ---- */

static tide_status write_bytes(tide_snapshot_writer *w, const void *bytes, size_t len,
                               bool is_digested, tide_error *err)
{
    const char *at = bytes;
    if (is_digested)
        TIDE_TRY(tide_sha256_add(&w->whole, tide_view_bytes(bytes, len), err));
    w->bytes += len;
    while (len > 0) {
        const ssize_t written = write(w->fd, at, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return tide_fail(err, errno == ENOSPC || errno == EDQUOT ? TIDE_E_FULL : TIDE_E_IO,
                             "cannot write the snapshot: %s", strerror(errno));
        at += written;
        len -= (size_t)written;
    }
    return TIDE_OK;
}

tide_status tide_snapshot_writer_init(tide_snapshot_writer *w, int fd,
                                      const uint8_t id[TIDE_SNAPSHOT_ID_LEN], int64_t created_us,
                                      tide_error *err)
{
    uint8_t head[TIDE_SNAPSHOT_HEAD] = {0};
    *w = (tide_snapshot_writer){.fd = fd};
    memcpy(w->id, id, sizeof w->id);
    tide_buffer_init(&w->raw, TIDE_SNAPSHOT_CHUNK_MAX);
    tide_buffer_init(&w->packed, PACKED_MAX);
    TIDE_TRY(tide_sha256_init(&w->whole, err));
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd || tide_buffer_reserve(&w->packed, ZSTD_compressBound(TIDE_SNAPSHOT_CHUNK_MAX)))
        return tide_no_memory(err);
    memcpy(head, magic, sizeof magic);
    put_u32(head + 8, TIDE_SNAPSHOT_VERSION);
    memcpy(head + 16, id, TIDE_SNAPSHOT_ID_LEN);
    put_u64(head + 32, (uint64_t)created_us);
    put_u32(head + CRC_AT, tide_crc32c(tide_view_bytes(head, CRC_AT)));
    return write_bytes(w, head, sizeof head, true, err);
}

void tide_snapshot_writer_done(tide_snapshot_writer *w)
{
    tide_buffer_done(&w->raw);
    tide_buffer_done(&w->packed);
    tide_sha256_done(&w->whole);
    ZSTD_freeCCtx(w->zstd);
    *w = (tide_snapshot_writer){.fd = -1};
}

static tide_status write_chunk(tide_snapshot_writer *w, tide_error *err)
{
    uint8_t head[TIDE_SNAPSHOT_CHUNK_HEAD];
    const size_t len = ZSTD_compressCCtx(w->zstd, w->packed.ptr, w->packed.capacity, w->raw.ptr,
                                         w->raw.len, ZSTD_LEVEL);
    if (ZSTD_isError(len))
        return tide_fail(err, TIDE_E_FAILED, "zstd: %s", ZSTD_getErrorName(len));
    const tide_view packed = tide_view_bytes(w->packed.ptr, len);
    put_u32(head, (uint32_t)w->raw.len);
    put_u32(head + 4, (uint32_t)len);
    TIDE_TRY(digest_chunk(head + 8, w->id, w->chunks, head, packed, err));
    TIDE_TRY(write_bytes(w, head, sizeof head, true, err));
    TIDE_TRY(write_bytes(w, packed.ptr, packed.len, true, err));
    w->chunks++;
    w->raw_bytes += w->raw.len;
    tide_buffer_clear(&w->raw);
    return TIDE_OK;
}

static tide_status add_bytes(tide_snapshot_writer *w, tide_view bytes, tide_error *err)
{
    while (bytes.len > 0) {
        const size_t room = TIDE_SNAPSHOT_CHUNK_MAX - w->raw.len;
        const size_t len = bytes.len < room ? bytes.len : room;
        if (tide_buffer_append(&w->raw, bytes.ptr, len) < TIDE_OK)
            return tide_no_memory(err);
        bytes.ptr += len;
        bytes.len -= len;
        if (w->raw.len == TIDE_SNAPSHOT_CHUNK_MAX)
            TIDE_TRY(write_chunk(w, err));
    }
    return TIDE_OK;
}

tide_status tide_snapshot_writer_add(tide_snapshot_writer *w, tide_view record, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer length = tide_buffer_of(TIDE_VARINT_LEN_MAX);
    if (record.len > TIDE_SNAPSHOT_RECORD_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a row of more than %d MiB",
                         TIDE_SNAPSHOT_RECORD_MAX >> 20);
    if (tide_buffer_append_varint(&length, record.len) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(add_bytes(w, tide_buffer_view(&length), err));
    return add_bytes(w, record, err);
}

tide_status tide_snapshot_writer_finish(tide_snapshot_writer *w, tide_error *err)
{
    uint8_t trailer[TIDE_SNAPSHOT_TRAILER] = {0};
    if (w->raw.len > 0)
        TIDE_TRY(write_chunk(w, err));
    put_u64(trailer + 8, w->chunks);
    put_u64(trailer + 16, w->raw_bytes);
    put_u64(trailer + 24, w->bytes);
    TIDE_TRY(tide_sha256_finish(&w->whole, w->digest, err));
    memcpy(trailer + 32, w->digest, TIDE_SHA256_LEN);
    memcpy(trailer + 64, magic_end, sizeof magic_end);
    TIDE_TRY(write_bytes(w, trailer, sizeof trailer, false, err));
    if (fsync(w->fd) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot sync the snapshot: %s", strerror(errno));
    return TIDE_OK;
}

/* ---- reading ---- */

tide_status tide_snapshot_read_fd(void *arg, void *bytes, size_t len, size_t *got, tide_error *err)
{
    const int *fd = arg;
    ssize_t taken = 0;
    do
        taken = read(*fd, bytes, len);
    while (taken < 0 && errno == EINTR);
    if (taken < 0)
        return tide_fail(err, TIDE_E_IO, "cannot read the snapshot: %s", strerror(errno));
    *got = (size_t)taken;
    return TIDE_OK;
}

/* *got < len only at the end. */
static tide_status read_some(tide_snapshot_reader *r, void *bytes, size_t len, size_t *got,
                             tide_error *err)
{
    *got = 0;
    while (*got < len) {
        size_t piece = 0;
        TIDE_TRY(r->read(r->arg, (char *)bytes + *got, len - *got, &piece, err));
        if (piece == 0)
            break;
        *got += piece;
    }
    r->bytes += *got;
    return TIDE_OK;
}

static tide_status read_exactly(tide_snapshot_reader *r, void *bytes, size_t len, const char *what,
                                tide_error *err)
{
    size_t got = 0;
    const uint64_t at = r->bytes;
    TIDE_TRY(read_some(r, bytes, len, &got, err));
    if (got < len)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the snapshot ends at byte %" PRIu64 ", inside %s that begins at %" PRIu64,
                         r->bytes, what, at);
    return TIDE_OK;
}

static tide_status check_head(const uint8_t head[TIDE_SNAPSHOT_HEAD], tide_error *err)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return tide_fail(err, TIDE_E_FOREIGN, "this is no snapshot of a replica");
    if (get_u32(head + CRC_AT) != tide_crc32c(tide_view_bytes(head, CRC_AT)))
        return tide_fail(err, TIDE_E_DAMAGED, "the snapshot's head is damaged");
    if (get_u32(head + 8) != TIDE_SNAPSHOT_VERSION)
        return tide_fail(err, TIDE_E_NEWER, "a snapshot of version %" PRIu32 ", we know %d",
                         get_u32(head + 8), TIDE_SNAPSHOT_VERSION);
    return get_u64(head + 32) <= INT64_MAX
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED, "the snapshot's time cannot be");
}

tide_status tide_snapshot_reader_init(tide_snapshot_reader *r, tide_snapshot_read_fn *read,
                                      void *arg, tide_error *err)
{
    uint8_t head[TIDE_SNAPSHOT_HEAD];
    size_t got = 0;
    *r = (tide_snapshot_reader){.read = read, .arg = arg};
    tide_buffer_init(&r->packed, PACKED_MAX);
    tide_buffer_init(&r->raw, TIDE_SNAPSHOT_CHUNK_MAX);
    tide_buffer_init(&r->record, TIDE_SNAPSHOT_RECORD_MAX);
    TIDE_TRY(tide_sha256_init(&r->whole, err));
    r->zstd = ZSTD_createDCtx();
    TIDE_NEED_MEMORY(r->zstd, err);
    TIDE_TRY(read_some(r, head, sizeof head, &got, err));
    if (got < sizeof head)
        return tide_fail(err,
                         got >= 8 && memcmp(head, magic, 8) == 0 ? TIDE_E_DAMAGED : TIDE_E_FOREIGN,
                         "this is no snapshot of a replica: it has %zu bytes", got);
    TIDE_TRY(check_head(head, err));
    memcpy(r->id, head + 16, sizeof r->id);
    r->created_us = (int64_t)get_u64(head + 32);
    return tide_sha256_add(&r->whole, tide_view_bytes(head, sizeof head), err);
}

void tide_snapshot_reader_done(tide_snapshot_reader *r)
{
    tide_buffer_done(&r->packed);
    tide_buffer_done(&r->raw);
    tide_buffer_done(&r->record);
    tide_sha256_done(&r->whole);
    ZSTD_freeDCtx(r->zstd);
    *r = (tide_snapshot_reader){.read = NULL};
}

/* A chunk's packed bytes, whose digest fits. */
static tide_status read_packed(tide_snapshot_reader *r,
                               const uint8_t head[TIDE_SNAPSHOT_CHUNK_HEAD], tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    const uint32_t raw_len = get_u32(head);
    const uint32_t len = get_u32(head + 4);
    if (raw_len > TIDE_SNAPSHOT_CHUNK_MAX || len == 0 ||
        len > ZSTD_compressBound(TIDE_SNAPSHOT_CHUNK_MAX))
        return tide_fail(err, TIDE_E_DAMAGED,
                         "chunk %" PRIu64 " of the snapshot has lengths that cannot be", r->chunks);
    tide_buffer_clear(&r->packed);
    if (tide_buffer_reserve(&r->packed, len) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(read_exactly(r, r->packed.ptr, len, "a chunk", err));
    r->packed.len = len;
    TIDE_TRY(digest_chunk(digest, r->id, r->chunks, head, tide_buffer_view(&r->packed), err));
    if (memcmp(digest, head + 8, sizeof digest) != 0)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "chunk %" PRIu64 " of the snapshot, before byte %" PRIu64
                         ", does not have its digest",
                         r->chunks, r->bytes);
    return TIDE_OK;
}

static tide_status open_chunk(tide_snapshot_reader *r, uint32_t raw_len, tide_error *err)
{
    tide_buffer_clear(&r->raw);
    r->at = 0;
    if (tide_buffer_reserve(&r->raw, raw_len) < TIDE_OK)
        return tide_no_memory(err);
    const size_t len =
        ZSTD_decompressDCtx(r->zstd, r->raw.ptr, raw_len, r->packed.ptr, r->packed.len);
    if (ZSTD_isError(len) || len != raw_len)
        return tide_fail(err, TIDE_E_DAMAGED, "chunk %" PRIu64 " of the snapshot: %s", r->chunks,
                         ZSTD_isError(len) ? ZSTD_getErrorName(len) : "it has another length");
    r->raw.len = len;
    r->raw_bytes += len;
    r->chunks++;
    return TIDE_OK;
}

static tide_status check_trailer(tide_snapshot_reader *r, const uint8_t *trailer, tide_error *err)
{
    size_t got = 0;
    char behind = 0;
    TIDE_TRY(tide_sha256_finish(&r->whole, r->digest, err));
    if (get_u32(trailer + 4) != 0 || memcmp(trailer + 64, magic_end, sizeof magic_end) != 0 ||
        get_u64(trailer + 8) != r->chunks || get_u64(trailer + 16) != r->raw_bytes ||
        get_u64(trailer + 24) != r->bytes - TIDE_SNAPSHOT_TRAILER)
        return tide_fail(err, TIDE_E_DAMAGED, "the snapshot's trailer is damaged");
    if (memcmp(trailer + 32, r->digest, sizeof r->digest) != 0)
        return tide_fail(err, TIDE_E_DAMAGED, "the snapshot does not have the digest that it says");
    TIDE_TRY(read_some(r, &behind, 1, &got, err));
    if (got > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "bytes follow the snapshot's trailer");
    r->is_over = true;
    return TIDE_OK;
}

/* The next chunk into raw. TIDE_NONE: the trailer. */
static tide_status next_chunk(tide_snapshot_reader *r, tide_error *err)
{
    uint8_t head[TIDE_SNAPSHOT_TRAILER];
    if (r->is_over)
        return TIDE_NONE;
    TIDE_TRY(read_exactly(r, head, TIDE_SNAPSHOT_CHUNK_HEAD, "a chunk", err));
    if (get_u32(head) == 0) {
        TIDE_TRY(read_exactly(r, head + TIDE_SNAPSHOT_CHUNK_HEAD,
                              TIDE_SNAPSHOT_TRAILER - TIDE_SNAPSHOT_CHUNK_HEAD, "the trailer",
                              err));
        TIDE_TRY(check_trailer(r, head, err));
        return TIDE_NONE;
    }
    TIDE_TRY(read_packed(r, head, err));
    TIDE_TRY(tide_sha256_add(&r->whole, tide_view_bytes(head, TIDE_SNAPSHOT_CHUNK_HEAD), err));
    TIDE_TRY(tide_sha256_add(&r->whole, tide_buffer_view(&r->packed), err));
    return open_chunk(r, get_u32(head), err);
}

/* One byte of the stream. TIDE_NONE: the end. */
static tide_status next_byte(tide_snapshot_reader *r, uint8_t *out, tide_error *err)
{
    if (r->at == r->raw.len) {
        TIDE_TRY_FOUND(next_chunk(r, err));
    }
    *out = (uint8_t)r->raw.ptr[r->at++];
    return TIDE_OK;
}

static tide_status fail_cut(tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED, "the snapshot's last record is cut off");
}

static tide_status next_length(tide_snapshot_reader *r, uint64_t *out, tide_error *err)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        uint8_t byte = 0;
        const tide_status status = next_byte(r, &byte, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return i == 0 ? TIDE_NONE : fail_cut(err);
        *out |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return *out <= TIDE_SNAPSHOT_RECORD_MAX
                       ? TIDE_OK
                       : tide_fail(err, TIDE_E_DAMAGED, "a record of %" PRIu64 " bytes", *out);
    }
    return tide_fail(err, TIDE_E_DAMAGED, "a record whose length cannot be");
}

tide_status tide_snapshot_reader_next(tide_snapshot_reader *r, tide_view *out, tide_error *err)
{
    uint64_t left = 0;
    TIDE_TRY_FOUND(next_length(r, &left, err));
    if (left <= r->raw.len - r->at) { /* the usual case: within its chunk */
        *out = tide_view_bytes(r->raw.ptr + r->at, left);
        r->at += left;
        return TIDE_OK;
    }
    tide_buffer_clear(&r->record);
    while (left > 0) {
        if (r->at == r->raw.len) {
            const tide_status more = next_chunk(r, err);
            TIDE_TRY(more);
            if (more == TIDE_NONE)
                return fail_cut(err);
        }
        const size_t here = r->raw.len - r->at;
        const size_t len = left < here ? left : here;
        if (tide_buffer_append(&r->record, r->raw.ptr + r->at, len) < TIDE_OK)
            return tide_no_memory(err);
        r->at += len;
        left -= len;
    }
    *out = tide_buffer_view(&r->record);
    return TIDE_OK;
}

tide_status tide_snapshot_sound_bytes(int64_t *out, int fd, tide_error *err)
{
    tide_error ignored = {.status = TIDE_OK};
    TIDE_CLEANUP(tide_snapshot_reader_done) tide_snapshot_reader r = {.read = NULL};
    *out = 0;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot read the snapshot: %s", strerror(errno));
    tide_status status = tide_snapshot_reader_init(&r, tide_snapshot_read_fd, &fd, &ignored);
    while (status == TIDE_OK) {
        *out = (int64_t)r.bytes;
        status = next_chunk(&r, &ignored);
    }
    if (status == TIDE_NONE)
        *out = (int64_t)r.bytes;
    return status == TIDE_E_NOMEM || status == TIDE_E_IO
               ? tide_fail(err, status, "%s", ignored.text)
               : TIDE_OK;
}
