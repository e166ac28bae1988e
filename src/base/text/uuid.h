/* uuid.h - 128-bit names: random (version 4) or led by the time (version 7).
 *
 * v4 carries 122 random bits: session ids, tokens, anything that should say nothing about itself.
 * v7 carries the wall clock in milliseconds and 74 random bits: ids that land next to each other in
 * an index. Two v7 ids made within one millisecond, or around a clock that was set back, have no
 * order between them: an order that matters is a sequence's business (sequence.h), so no state is
 * kept here.
 *
 * Text is 8-4-4-4-12 hexadecimal digits, written in lower case, read in either. Nothing else is
 * read: no braces, no "urn:uuid:", no missing dashes. Any 128 bits are accepted, whatever version
 * they claim.
 *
 * Threads: pure, apart from the env that is given. */
#pragma once

#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

enum {
    TIDE_UUID_LEN = 16,
    TIDE_UUID_TEXT_SIZE = 37, /* with the terminator */
};

typedef struct tide_uuid {
    uint8_t bytes[TIDE_UUID_LEN]; /* in the order of the text */
} tide_uuid;

void tide_uuid_v4(tide_env *env, tide_uuid *uuid);

/* A wall clock before 1970 or beyond the 48 bits (year 10889) counts as the nearest end. */
void tide_uuid_v7(tide_env *env, tide_uuid *uuid);

void tide_uuid_format(const tide_uuid *uuid, char out[TIDE_UUID_TEXT_SIZE]);

/* TIDE_E_INVALID: not exactly a UUID; *uuid is then untouched. */
TIDE_MUST_CHECK tide_status tide_uuid_parse(tide_uuid *uuid, tide_view text);
