/* tls.h - certificates and keys as the network layer uses them: opened, offered, renewed without a
 * stop.
 *
 * A tide_tls holds the files of one side (certificate chain, key, the authorities its peers are
 * checked against) and the OpenSSL context made of them. Every new connection asks for the context
 * of that moment; a connection that exists keeps the one it began with.
 *
 *     open ---- tide_tls_connection (each accept) ----------------------------- close
 *                    reload: files read again, checked as a whole, then exchanged
 *                            same bytes as before: TIDE_NONE
 *                            something wrong:      the old context stays, and the error says what
 *                                                  is wrong
 *
 * What is spoken: TLS 1.2 and 1.3; forward secrecy and authenticated encryption only (in 1.2: ECDHE
 * with AES-GCM or ChaCha20); the server's order of ciphers; no compression, no renegotiation.
 * Sessions are never resumed (no tickets, no cache): a peer proves who it is on every connection,
 * so taking away its authority or its certificate counts from the next connection on. ALPN: a
 * server takes h2 before http/1.1, and a client that offers something else only is refused; a
 * client that offers nothing is taken for HTTP/1.1. A client offers both.
 *
 * A client checks the server's certificate and name always (tide_tls_options has no way around it).
 * A server asks for certificates when verify says so; the name of the peer is then the first DNS
 * name among the certificate's subject alternative names, or the common name where there is none.
 *
 * What is refused when files are read: a file that is missing, unreadable, larger than
 * TIDE_TLS_FILE_MAX, without the PEM block that is looked for, or with a broken one; a key with a
 * passphrase; a key that does not belong to the certificate; a certificate that has expired or is
 * not valid yet. The error names the file.
 *
 * Survives: nothing is kept.
 * Threads: every function may be called from any thread; reload and open may take the time of a
 * disk read.
 * Limits: below. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/cleanup.h"

enum {
    TIDE_TLS_FILE_MAX = 1 << 20, /* bytes of one file */
    TIDE_TLS_CHAIN_MAX = 10,     /* certificates between ours and an authority */
    TIDE_TLS_NAME_MAX = 255,     /* bytes of a peer's name, without the terminator */
};

typedef struct tide_tls tide_tls;

/* Of a server: what its clients have to show. */
typedef enum tide_tls_verify {
    TIDE_TLS_VERIFY_NONE,     /* they are not asked */
    TIDE_TLS_VERIFY_OPTIONAL, /* a certificate that is shown must be good */
    TIDE_TLS_VERIFY_REQUIRED, /* no connection without one */
} tide_tls_verify;

typedef struct tide_tls_options {
    const char *cert_file; /* PEM: the certificate, then its chain. Clients: NULL for none */
    const char *key_file;  /* PEM; NULL: in cert_file */
    const char *ca_file;   /* PEM: whom peers are checked against. Clients: NULL for the system's */
    tide_tls_verify verify; /* servers only; other than NONE needs ca_file */
    tide_env *env;          /* for the clock; NULL: tide_env_system() */
} tide_tls_options;

/* Read the files and make a context. The options are copied.
 * TIDE_E_INVALID: a file does not hold what it should (see above), or the options do not fit
 * together.
 * TIDE_E_NOT_FOUND, TIDE_E_DENIED, TIDE_E_IO: a file cannot be read. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_tls_open_server(tide_tls **out, const tide_tls_options *options,
                                                 tide_error *err);
TIDE_MUST_CHECK tide_status tide_tls_open_client(tide_tls **out, const tide_tls_options *options,
                                                 tide_error *err);

/* Connections go on; takes NULL. */
void tide_tls_close(tide_tls *tls);
TIDE_CLEANUP_FN(tide_tls_closep, tide_tls, tide_tls_close)

/* Read the files again. TIDE_OK: new connections get what they hold now. TIDE_NONE: they hold what
 * they held. A failure (as of open): everything is as before. */
TIDE_MUST_CHECK tide_status tide_tls_reload(tide_tls *tls, tide_error *err);

/* The context of this moment, with a reference that is the caller's (SSL_CTX_free). */
SSL_CTX *tide_tls_context(tide_tls *tls);

/* A new connection's state, the caller's (SSL_free): a server's is ready to accept, a client's to
 * connect to host, a name or an address that the server's certificate must carry. host is NULL for
 * servers. TIDE_E_NOMEM, TIDE_E_INVALID: no such host name. */
TIDE_MUST_CHECK tide_status tide_tls_connection(SSL **out, tide_tls *tls, const char *host,
                                                tide_error *err);

/* When the certificate in use ends, in microseconds of the wall clock; INT64_MAX: there is none. */
int64_t tide_tls_expires_us(tide_tls *tls);

/* ---- about a connection whose handshake is over ---- */

/* True: HTTP/2 was agreed on. */
bool tide_tls_is_h2(const SSL *ssl);

/* The name of the peer's certificate, which was checked. TIDE_NONE: it showed none. TIDE_E_INVALID:
 * it has no name, or one that is not plain visible ASCII up to TIDE_TLS_NAME_MAX bytes without
 * '*'. */
TIDE_MUST_CHECK tide_status tide_tls_peer_name(const SSL *ssl, char out[TIDE_TLS_NAME_MAX + 1],
                                               tide_error *err);

/* What went wrong on this thread's last failed OpenSSL call, in words, and empty the queue of
 * errors. Never empty. For a failed handshake: "certificate verify failed: self-signed
 * certificate". ssl may be NULL. */
void tide_tls_reason(char *out, size_t size, const SSL *ssl);
