/* fake_call.h - calls without a transport: what was sent and how it ended is noted.
 *
 * Stands in for call.c in tests of methods. A call is counted while it is held. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "net/call/call.h"

enum { FAKE_CALL_SENT_MAX = 64 };

struct tide_call {
    int holds;
    bool is_cancelled;
    bool is_ended;
    bool is_replied;
    tide_status status;
    tide_error err;
    tide_buffer sent[FAKE_CALL_SENT_MAX];
    size_t sent_count;
    tide_call_fn *receive;
    void *receive_arg;
    void (*on_cancel)(tide_call *call, void *arg);
    void *on_cancel_arg;
};

/* From the table, run the method of this path. */
void fake_call_run(tide_call *call, const tide_method *methods, const char *path, tide_view message,
                   void *arg);

/* The peer leaves. */
void fake_call_cancel(tide_call *call);

void fake_call_done(tide_call *call);
