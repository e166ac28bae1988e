#include "net/server/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "net/server/tls_files.h"

enum { REASON_SIZE = 256, CERT_LIST_MAX = 65536 };

static const char CIPHERS_12[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!aDSS";
static const char CIPHERS_13[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
/* As ALPN writes them: a length before each name; what we like best first. */
static const unsigned char PROTOCOLS[] = "\x02h2\x08http/1.1";
enum { PROTOCOLS_LEN = sizeof PROTOCOLS - 1 };

struct tide_tls {
    bool is_server;
    tide_tls_verify verify;
    char *cert_file;
    char *key_file;
    char *ca_file;
    tide_env *env;
    pthread_mutex_t reading; /* one reload at a time */
    pthread_mutex_t lock;    /* of what follows; held for moments */
    SSL_CTX *context;
    int64_t expires_us;
    uint8_t digest[TIDE_SHA256_LEN];
};

/* ---- words ---- */

void tide_tls_reason(char *out, size_t size, const SSL *ssl)
{
    const unsigned long code = ERR_peek_error();
    const char *words = code ? ERR_reason_error_string(code) : NULL;
    const long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    if (!words)
        words = code ? "an unnamed failure of OpenSSL" : "the connection ended";
    if (verified != X509_V_OK)
        (void)snprintf(out, size, "%s: %s", words, X509_verify_cert_error_string(verified));
    else
        (void)snprintf(out, size, "%s", words);
    ERR_clear_error();
}

static tide_status fail_openssl(tide_error *err, const char *what)
{
    char reason[REASON_SIZE];
    tide_tls_reason(reason, sizeof reason, NULL);
    return tide_fail(err, TIDE_E_INVALID, "%s: %s", what, reason);
}

/* ---- making a context ---- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned int offered_len, void *arg)
{
    (void)ssl;
    (void)arg;
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, PROTOCOLS, PROTOCOLS_LEN, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static tide_status set_protocol(SSL_CTX *context, bool is_server, tide_error *err)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* an idle connection holds no buffers */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(context, CERT_LIST_MAX);
    SSL_CTX_set_verify_depth(context, TIDE_TLS_CHAIN_MAX);
    if (SSL_CTX_set_num_tickets(context, 0) != 1 ||
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, CIPHERS_12) != 1 ||
        SSL_CTX_set_ciphersuites(context, CIPHERS_13) != 1)
        return fail_openssl(err, "TLS cannot be set up");
    if (is_server) {
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
        return TIDE_OK;
    }
    /* 0 is success here, unlike everywhere else. */
    return SSL_CTX_set_alpn_protos(context, PROTOCOLS, PROTOCOLS_LEN) == 0
               ? TIDE_OK
               : fail_openssl(err, "TLS cannot be set up");
}

static tide_status use_pair(SSL_CTX *context, const tide_tls_material *material, const char *path,
                            tide_error *err)
{
    if (!material->cert)
        return TIDE_OK;
    if (SSL_CTX_use_certificate(context, material->cert) != 1 ||
        SSL_CTX_set1_chain(context, material->chain) != 1 ||
        SSL_CTX_use_PrivateKey(context, material->key) != 1)
        return fail_openssl(err, path); /* a key too small, a digest too weak */
    return TIDE_OK;
}

static tide_status use_authorities(SSL_CTX *context, const tide_tls *tls,
                                   const tide_tls_material *material, tide_error *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    for (int i = 0; i < sk_X509_num(material->authorities); i++) {
        X509 *authority = sk_X509_value(material->authorities, i);
        if (X509_STORE_add_cert(store, authority) != 1)
            return fail_openssl(err, tls->ca_file);
        if (tls->is_server && SSL_CTX_add_client_CA(context, authority) != 1)
            return fail_openssl(err, tls->ca_file);
    }
    if (!material->authorities && !tls->is_server && SSL_CTX_set_default_verify_paths(context) != 1)
        return fail_openssl(err, "the system's certificate authorities");
    return TIDE_OK;
}

