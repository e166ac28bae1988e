/* snapshot_file.h - the outside of a snapshot: a file of chunks, each with a digest, and one digest of all.
 *
 *     head      64 bytes   "TIDESNAP", u32 version, u32 0, 16 bytes id, u64 created (us), 20 bytes 0, u32 CRC32C of the 60 bytes before
 *     chunk     40 bytes   u32 raw length (1 .. 1 MiB), u32 packed length, SHA-256 of (id, u64 index, both lengths, packed bytes)
 *               ...        one zstd frame
 *     trailer   72 bytes   u32 0, u32 0, u64 chunks, u64 raw bytes, u64 bytes before the trailer, SHA-256 of those, "PANSEDIT"
 *
 * Integers are little endian. The raw bytes of all chunks are one stream of records: a varint length and that many bytes, cut into chunks
 * wherever a MiB is full. A chunk's digest covers its place and the file's id, so that chunks cannot change places or files; the trailer's
 * tells the snapshot apart from every other, and is what lists show.
 *
 * A reader takes nothing on trust: lengths are bounded before memory is asked for, frames are opened only when their digest fits, and what
 * follows the trailer is refused as well as what is missing before it. TIDE_E_DAMAGED says what is wrong and where; TIDE_E_NEWER: a later version.
 *
 * Memory: two chunks, and the record under way (TIDE_SNAPSHOT_RECORD_MAX, which grows only as its bytes arrive).
 * Threads: one at a time. */
#pragma once

#include <tidemark/error.h>

#include "base/buffer.h"
#include "base/digest.h"

enum {
    TIDE_SNAPSHOT_VERSION = 3,
    TIDE_SNAPSHOT_ID_LEN = 16,
    TIDE_SNAPSHOT_HEAD = 64,
    TIDE_SNAPSHOT_CHUNK_HEAD = 40,
    TIDE_SNAPSHOT_TRAILER = 72,
    TIDE_SNAPSHOT_CHUNK_MAX = 1 << 20,
    TIDE_SNAPSHOT_RECORD_MAX = 1 << 30,
};

/* ---- writing ---- */

typedef struct tide_snapshot_writer {
    int fd; /* the caller's */
    uint8_t id[TIDE_SNAPSHOT_ID_LEN];
    tide_buffer raw;
    tide_buffer packed;
    tide_sha256 whole;
    struct ZSTD_CCtx_s *zstd;
    uint64_t chunks;
    uint64_t raw_bytes;
    uint64_t bytes;
    uint8_t digest[TIDE_SHA256_LEN]; /* after finish */
} tide_snapshot_writer;

/* The head is written at once. TIDE_E_IO, TIDE_E_FULL, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_snapshot_writer_init(tide_snapshot_writer *writer, int fd,
                                                      const uint8_t id[TIDE_SNAPSHOT_ID_LEN],
                                                      int64_t created_us, tide_error *err);
void tide_snapshot_writer_done(tide_snapshot_writer *writer); /* fits TIDE_CLEANUP on {0} */
TIDE_MUST_CHECK tide_status tide_snapshot_writer_add(tide_snapshot_writer *writer, tide_view record,
                                                     tide_error *err);
/* The last chunk, the trailer, and everything on disk. */
TIDE_MUST_CHECK tide_status tide_snapshot_writer_finish(tide_snapshot_writer *writer,
                                                        tide_error *err);

/* ---- reading ---- */

/* Up to len bytes from where it stands; *got 0: the end. */
typedef tide_status tide_snapshot_read_fn(void *arg, void *bytes, size_t len, size_t *got,
                                          tide_error *err);

typedef struct tide_snapshot_reader {
    tide_snapshot_read_fn *read;
    void *arg;
    uint8_t id[TIDE_SNAPSHOT_ID_LEN];
    int64_t created_us;
    tide_buffer packed;
    tide_buffer raw;
    size_t at; /* in raw */
    tide_buffer record;
    tide_sha256 whole;
    struct ZSTD_DCtx_s *zstd;
    uint64_t chunks;
    uint64_t raw_bytes;
    uint64_t bytes; /* that were read */
    bool is_over;
    uint8_t digest[TIDE_SHA256_LEN]; /* when it is over */
} tide_snapshot_reader;

/* TIDE_E_FOREIGN: no snapshot. TIDE_E_NEWER, TIDE_E_DAMAGED. */
TIDE_MUST_CHECK tide_status tide_snapshot_reader_init(tide_snapshot_reader *reader,
                                                      tide_snapshot_read_fn *read, void *arg,
                                                      tide_error *err);
void tide_snapshot_reader_done(tide_snapshot_reader *reader); /* fits TIDE_CLEANUP on {0} */
/* The next record, borrowed until the next call. TIDE_NONE: that was the last, and the whole file is sound. */
TIDE_MUST_CHECK tide_status tide_snapshot_reader_next(tide_snapshot_reader *reader, tide_view *out,
                                                      tide_error *err);

/* For files: arg is a pointer to the descriptor. */
tide_snapshot_read_fn tide_snapshot_read_fd;

/* How much of a file that is still being fetched is sound: its head and whole chunks (the trailer, too, where it is complete). 0: not even
 * the head. For going on with a transfer. TIDE_E_IO, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_snapshot_sound_bytes(int64_t *out, int fd, tide_error *err);
