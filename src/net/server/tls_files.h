/* tls_files.h - what certificate, key and authority files hold, read and checked as a whole.
 *
 * A set of files is read into memory first and looked at then: what is checked is what is used,
 * also while somebody exchanges the files. The digest of all bytes tells whether there is something
 * new.
 *
 * Threads: pure, apart from the files. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/digest.h"

/* Where to read; NULL: no such file. */
typedef struct tide_tls_paths {
    const char *cert;
    const char *key; /* NULL: the key is in cert */
    const char *ca;
} tide_tls_paths;

typedef struct tide_tls_material {
    uint8_t digest[TIDE_SHA256_LEN];
    X509 *cert; /* NULL: there is none */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    STACK_OF(X509) * authorities; /* NULL: there are none */
    int64_t expires_us;           /* of cert; INT64_MAX without one */
} tide_tls_material;

/* Statuses as of tide_tls_open_server. To be given back (done) also after a failure. */
TIDE_MUST_CHECK tide_status tide_tls_material_read(tide_tls_material *out,
                                                   const tide_tls_paths *paths, tide_env *env,
                                                   tide_error *err);
/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_tls_material_done(tide_tls_material *material);
