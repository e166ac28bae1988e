/* work_messages.h - what a command of `tidemark work run` says while it works: JSON lines over a socket.
 *
 *     {"checkpoint": VALUE, "type": "...", "message": "...", "tags": ["..."]}     {"ok":true,"global_sequence":n,...}
 *     {"progress": VALUE}                                                       {"ok":true}
 *     {"output": VALUE}                                                         {"ok":true}
 *
 * Every line is answered by one line, once what it says is on disk; a line that cannot be understood or stored by
 * {"ok":false,"error":"..."}. Answers that the command does not read are dropped, not waited for.
 *
 * Threads: one thread speaks (tide_work_messages_serve), another tells it to end. Limits: TIDE_WORK_LINE_MAX per line. */
#ifndef TIDE_CLI_WORK_MESSAGES_H
#define TIDE_CLI_WORK_MESSAGES_H

#include <stdatomic.h>

#include <tidemark/worker.h>

#include "base/buffer.h"

enum { TIDE_WORK_LINE_MAX = TIDE_JOURNAL_SNAPSHOT_MAX + (1 << 20) };

typedef struct tide_work_messages {
    tide_job *job;
    int fd;              /* our end */
    int end_fd;          /* an eventfd: readable when the command has ended */
    const char *key;     /* of idempotency; its lock is kept while the command runs */
    int64_t key_token;
    int64_t lock_us;
    tide_buffer line;    /* what has come without its line break */
    tide_buffer output;  /* the last output message */
    bool has_output;
    atomic_bool is_lost; /* the store refused: the lease is gone */
} tide_work_messages;

/* Until the command has closed its end, or has ended and everything it wrote is read. Fits pthread_create. */
void *tide_work_messages_serve(void *messages);

/* One line, answered into `answer`; for the above, and for tests. */
void tide_work_messages_take(tide_work_messages *messages, tide_view line, tide_buffer *answer);

#endif
