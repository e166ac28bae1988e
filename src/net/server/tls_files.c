#include "net/server/tls_files.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text/timefmt.h"
#include "net/server/tls.h"

enum { REASON_SIZE = 256, CA_MAX = 1000 };

/* A file's bytes; keys pass through here, so they are wiped. */
typedef struct file_text {
    tide_buffer bytes;
} file_text;

static void wipe(file_text *text)
{
    if (text->bytes.ptr)
        OPENSSL_cleanse(text->bytes.ptr, text->bytes.capacity);
    tide_buffer_done(&text->bytes);
}

TIDE_CLEANUP_FN(free_bio, BIO, BIO_free)

static tide_status fail_openssl(tide_error *err, const char *path, const char *what)
{
    char reason[REASON_SIZE];
    tide_tls_reason(reason, sizeof reason, NULL);
    return tide_fail(err, TIDE_E_INVALID, "%s: %s (%s)", path, what, reason);
}

/* The digest goes over lengths, too, so that bytes cannot move from one file to the next unseen. */
static tide_status read_file(file_text *out, const char *path, bool is_key, tide_sha256 *sha,
                             tide_error *err)
{
    tide_buffer_init(&out->bytes, TIDE_TLS_FILE_MAX);
    if (path)
        TIDE_TRY(is_key ? tide_file_read_private(&out->bytes, path, err)
                        : tide_file_read(&out->bytes, path, err));
    const uint64_t len = path ? out->bytes.len : UINT64_MAX;
    TIDE_TRY(tide_sha256_add(sha, tide_view_bytes(&len, sizeof len), err));
    return tide_sha256_add(sha, tide_buffer_view(&out->bytes), err);
}

static BIO *open_text(const file_text *text)
{
    return BIO_new_mem_buf(text->bytes.len > 0 ? text->bytes.ptr : "", (int)text->bytes.len);
}

