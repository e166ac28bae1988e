/* flips.h - a sweep of changed bits over a file: each is reported, or all answers are byte for byte
 * what they were.
 *
 *     values    "V ..." lines: a wrong one is never handed out, whatever else is reported
 *     the rest  "R ..." lines: a read fails or verification finds it, or they are what they were
 *
 * One bit is changed in place, so that the file is no copy to its store; then ask() says the
 * answers. Where they differ and no call failed, verify() has to find something. Half of the bits
 * are drawn from bytes that are not 0, because most of a small file is room. 200 of them; 2,000 in
 * soak; or as many as TIDEMARK_FLIPS says.
 *
 * Threads: one. */
#pragma once

#include "base/buffer.h"
#include "support/check.h"

typedef struct flip_answers {
    tide_buffer lines;
    int reports; /* failed calls, epochs, receipts, findings */
    char report[256];
} flip_answers;

typedef struct flip_kind {
    const char *name;
    const char *path;
    void (*ask)(void *scene, flip_answers *a);
    void (*verify)(void *scene, flip_answers *a);
} flip_kind;

/* Something was reported. */
void flip_report(flip_answers *a, const char *text);
/* True: the call failed, which is a report. */
bool flip_is_told(flip_answers *a, tide_status status, const tide_error *err);
/* A line; fits in 1,000 bytes. */
TIDE_PRINTF(2, 3) void flip_say(flip_answers *a, const char *format, ...);
/* A value that is no text. */
void flip_say_bytes(flip_answers *a, const char *what, int64_t number, tide_view bytes);

/* Nobody has the file open. Fails the case. The file is left as it was. */
void flip_sweep(const flip_kind *kind, void *scene);
