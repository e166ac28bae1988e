/* audit.h - does the ledger balance?
 *
 * For every (agent, data type, session, epoch), current and closed: head - first + 1 = stored + dead + filtered + void + lost +
 * pending (position.h), and what is counted is really there: rows in the table + expired = stored, dead letters =
 * dead. With an agent to ask, the digest at the highest point both have is compared too.
 *
 * Threads: as the sink. */
#pragma once

#include "colony/sink.h"

typedef enum tide_audit_digest {
    TIDE_AUDIT_NOT_ASKED,
    TIDE_AUDIT_EQUAL,
    TIDE_AUDIT_DIFFERS,
    TIDE_AUDIT_CANNOT_TELL, /* too old, another session, no answer */
} tide_audit_digest;

typedef struct tide_audit_line {
    const tide_position *position;
    tide_ledger ledger;
    int64_t rows; /* in the table */
    int64_t dead_rows;
    tide_audit_digest digest;
    bool is_balanced;
    char finding[256]; /* what is wrong, in words; "": nothing */
} tide_audit_line;

/* Asks an agent; blocking; NULL: digests are not compared. */
typedef tide_status tide_audit_ask_fn(void *arg, const char *agent_id, const char *path,
                                      tide_view request, tide_buffer *answer, tide_error *err);
typedef tide_status tide_audit_fn(void *arg, const tide_audit_line *line, tide_error *err);

/* TIDE_OK: all balance. TIDE_E_DAMAGED: some do not, each told by fn. */
TIDE_MUST_CHECK tide_status tide_audit(tide_sink *sink, const char *agent_id, const char *data_type,
                                       tide_audit_ask_fn *ask, void *ask_arg, tide_audit_fn *fn,
                                       void *arg, tide_error *err);
