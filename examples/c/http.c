#include "http.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

enum { TRIES = 8, URL_SIZE = 1024, TIMEOUT_S = 70, SERVER_ERROR = 500 };

static char reason[64];
static char message[512];

const char *http_reason(void)
{
    return reason;
}

const char *http_message(void)
{
    return message;
}

const char *http_text(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text ? text : "";
}

long long http_number(const json_t *object, const char *member)
{
    return json_integer_value(json_object_get(object, member));
}

void http_give_up(void)
{
    (void)fprintf(stderr, "%s: %s\n", reason, message);
    exit(EXIT_FAILURE);
}

static void fail(const char *why, const char *words)
{
    (void)snprintf(reason, sizeof reason, "%s", why);
    (void)snprintf(message, sizeof message, "%s", words);
}

/* {"code":9,"message":"...","details":[{"@type":".../google.rpc.ErrorInfo","reason":"LEASE_LOST",...}]} */
static void read_refusal(const json_t *body, long code)
{
    size_t i;
    json_t *detail;
    fail(code >= SERVER_ERROR ? "UNAVAILABLE" : "REFUSED", http_text(body, "message"));
    json_array_foreach(json_object_get(body, "details"), i, detail)
    {
        if (*http_text(detail, "reason"))
            (void)snprintf(reason, sizeof reason, "%s", http_text(detail, "reason"));
    }
}

/* Passing trouble, and "it may have happened": both end by asking the same again. */
static bool may_repeat(void)
{
    static const char *const reasons[] = {"UNAVAILABLE",   "BUSY", "TIMEOUT", "OUTCOME_UNKNOWN",
                                          "SERIALIZATION", "FULL", "NOMEM"};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(reason, reasons[i]) == 0)
            return true;
    return false;
}

/* Longer each time, and never in step with other clients. */
static void wait_before(int attempt)
{
    const long ms = (25L << attempt) + random() % (25L << attempt);
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static json_t *call_once(CURL *curl, FILE *answer, char **bytes)
{
    long code = 0;
    json_error_t error;
    rewind(answer);
    const CURLcode sent = curl_easy_perform(curl);
    if (sent != CURLE_OK) { /* refused, cut off, timed out: nobody knows whether it was done */
        fail("UNAVAILABLE", curl_easy_strerror(sent));
        return NULL;
    }
    (void)fputc('\0', answer);
    (void)fflush(answer);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    json_t *body = json_loads(*bytes, 0, &error);
    if (code == 200 && body)
        return body;
    read_refusal(body, body ? code : SERVER_ERROR); /* a proxy's page is no answer of ours */
    json_decref(body);
    return NULL;
}

json_t *http_call(const char *url, const char *path, json_t *request)
{
    static CURL *curl; /* one connection for all calls */
    char where[URL_SIZE];
    char *bytes = NULL;
    size_t len = 0;
    json_t *body = NULL;
    if (!curl)
        curl = curl_easy_init();
    char *text = json_dumps(request, JSON_COMPACT);
    FILE *answer = open_memstream(&bytes, &len);
    struct curl_slist *headers = curl_slist_append(NULL, "content-type: application/json");
    if (!curl || !text || !answer || !headers)
        abort();
    (void)snprintf(where, sizeof where, "%s/%s", url, path);
    (void)curl_easy_setopt(curl, CURLOPT_URL, where);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer); /* written with fwrite */
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    for (int attempt = 1; attempt <= TRIES && !body; attempt++) {
        body = call_once(curl, answer, &bytes);
        if (!body && !may_repeat())
            break;
        if (!body && attempt < TRIES)
            wait_before(attempt);
    }
    curl_slist_free_all(headers);
    (void)fclose(answer);
    free(bytes);
    free(text);
    json_decref(request);
    return body;
}
