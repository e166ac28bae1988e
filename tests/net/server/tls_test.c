/* TLS: what is read, what is refused, who is let in, and how files are exchanged while connections live. */
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/certificates.h"
#include "net/server/tls.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"

enum { ROUNDS_MAX = 20 };

typedef struct tls_test {
    tempdir dir;
    certificates certs;
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char ca[TEMPDIR_PATH_MAX];
    tide_error err;
} tls_test;

static void name_file(const tls_test *t, const char *name, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(&t->dir, name, out);
}

static int setup(void **state)
{
    tls_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    certificates_init(&t->certs, &t->dir);
    certificates_make(&t->certs, "server",
                      &(certificate_spec){.dns = "localhost", .ip = "127.0.0.1"});
    name_file(t, "server.pem", t->cert);
    name_file(t, "server.key", t->key);
    name_file(t, "ca.pem", t->ca);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    tls_test *t = *state;
    certificates_done(&t->certs);
    (void)tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

static void write_file(const tls_test *t, const char *name, const char *text)
{
    char path[TEMPDIR_PATH_MAX];
    name_file(t, name, path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(0, fchmod(fileno(out), 0600));
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(0, fclose(out));
}

static tide_tls *open_server(tls_test *t, tide_tls_verify verify)
{
    tide_tls *tls = NULL;
    const tide_tls_options options = {.cert_file = t->cert,
                                      .key_file = t->key,
                                      .ca_file = verify == TIDE_TLS_VERIFY_NONE ? NULL : t->ca,
                                      .verify = verify};
    assert_ok_err(tide_tls_open_server(&tls, &options, &t->err), &t->err);
    return tls;
}

/* A client with a certificate of this name, or with none. */
static tide_tls *open_client(tls_test *t, const char *name)
{
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char file[64];
    tide_tls *tls = NULL;
    (void)snprintf(file, sizeof file, "%s.pem", name ? name : "");
    name_file(t, file, cert);
    (void)snprintf(file, sizeof file, "%s.key", name ? name : "");
    name_file(t, file, key);
    const tide_tls_options options = {
        .cert_file = name ? cert : NULL, .key_file = name ? key : NULL, .ca_file = t->ca};
    assert_ok_err(tide_tls_open_client(&tls, &options, &t->err), &t->err);
    return tls;
}

/* Two ends that talk through memory. */
typedef struct pair {
    SSL *server;
    SSL *client;
    char reason[256]; /* of the side that failed first */
} pair;

static void join(pair *p)
{
    BIO *a = NULL;
    BIO *b = NULL;
    assert_int_equal(1, BIO_new_bio_pair(&a, 0, &b, 0));
    SSL_set_bio(p->server, a, a);
    SSL_set_bio(p->client, b, b);
}

static bool is_stuck(SSL *ssl, int result)
{
    const int why = SSL_get_error(ssl, result);
    return why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
}

/* TLS 1.3 lets a client finish before the server has looked at its certificate: one read shows how it ended. */
static bool shake_hands(pair *p)
{
    char byte = 0;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        SSL *const ends[] = {p->client, p->server};
        for (int side = 0; side < 2; side++) {
            ERR_clear_error();
            const int result = SSL_do_handshake(ends[side]);
            if (result == 1 || !is_stuck(ends[side], result))
                continue;
            tide_tls_reason(p->reason, sizeof p->reason, ends[side]);
            return false;
        }
        if (SSL_is_init_finished(p->client) && SSL_is_init_finished(p->server)) {
            const int result = SSL_read(p->client, &byte, 1);
            return result > 0 || !is_stuck(p->client, result);
        }
    }
    return false;
}

static pair connect_pair(tls_test *t, tide_tls *server, tide_tls *client, const char *host)
{
    pair p = {.reason = ""};
    assert_ok_err(tide_tls_connection(&p.server, server, NULL, &t->err), &t->err);
    assert_ok_err(tide_tls_connection(&p.client, client, host, &t->err), &t->err);
    join(&p);
    return p;
}

static void part(pair *p)
{
    SSL_free(p->server);
    SSL_free(p->client);
}

/* ---- connections ---- */

static void a_client_that_trusts_the_authority_is_served_over_h2(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    for (size_t i = 0; i < 2; i++) {
        pair p = connect_pair(t, server, client, hosts[i]);
        assert_true(shake_hands(&p));
        assert_true(tide_tls_is_h2(p.server));
        assert_true(tide_tls_is_h2(p.client));
        assert_string_equal("TLSv1.3", SSL_get_version(p.client));
        char name[TIDE_TLS_NAME_MAX + 1];
        assert_status(TIDE_NONE, tide_tls_peer_name(p.server, name, &t->err));
        part(&p);
    }
}

static void a_server_by_another_name_is_refused(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    pair p = connect_pair(t, server, client, "elsewhere.example");
    assert_false(shake_hands(&p));
    assert_contains(p.reason, "ostname mismatch");
    part(&p);
    p = connect_pair(t, server, client, "127.0.0.2");
    assert_false(shake_hands(&p));
    part(&p);
    SSL *none = NULL;
    assert_status(TIDE_E_INVALID, tide_tls_connection(&none, client, "", &t->err));
}

static void a_server_of_another_authority_is_refused(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    certificates_stranger(&t->certs, "stranger");
    name_file(t, "stranger.pem", t->ca);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    pair p = connect_pair(t, server, client, "localhost");
    assert_false(shake_hands(&p));
    assert_contains(p.reason, "certificate verify failed");
    part(&p);
}

/* Nothing below TLS 1.2, no cipher without forward secrecy. */
static void old_protocols_and_ciphers_are_not_spoken(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    pair p = connect_pair(t, server, client, "localhost");
    assert_int_equal(1, SSL_set_max_proto_version(p.client, TLS1_2_VERSION));
    assert_true(shake_hands(&p));
    assert_string_equal("TLSv1.2", SSL_get_version(p.server));
    assert_non_null(strstr(SSL_get_cipher_name(p.server), "ECDHE-"));
    part(&p);
    p = connect_pair(t, server, client, "localhost");
    SSL_set_security_level(p.client, 0);
    assert_int_equal(1, SSL_set_min_proto_version(p.client, TLS1_VERSION));
    assert_int_equal(1, SSL_set_max_proto_version(p.client, TLS1_1_VERSION));
    assert_false(shake_hands(&p));
    part(&p);
    p = connect_pair(t, server, client, "localhost");
    assert_int_equal(1, SSL_set_max_proto_version(p.client, TLS1_2_VERSION));
    assert_int_equal(1, SSL_set_cipher_list(p.client, "ECDHE-ECDSA-AES128-SHA256"));
    assert_false(shake_hands(&p));
    part(&p);
}

static void what_is_offered_by_alpn_decides(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    pair p = connect_pair(t, server, client, "localhost");
    assert_int_equal(0, SSL_set_alpn_protos(p.client, (const unsigned char *)"\x08http/1.1", 9));
    assert_true(shake_hands(&p));
    assert_false(tide_tls_is_h2(p.server));
    part(&p);
    p = connect_pair(t, server, client, "localhost");
    assert_int_equal(0, SSL_set_alpn_protos(p.client, (const unsigned char *)"\x04spdy", 5));
    assert_false(shake_hands(&p));
    part(&p);
    p = connect_pair(t, server, client, "localhost");
    assert_int_equal(0, SSL_set_alpn_protos(p.client, NULL, 0));
    assert_true(shake_hands(&p));
    assert_false(tide_tls_is_h2(p.server));
    part(&p);
}

/* A session that could be taken up again would carry a client past a revoked certificate. */
static void sessions_are_not_resumed(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        pair p = connect_pair(t, server, client, "localhost");
        assert_int_equal(1, SSL_set_max_proto_version(p.client, versions[i]));
        assert_true(shake_hands(&p));
        SSL_SESSION *session = SSL_get1_session(p.client);
        part(&p);
        p = connect_pair(t, server, client, "localhost");
        assert_int_equal(1, SSL_set_max_proto_version(p.client, versions[i]));
        assert_int_equal(1, SSL_set_session(p.client, session));
        assert_true(shake_hands(&p));
        assert_int_equal(0, SSL_session_reused(p.server));
        SSL_SESSION_free(session);
        part(&p);
    }
}