static int get_verify_mode(const tide_tls *tls)
{
    if (!tls->is_server || tls->verify == TIDE_TLS_VERIFY_OPTIONAL)
        return SSL_VERIFY_PEER;
    return tls->verify == TIDE_TLS_VERIFY_REQUIRED
               ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
               : SSL_VERIFY_NONE;
}

TIDE_CLEANUP_FN(free_context, SSL_CTX, SSL_CTX_free)

static tide_status make_context(SSL_CTX **out, const tide_tls *tls,
                                const tide_tls_material *material, tide_error *err)
{
    static const unsigned char session_context[] = "tidemark";
    ERR_clear_error();
    TIDE_CLEANUP(free_context)
    SSL_CTX *context = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    if (!context)
        return fail_openssl(err, "TLS cannot be set up");
    TIDE_TRY(set_protocol(context, tls->is_server, err));
    TIDE_TRY(use_pair(context, material, tls->cert_file, err));
    TIDE_TRY(use_authorities(context, tls, material, err));
    SSL_CTX_set_verify(context, get_verify_mode(tls), NULL);
    (void)SSL_CTX_set_session_id_context(context, session_context, sizeof session_context - 1);
    *out = TIDE_TAKE(context);
    return TIDE_OK;
}

/* ---- open, reload, close ---- */

tide_status tide_tls_reload(tide_tls *tls, tide_error *err)
{
    const tide_tls_paths paths = {.cert = tls->cert_file, .key = tls->key_file, .ca = tls->ca_file};
    TIDE_CLEANUP(tide_tls_material_done) tide_tls_material material = {.cert = NULL};
    TIDE_CLEANUP(free_context) SSL_CTX *context = NULL;
    pthread_mutex_lock(&tls->reading);
    tide_status status = tide_tls_material_read(&material, &paths, tls->env, err);
    /* Only reloads write the digest, and there is one at a time. */
    if (status == TIDE_OK && tls->context &&
        memcmp(tls->digest, material.digest, sizeof tls->digest) == 0)
        status = TIDE_NONE;
    if (status == TIDE_OK)
        status = make_context(&context, tls, &material, err);
    if (status == TIDE_OK) {
        pthread_mutex_lock(&tls->lock);
        SSL_CTX *old = tls->context;
        tls->context = context;
        context = old; /* freed without the lock */
        tls->expires_us = material.expires_us;
        memcpy(tls->digest, material.digest, sizeof tls->digest);
        pthread_mutex_unlock(&tls->lock);
    }
    pthread_mutex_unlock(&tls->reading);
    return status;
}

static tide_status copy_path(char **out, const char *path, tide_error *err)
{
    if (!path)
        return TIDE_OK;
    *out = strdup(path);
    return *out ? TIDE_OK : tide_no_memory(err);
}

static tide_status open_tls(tide_tls **out, const tide_tls_options *options, bool is_server,
                            tide_error *err)
{
    TIDE_CLEANUP(tide_tls_closep) TIDE_NEW(tide_tls, tls, err);
    (void)pthread_mutex_init(&tls->reading, NULL);
    (void)pthread_mutex_init(&tls->lock, NULL);
    tls->is_server = is_server;
    tls->verify = options->verify;
    tls->env = options->env ? options->env : tide_env_system();
    TIDE_TRY(copy_path(&tls->cert_file, options->cert_file, err));
    TIDE_TRY(copy_path(&tls->key_file, options->key_file, err));
    TIDE_TRY(copy_path(&tls->ca_file, options->ca_file, err));
    TIDE_TRY(tide_tls_reload(tls, err));
    *out = TIDE_TAKE(tls);
    return TIDE_OK;
}

tide_status tide_tls_open_server(tide_tls **out, const tide_tls_options *options, tide_error *err)
{
    if (!options->cert_file)
        return tide_fail(err, TIDE_E_INVALID, "a server needs a certificate");
    if (options->verify != TIDE_TLS_VERIFY_NONE && !options->ca_file)
        return tide_fail(err, TIDE_E_INVALID,
                         "certificates of clients cannot be checked without their authority");
    return open_tls(out, options, true, err);
}

tide_status tide_tls_open_client(tide_tls **out, const tide_tls_options *options, tide_error *err)
{
    if (options->key_file && !options->cert_file)
        return tide_fail(err, TIDE_E_INVALID, "%s: a key without a certificate", options->key_file);
    return open_tls(out, options, false, err);
}

