/* check_ready.c - tidemark check ready: does a service answer GET /readyz with 200? */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/machine/check.h"
#include "net/client/curl_api.h"

enum { TIMEOUT_S = 10, HTTP_OK = 200, HTTP_UNAVAILABLE = 503 };

static size_t drop(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * count;
}

/* The probe sends no credentials, so the service's certificate is checked only against an authority
 * that is given: a service that listens on 127.0.0.1 seldom has a certificate for that. */
static void prepare(CURL *handle, const tide_cli *cli, const char *address)
{
    static const char local[] = "unix:";
    const char *ca = tide_cli_text(cli, TIDE_CLI_SERVICE_CA);
    const char *cert = tide_cli_text(cli, TIDE_CLI_SERVICE_CERT);
    const char *key = tide_cli_text(cli, TIDE_CLI_SERVICE_KEY);
    char url[1024];
    if (strncmp(address, local, sizeof local - 1) == 0) {
        (void)curl_easy_setopt(handle, CURLOPT_UNIX_SOCKET_PATH, address + sizeof local - 1);
        (void)snprintf(url, sizeof url, "http://localhost/readyz");
    } else {
        const char *scheme = strstr(address, "://") ? "" : ca || cert ? "https://" : "http://";
        (void)snprintf(url, sizeof url, "%s%s/readyz", scheme, address);
    }
    (void)curl_easy_setopt(handle, CURLOPT_URL, url); /* copied */
    (void)curl_easy_setopt(handle, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    (void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, drop);
    if (ca)
        (void)curl_easy_setopt(handle, CURLOPT_CAINFO, ca);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, ca ? 1L : 0L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, ca ? 2L : 0L);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLCERT, cert);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLKEY, key ? key : cert);
}

tide_status tide_check_ready(tide_check *check, tide_error *err)
{
    const tide_cli *cli = check->cli;
    const char *address = cli->arg_count > 0 ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_ADDRESS);
    if (!address)
        return tide_fail(err, TIDE_E_INVALID, "no service given; name its HOST:PORT");
    CURL *handle = curl_easy_init();
    TIDE_NEED_MEMORY(handle, err);
    char words[CURL_ERROR_SIZE] = "";
    long answer = 0;
    double seconds = 0;
    prepare(handle, cli, address);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, words);
    const CURLcode code = curl_easy_perform(handle);
    (void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer);
    (void)curl_easy_getinfo(handle, CURLINFO_TOTAL_TIME, &seconds);
    curl_easy_cleanup(handle);
    if (code != CURLE_OK || answer != HTTP_OK)
        tide_check_raise(check, TIDE_CHECK_CRITICAL);
    if (code != CURLE_OK)
        tide_check_say(check, "%s: %s", address, words[0] ? words : curl_easy_strerror(code));
    else if (answer == HTTP_OK)
        tide_check_say(check, "%s is ready", address);
    else if (answer == HTTP_UNAVAILABLE)
        tide_check_say(check, "%s is not ready", address);
    else
        tide_check_say(check, "%s answers /readyz with %ld", address, answer);
    tide_check_figure_only(check, "time", "s", seconds);
    return TIDE_OK;
}