/* ---- mutual TLS ---- */

static void the_name_is_the_first_dns_name_else_the_common_name(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_REQUIRED);
    const struct {
        certificate_spec spec;
        const char *name; /* NULL: refused */
    } rows[] = {
        {{.common_name = "common", .dns = "agent-1.example,DNS:second"}, "agent-1.example"},
        {{.common_name = "agent-2"}, "agent-2"},
        {{.common_name = "agent-3", .ip = "10.0.0.1"}, "agent-3"},
        {{.common_name = "two words"}, NULL},
        {{.common_name = "agent", .dns = "*.example"}, NULL},
        {{.ip = "10.0.0.1"}, NULL},
        {{.common_name = "\xc3\xa4gent"}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        certificates_make(&t->certs, "client", &rows[i].spec);
        TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, "client");
        pair p = connect_pair(t, server, client, "localhost");
        assert_true(shake_hands(&p));
        char name[TIDE_TLS_NAME_MAX + 1] = "";
        assert_status(rows[i].name ? TIDE_OK : TIDE_E_INVALID,
                      tide_tls_peer_name(p.server, name, &t->err));
        if (rows[i].name)
            assert_string_equal(rows[i].name, name);
        part(&p);
    }
}

static void a_required_certificate_must_be_shown_and_good(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_REQUIRED);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *bare = open_client(t, NULL);
    pair p = connect_pair(t, server, bare, "localhost");
    assert_false(shake_hands(&p));
    assert_contains(p.reason, "peer did not return a certificate");
    part(&p);
    certificates_make(&t->certs, "self",
                      &(certificate_spec){.dns = "agent-1", .is_self_signed = true});
    TIDE_CLEANUP(tide_tls_closep) tide_tls *self = open_client(t, "self");
    p = connect_pair(t, server, self, "localhost");
    assert_false(shake_hands(&p));
    assert_contains(p.reason, "self-signed");
    part(&p);
    certificates_make(&t->certs, "servers",
                      &(certificate_spec){.dns = "agent-1", .is_for_servers_only = true});
    TIDE_CLEANUP(tide_tls_closep) tide_tls *wrong_use = open_client(t, "servers");
    p = connect_pair(t, server, wrong_use, "localhost");
    assert_false(shake_hands(&p));
    part(&p);
}

