/* check_cert.c - tidemark check cert: how long a certificate lasts, of a file or of a service. */
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/machine/check.h"
#include "net/client/curl_api.h"

enum { FILE_MAX = 1 << 20, NAME_MAX_LEN = 200, TIMEOUT_S = 10 };

#define DAY_US INT64_C(86400000000)

typedef struct found {
    int count;
    int64_t ends_us; /* the first that does */
    int64_t begins_us;
    char name[NAME_MAX_LEN]; /* whose it is */
} found;

static int64_t time_of(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) * 1000000 : 0;
}

static void add_certificate(found *f, X509 *certificate)
{
    const int64_t ends_us = time_of(X509_get0_notAfter(certificate));
    if (f->count++ > 0 && ends_us >= f->ends_us)
        return;
    f->ends_us = ends_us;
    f->begins_us = time_of(X509_get0_notBefore(certificate));
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, f->name,
                                  sizeof f->name) <= 0)
        (void)snprintf(f->name, sizeof f->name, "a certificate without a name");
}

/* Every certificate in a PEM text. */
static void add_text(found *f, tide_view text)
{
    BIO *bio = BIO_new_mem_buf(text.ptr, (int)text.len);
    for (X509 *certificate = NULL;
         bio && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL;) {
        add_certificate(f, certificate);
        X509_free(certificate);
    }
    BIO_free(bio);
}

static tide_status look_at_file(found *f, const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(FILE_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    add_text(f, tide_buffer_view(&text));
    explicit_bzero(text.ptr, text.len); /* a key may stand beside it */
    return f->count > 0 ? TIDE_OK
                        : tide_fail(err, TIDE_E_INVALID, "%s holds no certificate (PEM)", path);
}

/* ---- a service ---- */

static void add_chain(found *f, const struct curl_certinfo *chain)
{
    static const char key[] = "Cert:";
    for (int i = 0; i < chain->num_of_certs; i++)
        for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
            if (strncmp(line->data, key, sizeof key - 1) == 0)
                add_text(f, tide_view_of(line->data + sizeof key - 1));
}

/* Who it is does not matter here, and nothing is sent: a certificate that has ended is to be seen, too. */
static void prepare(CURL *handle, const tide_cli *cli, const char *url)
{
    const char *cert = tide_cli_text(cli, TIDE_CLI_SERVICE_CERT);
    const char *key = tide_cli_text(cli, TIDE_CLI_SERVICE_KEY);
    (void)curl_easy_setopt(handle, CURLOPT_URL, url);
    (void)curl_easy_setopt(handle, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(handle, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_CERTINFO, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLCERT, cert);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLKEY, key ? key : cert);
}

static tide_status look_at_service(found *f, const tide_cli *cli, const char *address,
                                   tide_error *err)
{
    static const char https[] = "https://";
    char url[1024];
    char words[CURL_ERROR_SIZE] = "";
    const bool has_scheme = strncmp(address, https, sizeof https - 1) == 0;
    if (!has_scheme && (strstr(address, "://") || strncmp(address, "unix:", 5) == 0))
        return tide_fail(err, TIDE_E_INVALID, "%s speaks no TLS: it has no certificate", address);
    (void)snprintf(url, sizeof url, "%s%s/", has_scheme ? "" : https, address);
    CURL *handle = curl_easy_init();
    TIDE_NEED_MEMORY(handle, err);
    prepare(handle, cli, url);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, words);
    const CURLcode code = curl_easy_perform(handle);
    struct curl_certinfo *chain = NULL;
    if (code == CURLE_OK && curl_easy_getinfo(handle, CURLINFO_CERTINFO, &chain) == CURLE_OK &&
        chain)
        add_chain(f, chain);
    curl_easy_cleanup(handle);
    if (code != CURLE_OK)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%s: %s", address,
                         words[0] ? words : curl_easy_strerror(code));
    return f->count > 0 ? TIDE_OK
                        : tide_fail(err, TIDE_E_UNAVAILABLE, "%s showed no certificate", address);
}

/* A file if there is one of this name, or if it cannot be an address. */
static bool is_file(const char *target)
{
    return strncmp(target, "https://", 8) != 0 &&
           (access(target, F_OK) == 0 || !strchr(target, ':') || strchr(target, '/'));
}

tide_status tide_check_cert(tide_check *check, tide_error *err)
{
    int64_t warning_us = 0;
    int64_t critical_us = 0;
    found f = {.count = 0};
    const tide_cli *cli = check->cli;
    const char *target = cli->arg_count > 0 ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_ADDRESS);
    TIDE_TRY(tide_check_durations(cli, true, &warning_us, &critical_us, err));
    if (!target)
        return tide_fail(err, TIDE_E_INVALID, "name a PEM file or the HOST:PORT of a service");
    const bool is_from_file = cli->arg_count > 0 && is_file(target);
    TIDE_TRY(is_from_file ? look_at_file(&f, target, err) : look_at_service(&f, cli, target, err));
    const int64_t now_us = check->env->wall_us(check->env);
    const int64_t left_us = f.ends_us - now_us;
    const int64_t left_s = left_us / 1000000;
    tide_check_falling(check, "left", "s", (double)left_s, (double)warning_us / 1e6,
                       (double)critical_us / 1e6);
    if (f.begins_us > now_us)
        tide_check_raise(check, TIDE_CHECK_CRITICAL);
    if (f.begins_us > now_us)
        tide_check_say(check, "%s is not valid before %lld days from now", f.name,
                       (long long)((f.begins_us - now_us) / DAY_US));
    else if (left_us <= 0)
        tide_check_say(check, "%s ended %lld days ago", f.name, (long long)(-left_us / DAY_US));
    else
        tide_check_say(check, "%s ends in %lld days", f.name, (long long)(left_us / DAY_US));
    return TIDE_OK;
}
