/* certificates.h - authorities, certificates and keys for tests, made on the spot.
 *
 *     certificates c;
 *     certificates_init(&c, dir);                                   an authority: ca.pem
 *     certificates_make(&c, "server", &(certificate_spec){.dns = "localhost", .ip = "127.0.0.1"});
 *                                                                   server.pem, server.key
 *
 * Keys are P-256, which takes no time. Files lie in the directory that is given. Failures fail the case.
 * Threads: one. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/tempdir.h"

typedef struct certificates {
    const tempdir *dir;
    X509 *ca;
    EVP_PKEY *ca_key;
    long serial;
} certificates;

typedef struct certificate_spec {
    const char *common_name;  /* NULL: none */
    const char *dns;          /* subject alternative name; NULL: none */
    const char *ip;           /* likewise */
    int64_t from_s;           /* valid from, seconds from now; 0: an hour ago */
    int64_t to_s;             /* valid to; 0: in a day */
    bool is_self_signed;      /* not by the authority */
    bool is_for_servers_only; /* extended key usage */
    const char *passphrase;   /* of the key; NULL: none */
} certificate_spec;

void certificates_init(certificates *c, const tempdir *dir);
void certificates_done(certificates *c);

/* NAME.pem and NAME.key; an existing pair is replaced. */
void certificates_make(certificates *c, const char *name, const certificate_spec *spec);

/* Another authority, as NAME.pem, that has signed nothing of ours. */
void certificates_stranger(certificates *c, const char *name);