/* All certificates of a file, in order. */
static tide_status read_certificates(STACK_OF(X509) * *out, const file_text *text, const char *path,
                                     int max, tide_error *err)
{
    TIDE_CLEANUP(free_bio) BIO *in = open_text(text);
    *out = sk_X509_new_null();
    TIDE_NEED_MEMORY(in && *out, err);
    ERR_clear_error();
    for (;;) {
        X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
        if (!cert)
            break;
        if (sk_X509_num(*out) >= max || sk_X509_push(*out, cert) == 0) {
            X509_free(cert);
            return tide_fail(err, TIDE_E_INVALID, "%s: more than %d certificates", path, max);
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return fail_openssl(err, path, "has a broken certificate");
    ERR_clear_error();
    if (sk_X509_num(*out) == 0)
        return tide_fail(err, TIDE_E_INVALID, "%s: holds no certificate in PEM form", path);
    return TIDE_OK;
}

/* Nobody is there to be asked. */
static int refuse_passphrase(char *out, int size, int for_writing, void *was_asked)
{
    if (size > 0)
        out[0] = '\0';
    (void)for_writing;
    *(bool *)was_asked = true;
    return -1;
}

static tide_status read_key(EVP_PKEY **out, const file_text *text, const char *path,
                            tide_error *err)
{
    TIDE_CLEANUP(free_bio) BIO *in = open_text(text);
    TIDE_NEED_MEMORY(in, err);
    bool was_asked = false;
    ERR_clear_error();
    *out = PEM_read_bio_PrivateKey(in, NULL, refuse_passphrase, &was_asked);
    if (*out)
        return TIDE_OK;
    if (was_asked) {
        ERR_clear_error();
        return tide_fail(err, TIDE_E_INVALID,
                         "%s: the key has a passphrase; a key without one is needed", path);
    }
    if (!memmem(text->bytes.len > 0 ? text->bytes.ptr : "", text->bytes.len, "PRIVATE KEY-----",
                strlen("PRIVATE KEY-----"))) {
        ERR_clear_error();
        return tide_fail(err, TIDE_E_INVALID, "%s: holds no private key in PEM form", path);
    }
    return fail_openssl(err, path, "has a broken private key");
}

static tide_status get_time_us(int64_t *us, const ASN1_TIME *time, const char *path,
                               tide_error *err)
{
    struct tm parts;
    if (!time || ASN1_TIME_to_tm(time, &parts) != 1)
        return tide_fail(err, TIDE_E_INVALID, "%s: the certificate has no valid period", path);
    *us = (int64_t)timegm(&parts) * 1000000;
    return TIDE_OK;
}

static tide_status check_period(tide_tls_material *material, const char *path, tide_env *env,
                                tide_error *err)
{
    const int64_t now_us = env->wall_us(env);
    int64_t begins_us = 0;
    char when[TIDE_TIME_TEXT_SIZE];
    TIDE_TRY(get_time_us(&begins_us, X509_get0_notBefore(material->cert), path, err));
    TIDE_TRY(get_time_us(&material->expires_us, X509_get0_notAfter(material->cert), path, err));
    if (now_us >= material->expires_us) {
        TIDE_IGNORE(tide_time_format(material->expires_us, when));
        return tide_fail(err, TIDE_E_INVALID, "%s: the certificate expired on %.19s UTC", path,
                         when);
    }
    if (now_us < begins_us) {
        TIDE_IGNORE(tide_time_format(begins_us, when));
        return tide_fail(err, TIDE_E_INVALID,
                         "%s: the certificate is not valid before %.19s UTC; is the clock right?",
                         path, when);
    }
    return TIDE_OK;
}

static tide_status take_pair(tide_tls_material *out, const tide_tls_paths *paths,
                             const file_text *cert_text, const file_text *key_text, tide_env *env,
                             tide_error *err)
{
    const char *key_path = paths->key ? paths->key : paths->cert;
    TIDE_TRY(read_certificates(&out->chain, cert_text, paths->cert, TIDE_TLS_CHAIN_MAX + 1, err));
    out->cert = sk_X509_shift(out->chain);
    TIDE_TRY(read_key(&out->key, paths->key ? key_text : cert_text, key_path, err));
    ERR_clear_error();
    if (X509_check_private_key(out->cert, out->key) != 1) {
        ERR_clear_error();
        return tide_fail(err, TIDE_E_INVALID,
                         "%s: the key does not belong to the certificate in %s", key_path,
                         paths->cert);
    }
    return check_period(out, paths->cert, env, err);
}

static tide_status read_material(tide_tls_material *out, const tide_tls_paths *paths,
                                 tide_sha256 *sha, tide_env *env, tide_error *err)
{
    TIDE_CLEANUP(wipe) file_text cert = {.bytes = {.ptr = NULL}};
    TIDE_CLEANUP(wipe) file_text key = {.bytes = {.ptr = NULL}};
    TIDE_CLEANUP(wipe) file_text ca = {.bytes = {.ptr = NULL}};
    TIDE_TRY(tide_sha256_init(sha, err));
    TIDE_TRY(read_file(&cert, paths->cert, !paths->key, sha, err));
    TIDE_TRY(read_file(&key, paths->key, true, sha, err));
    TIDE_TRY(read_file(&ca, paths->ca, false, sha, err));
    TIDE_TRY(tide_sha256_finish(sha, out->digest, err));
    if (paths->cert)
        TIDE_TRY(take_pair(out, paths, &cert, &key, env, err));
    if (paths->ca)
        TIDE_TRY(read_certificates(&out->authorities, &ca, paths->ca, CA_MAX, err));
    return TIDE_OK;
}

tide_status tide_tls_material_read(tide_tls_material *out, const tide_tls_paths *paths,
                                   tide_env *env, tide_error *err)
{
    *out = (tide_tls_material){.expires_us = INT64_MAX};
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    return read_material(out, paths, &sha, env, err);
}

void tide_tls_material_done(tide_tls_material *material)
{
    X509_free(material->cert);
    sk_X509_pop_free(material->chain, X509_free);
    EVP_PKEY_free(material->key);
    sk_X509_pop_free(material->authorities, X509_free);
    *material = (tide_tls_material){.cert = NULL};
}