static void an_optional_certificate_may_be_left_out_but_not_be_bad(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_OPTIONAL);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *bare = open_client(t, NULL);
    char name[TIDE_TLS_NAME_MAX + 1];
    pair p = connect_pair(t, server, bare, "localhost");
    assert_true(shake_hands(&p));
    assert_status(TIDE_NONE, tide_tls_peer_name(p.server, name, &t->err));
    part(&p);
    certificates_make(&t->certs, "self",
                      &(certificate_spec){.dns = "agent-1", .is_self_signed = true});
    TIDE_CLEANUP(tide_tls_closep) tide_tls *self = open_client(t, "self");
    p = connect_pair(t, server, self, "localhost");
    assert_false(shake_hands(&p));
    part(&p);
}

/* ---- files ---- */

static void refuse(tls_test *t, tide_status status, const char *cert, const char *key,
                   const char *part_of_words)
{
    tide_tls *tls = NULL;
    const tide_tls_options options = {.cert_file = cert, .key_file = key};
    assert_status_err(status, tide_tls_open_server(&tls, &options, &t->err), &t->err);
    assert_contains(t->err.text, part_of_words);
    assert_null(tls);
}

/* Each says which file, and what is wrong with it. */
static void bad_files_are_named(void **state)
{
    tls_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    name_file(t, "missing.pem", path);
    refuse(t, TIDE_E_NOT_FOUND, path, t->key, "missing.pem: No such file");
    refuse(t, TIDE_E_INVALID, t->dir.path, t->key, "Is a directory");
    write_file(t, "empty.pem", "");
    name_file(t, "empty.pem", path);
    refuse(t, TIDE_E_INVALID, path, t->key, "empty.pem: holds no certificate");
    refuse(t, TIDE_E_INVALID, t->cert, path, "empty.pem: holds no private key");
    refuse(t, TIDE_E_INVALID, t->key, t->key, "server.key: holds no certificate");
    refuse(t, TIDE_E_INVALID, t->cert, t->cert, "server.pem: holds no private key");
    write_file(t, "broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    name_file(t, "broken.pem", path);
    refuse(t, TIDE_E_INVALID, path, t->key, "broken.pem: has a broken certificate");
    write_file(t, "broken.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    name_file(t, "broken.key", path);
    refuse(t, TIDE_E_INVALID, t->cert, path, "broken.key: has a broken private key");
    certificates_make(&t->certs, "locked",
                      &(certificate_spec){.dns = "localhost", .passphrase = "secret"});
    char cert[TEMPDIR_PATH_MAX];
    name_file(t, "locked.pem", cert);
    name_file(t, "locked.key", path);
    refuse(t, TIDE_E_INVALID, cert, path, "locked.key: the key has a passphrase");
}

static void a_key_of_another_certificate_is_refused(void **state)
{
    tls_test *t = *state;
    char other[TEMPDIR_PATH_MAX];
    certificates_make(&t->certs, "other", &(certificate_spec){.dns = "other"});
    name_file(t, "other.key", other);
    refuse(t, TIDE_E_INVALID, t->cert, other, "does not belong to the certificate");
}

static void certificates_out_of_their_time_are_refused(void **state)
{
    tls_test *t = *state;
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    certificates_make(&t->certs, "old",
                      &(certificate_spec){.dns = "localhost", .from_s = -7200, .to_s = -60});
    name_file(t, "old.pem", cert);
    name_file(t, "old.key", key);
    refuse(t, TIDE_E_INVALID, cert, key, "old.pem: the certificate expired on ");
    certificates_make(&t->certs, "new",
                      &(certificate_spec){.dns = "localhost", .from_s = 600, .to_s = 7200});
    name_file(t, "new.pem", cert);
    name_file(t, "new.key", key);
    refuse(t, TIDE_E_INVALID, cert, key, "is not valid before");
}

static void options_that_do_not_fit_together_are_refused(void **state)
{
    tls_test *t = *state;
    tide_tls *tls = NULL;
    tide_tls_options options = {.cert_file = NULL};
    assert_status(TIDE_E_INVALID, tide_tls_open_server(&tls, &options, &t->err));
    options = (tide_tls_options){
        .cert_file = t->cert, .key_file = t->key, .verify = TIDE_TLS_VERIFY_REQUIRED};
    assert_status(TIDE_E_INVALID, tide_tls_open_server(&tls, &options, &t->err));
    assert_contains(t->err.text, "authority");
    options = (tide_tls_options){.key_file = t->key};
    assert_status(TIDE_E_INVALID, tide_tls_open_client(&tls, &options, &t->err));
}

/* ---- reload ---- */

static void new_files_count_for_new_connections(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    const int64_t before_us = tide_tls_expires_us(server);
    assert_status(TIDE_NONE, tide_tls_reload(server, &t->err));
    pair old = connect_pair(t, server, client, "localhost");
    certificates_make(&t->certs, "server",
                      &(certificate_spec){.dns = "renewed", .to_s = 2 * 86400});
    assert_ok_err(tide_tls_reload(server, &t->err), &t->err);
    assert_true(tide_tls_expires_us(server) > before_us);
    assert_true(shake_hands(&old)); /* with what it began with */
    part(&old);
    pair p = connect_pair(t, server, client, "renewed");
    assert_true(shake_hands(&p));
    part(&p);
}

/* Whoever renews writes two files, one after the other; a reload in between must do no harm. */
static void bad_new_files_leave_the_old_ones_in_force(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    char other[TEMPDIR_PATH_MAX];
    certificates_make(&t->certs, "other", &(certificate_spec){.dns = "localhost"});
    name_file(t, "other.pem", other);
    assert_int_equal(0, rename(other, t->cert));
    assert_status(TIDE_E_INVALID, tide_tls_reload(server, &t->err));
    assert_contains(t->err.text, "server.key: the key does not belong");
    pair p = connect_pair(t, server, client, "localhost");
    assert_true(shake_hands(&p));
    part(&p);
    name_file(t, "other.key", other);
    assert_int_equal(0, rename(other, t->key));
    assert_ok_err(tide_tls_reload(server, &t->err), &t->err);
    assert_int_equal(0, unlink(t->cert));
    assert_status(TIDE_E_NOT_FOUND, tide_tls_reload(server, &t->err));
    p = connect_pair(t, server, client, "localhost");
    assert_true(shake_hands(&p));
    part(&p);
}

static void *reload_often(void *arg)
{
    for (int i = 0; i < 50; i++)
        TIDE_IGNORE(tide_tls_reload(arg, NULL));
    return NULL;
}

static void connections_are_made_while_files_are_exchanged(void **state)
{
    tls_test *t = *state;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *server = open_server(t, TIDE_TLS_VERIFY_NONE);
    TIDE_CLEANUP(tide_tls_closep) tide_tls *client = open_client(t, NULL);
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, reload_often, server));
    for (int i = 0; i < 20; i++) {
        certificates_make(&t->certs, "server", &(certificate_spec){.dns = "localhost"});
        pair p = connect_pair(t, server, client, "localhost");
        assert_true(shake_hands(&p));
        part(&p);
    }
    assert_int_equal(0, pthread_join(thread, NULL));
}

#define TLS_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        TLS_CASE(a_client_that_trusts_the_authority_is_served_over_h2),
        TLS_CASE(a_server_by_another_name_is_refused),
        TLS_CASE(a_server_of_another_authority_is_refused),
        TLS_CASE(old_protocols_and_ciphers_are_not_spoken),
        TLS_CASE(what_is_offered_by_alpn_decides),
        TLS_CASE(sessions_are_not_resumed),
        TLS_CASE(the_name_is_the_first_dns_name_else_the_common_name),
        TLS_CASE(a_required_certificate_must_be_shown_and_good),
        TLS_CASE(an_optional_certificate_may_be_left_out_but_not_be_bad),
        TLS_CASE(bad_files_are_named),
        TLS_CASE(a_key_of_another_certificate_is_refused),
        TLS_CASE(certificates_out_of_their_time_are_refused),
        TLS_CASE(options_that_do_not_fit_together_are_refused),
        TLS_CASE(new_files_count_for_new_connections),
        TLS_CASE(bad_new_files_leave_the_old_ones_in_force),
        TLS_CASE(connections_are_made_while_files_are_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