void tide_tls_close(tide_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls->cert_file);
    free(tls->key_file);
    free(tls->ca_file);
    (void)pthread_mutex_destroy(&tls->reading);
    (void)pthread_mutex_destroy(&tls->lock);
    free(tls);
}

SSL_CTX *tide_tls_context(tide_tls *tls)
{
    TIDE_HOLD(&tls->lock);
    SSL_CTX *context = tls->context;
    SSL_CTX_up_ref(context);
    return context;
}

int64_t tide_tls_expires_us(tide_tls *tls)
{
    TIDE_HOLD(&tls->lock);
    return tls->expires_us;
}

/* ---- connections ---- */

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static tide_status expect_host(SSL *ssl, const char *host, tide_error *err)
{
    assert(host);
    X509_VERIFY_PARAM *expected = SSL_get0_param(ssl);
    ERR_clear_error();
    if (is_address(host)) {
        if (X509_VERIFY_PARAM_set1_ip_asc(expected, host) == 1)
            return TIDE_OK;
    } else {
        X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        if (*host && X509_VERIFY_PARAM_set1_host(expected, host, 0) == 1 &&
            SSL_set_tlsext_host_name(ssl, host) == 1)
            return TIDE_OK;
    }
    ERR_clear_error();
    return tide_fail(err, TIDE_E_INVALID, "'%s' is not the name of a host", host);
}

TIDE_CLEANUP_FN(free_ssl, SSL, SSL_free)

tide_status tide_tls_connection(SSL **out, tide_tls *tls, const char *host, tide_error *err)
{
    TIDE_CLEANUP(free_context) SSL_CTX *context = tide_tls_context(tls);
    TIDE_CLEANUP(free_ssl) SSL *ssl = SSL_new(context);
    if (!ssl) {
        ERR_clear_error();
        return tide_no_memory(err);
    }
    if (tls->is_server) {
        SSL_set_accept_state(ssl);
    } else {
        TIDE_TRY(expect_host(ssl, host, err));
        SSL_set_connect_state(ssl);
    }
    *out = TIDE_TAKE(ssl);
    return TIDE_OK;
}

bool tide_tls_is_h2(const SSL *ssl)
{
    const unsigned char *name = NULL;
    unsigned int len = 0;
    SSL_get0_alpn_selected(ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

/* ---- whom we talk to ---- */

/* '*' would be everybody; what cannot be seen could pass for another name in a log. */
static tide_status copy_name(char out[TIDE_TLS_NAME_MAX + 1], const ASN1_STRING *name,
                             tide_error *err)
{
    const unsigned char *bytes = ASN1_STRING_get0_data(name);
    const int len = ASN1_STRING_length(name);
    bool is_good = len > 0 && len <= TIDE_TLS_NAME_MAX;
    for (int i = 0; is_good && i < len; i++)
        is_good = bytes[i] > ' ' && bytes[i] < 0x7f && bytes[i] != '*';
    if (!is_good)
        return tide_fail(err, TIDE_E_INVALID, "the certificate's name cannot be that of a client");
    memcpy(out, bytes, (size_t)len);
    out[len] = '\0';
    return TIDE_OK;
}

TIDE_CLEANUP_FN(free_names, GENERAL_NAMES, GENERAL_NAMES_free)

TIDE_CLEANUP_FN(free_cert, X509, X509_free)

tide_status tide_tls_peer_name(const SSL *ssl, char out[TIDE_TLS_NAME_MAX + 1], tide_error *err)
{
    TIDE_CLEANUP(free_cert) X509 *cert = SSL_get1_peer_certificate(ssl);
    if (!cert || SSL_get_verify_result(ssl) != X509_V_OK)
        return TIDE_NONE;
    TIDE_CLEANUP(free_names)
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            return copy_name(out, name->d.dNSName, err);
    }
    const X509_NAME *subject = X509_get_subject_name(cert);
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0)
        return tide_fail(err, TIDE_E_INVALID, "the certificate has no name");
    return copy_name(out, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), err);
}
