/* work_messages.h - what a command of `tidemark work run` says while it works: JSON lines over a socket, and its stderr.
 *
 *     {"checkpoint": VALUE, "type": "...", "message": "...", "tags": ["..."]}     {"ok":true,"global_sequence":n,...}
 *     {"progress": VALUE}                                                       {"ok":true}
 *     {"output": VALUE}                                                         {"ok":true}
 *
 * Every line is answered by one line, once what it says is on disk; a line that cannot be understood or stored by
 * {"ok":false,"error":"..."}. The last line needs no line break. Answers that the command does not
 * read are dropped, not waited for.
 *
 * stderr passes through to ours as it comes; the end of it is kept, for the error text of a command that fails. A reader of
 * ours that does not read holds the command up (its stderr fills), but neither its messages nor its end.
 *
 * Threads: one thread serves (tide_work_messages_serve); the fields are the caller's again when it has ended.
 * Limits: TIDE_WORK_LINE_MAX per line. */
#pragma once

#include <tidemark/worker.h>

#include "base/buffer.h"

enum {
    TIDE_WORK_LINE_MAX = TIDE_JOURNAL_SNAPSHOT_MAX + (1 << 20),
    TIDE_WORK_TAIL_MAX = 2000,    /* bytes of stderr that are kept */
    TIDE_WORK_ERRORS_STEP = 4096, /* bytes that a pipe takes without blocking when poll says so */
};

typedef struct tide_work_messages {
    tide_job *job;
    int fd;          /* our end of the socket */
    int errors_fd;   /* our end of its stderr */
    int end_fd;      /* an eventfd: readable when the command has ended */
    const char *key; /* of idempotency; its lock is kept while the command runs */
    int64_t key_token;
    tide_buffer line;   /* what has come without its line break */
    bool is_over;       /* the line under way is too long: its rest is dropped */
    tide_buffer output; /* the last output message */
    bool has_output;
    char tail[TIDE_WORK_TAIL_MAX + 1]; /* the end of stderr */
    size_t tail_len;
    char held[TIDE_WORK_ERRORS_STEP]; /* of stderr, not passed on yet: held_at .. held_len */
    size_t held_at;
    size_t held_len;
} tide_work_messages;

/* Until the command has ended and everything it wrote is read, or nobody reads our stderr. Fits tide_thread_start. */
void *tide_work_messages_serve(void *arg);

/* One line, answered into `answer`. */
void tide_work_messages_take(tide_work_messages *messages, tide_view line, tide_buffer *answer);

/* How long the lock on the key may last: as long as the lease, so that who claims the item next finds it free. */
int64_t tide_work_messages_lock_us(const tide_job *job);
