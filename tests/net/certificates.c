#include "net/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/check.h"

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(1, X509_add_ext(cert, extension, -1));
    X509_EXTENSION_free(extension);
}

static X509 *begin_cert(certificates *c, EVP_PKEY *key, const char *common_name)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    assert_int_equal(1, X509_set_version(cert, 2));
    assert_int_equal(1, ASN1_INTEGER_set(X509_get_serialNumber(cert), ++c->serial));
    assert_int_equal(1, X509_set_pubkey(cert, key));
    X509_NAME *subject = X509_get_subject_name(cert);
    if (common_name)
        assert_int_equal(1,
                         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                                    (const unsigned char *)common_name, -1, -1, 0));
    else
        assert_int_equal(1, X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8,
                                                       (const unsigned char *)"Tests", -1, -1, 0));
    return cert;
}

static void set_period(X509 *cert, int64_t from_s, int64_t to_s)
{
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), (long)(from_s ? from_s : -3600)));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), (long)(to_s ? to_s : 86400)));
}

static void write_cert(const certificates *c, const char *name, X509 *cert)
{
    char file[128];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(file, sizeof file, "%s.pem", name);
    tempdir_join(c->dir, file, path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(0, fchmod(fileno(out), 0600));
    assert_int_equal(1, PEM_write_X509(out, cert));
    assert_int_equal(0, fclose(out));
}

static void write_key(const certificates *c, const char *name, EVP_PKEY *key,
                      const char *passphrase)
{
    char file[128];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(file, sizeof file, "%s.key", name);
    tempdir_join(c->dir, file, path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(0, fchmod(fileno(out), 0600));
    assert_int_equal(1, PEM_write_PrivateKey(out, key, passphrase ? EVP_aes_128_cbc() : NULL,
                                             (const unsigned char *)passphrase,
                                             passphrase ? (int)strlen(passphrase) : 0, NULL, NULL));
    assert_int_equal(0, fclose(out));
}

static X509 *make_authority(certificates *c, EVP_PKEY *key, const char *name)
{
    X509 *ca = begin_cert(c, key, name);
    set_period(ca, 0, 0);
    assert_int_equal(1, X509_set_issuer_name(ca, X509_get_subject_name(ca)));
    add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(ca, ca, NID_subject_key_identifier, "hash");
    assert_true(X509_sign(ca, key, EVP_sha256()) > 0);
    return ca;
}

void certificates_init(certificates *c, const tempdir *dir)
{
    *c = (certificates){.dir = dir, .serial = 100};
    c->ca_key = make_key();
    c->ca = make_authority(c, c->ca_key, "Test Authority");
    write_cert(c, "ca", c->ca);
}

void certificates_done(certificates *c)
{
    X509_free(c->ca);
    EVP_PKEY_free(c->ca_key);
}

void certificates_make(certificates *c, const char *name, const certificate_spec *spec)
{
    char names[512];
    EVP_PKEY *key = make_key();
    X509 *cert = begin_cert(c, key, spec->common_name);
    X509 *issuer = spec->is_self_signed ? cert : c->ca;
    set_period(cert, spec->from_s, spec->to_s);
    assert_int_equal(1, X509_set_issuer_name(cert, X509_get_subject_name(issuer)));
    (void)snprintf(names, sizeof names, "%s%s%s%s%s", spec->dns ? "DNS:" : "",
                   spec->dns ? spec->dns : "", spec->dns && spec->ip ? "," : "",
                   spec->ip ? "IP:" : "", spec->ip ? spec->ip : "");
    if (names[0])
        add_extension(cert, issuer, NID_subject_alt_name, names);
    if (spec->is_for_servers_only)
        add_extension(cert, issuer, NID_ext_key_usage, "serverAuth");
    assert_true(X509_sign(cert, spec->is_self_signed ? key : c->ca_key, EVP_sha256()) > 0);
    write_cert(c, name, cert);
    write_key(c, name, key, spec->passphrase);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void certificates_stranger(certificates *c, const char *name)
{
    EVP_PKEY *key = make_key();
    X509 *ca = make_authority(c, key, "Another Authority");
    write_cert(c, name, ca);
    X509_free(ca);
    EVP_PKEY_free(key);
}
