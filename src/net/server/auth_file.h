/* auth_file.h - tokens in a file: for services without a store of tokens, and for those who write
 * configurations.
 *
 *     # who         may   how it is recognised
 *     collector-1   write sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
 *     dashboard     read  tide_Jc5gWw...
 *
 * One token per line: a name, a role (ingest, read, write, admin), and the SHA-256 of the token in
 * hexadecimal (with or without "sha256:") or the token itself. Words are parted by spaces or tabs;
 * empty lines and lines that begin with '#' do not count. A token is TIDE_AUTH_SECRET_MIN or more
 * visible ASCII characters; 64 hexadecimal digits are always a digest.
 *
 * A file is taken as a whole or not at all: one bad line refuses it, and the words name it as
 * FILE:LINE. They never repeat what stands in the third column.
 *
 * Threads: pure. Limits: below. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/digest.h"
#include "net/call/call.h"

enum {
    TIDE_AUTH_FILE_MAX = 1 << 20, /* bytes */
    TIDE_AUTH_FILE_ROWS = 4096,
    TIDE_AUTH_NAME_MAX = 128,  /* bytes of a name, without the terminator */
    TIDE_AUTH_SECRET_MIN = 32, /* characters of a token; shorter ones can be guessed */
    TIDE_AUTH_SECRET_MAX = 512,
};

typedef struct tide_auth_row {
    char name[TIDE_AUTH_NAME_MAX + 1];
    tide_call_role role;
    uint8_t digest[TIDE_SHA256_LEN];
} tide_auth_row;

typedef struct tide_auth_rows {
    tide_auth_row *items;
    size_t count;
} tide_auth_rows;

/* text is the file, name stands for it in messages. TIDE_E_INVALID: a line that is none, a name
 * twice, too many. TIDE_E_NOMEM. To be given back (done) also after a failure. */
TIDE_MUST_CHECK tide_status tide_auth_rows_parse(tide_auth_rows *out, tide_view text,
                                                 const char *name, tide_error *err);
void tide_auth_rows_done(tide_auth_rows *rows);

/* "ingest", "read", "write", "admin". TIDE_NONE: something else. */
TIDE_MUST_CHECK tide_status tide_auth_role_find(tide_call_role *out, tide_view name);
