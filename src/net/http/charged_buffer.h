/* charged_buffer.h - bytes of an unfinished request: bounded by a length, and taken from the
 * server's budget.
 *
 * What is charged is the memory that is really allocated, not what the peer announces: an announced
 * length is only the bound to which the bytes may grow.
 *
 * Threads: belongs to one thread at a time; the budget is shared. */
#pragma once

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "net/http/budget.h"

typedef struct tide_charged_buffer {
    tide_buffer bytes;
    tide_budget *budget;
    size_t charged;
} tide_charged_buffer;

void tide_charged_buffer_init(tide_charged_buffer *part, tide_budget *budget, size_t max);
void tide_charged_buffer_done(tide_charged_buffer *part);

/* TIDE_E_LIMIT: above its own maximum. TIDE_E_BUSY: the budget has no room. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_charged_buffer_append(tide_charged_buffer *part, tide_view bytes);

/* Charge for what bytes has grown by, when somebody else appended to it. TIDE_E_BUSY: the budget
 * has no room. */
TIDE_MUST_CHECK tide_status tide_charged_buffer_charge(tide_charged_buffer *part);

/* Charge for a buffer that was filled elsewhere, and take it over; it is empty then. TIDE_E_BUSY:
 * nothing happened. */
TIDE_MUST_CHECK tide_status tide_charged_buffer_adopt(tide_charged_buffer *part,
                                                      tide_buffer *filled);

/* Hand the memory over: out of the budget, the caller's (free). Never NULL, unless memory is
 * short. */
char *tide_charged_buffer_take(tide_charged_buffer *part, size_t *len);
