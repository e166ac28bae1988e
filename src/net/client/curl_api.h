/* curl_api.h - the part of libcurl's interface that we call, as tables.
 *
 * Debian 13's package of libcurl's header brings 24 others, of LDAP, Kerberos and the like, for
 * static links that we do not make. The program is linked with the shared library, libcurl.so.4,
 * which needs no header. tests/net/client/curl_api_test.c compares every row here with curl's own
 * header: constants, layouts of structs, and types of functions.
 *
 * libcurl keeps its interface compatible since 7.16; the newest row here is of 7.85. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define TIDE_CURL_CODES(X)                                                                         \
    X(CURLE_ABORTED_BY_CALLBACK, 42)                                                               \
    X(CURLE_HTTP2, 16)                                                                             \
    X(CURLE_HTTP2_STREAM, 92)                                                                      \
    X(CURLE_OK, 0)                                                                                 \
    X(CURLE_OPERATION_TIMEDOUT, 28)                                                                \
    X(CURLE_OUT_OF_MEMORY, 27)                                                                     \
    X(CURLE_PEER_FAILED_VERIFICATION, 60)                                                          \
    X(CURLE_SSL_CACERT_BADFILE, 77)                                                                \
    X(CURLE_SSL_CERTPROBLEM, 58)                                                                   \
    X(CURLE_SSL_INVALIDCERTSTATUS, 91)                                                             \
    X(CURLE_SSL_ISSUER_ERROR, 83)                                                                  \
    X(CURLE_SSL_PINNEDPUBKEYNOTMATCH, 90)

#define TIDE_CURL_OPTIONS(X)                                                                       \
    X(CURLOPT_ACCEPT_ENCODING, 10102)                                                              \
    X(CURLOPT_CAINFO, 10065)                                                                       \
    X(CURLOPT_CAPATH, 10097)                                                                       \
    X(CURLOPT_CERTINFO, 172)                                                                       \
    X(CURLOPT_CLOSESOCKETDATA, 10209)                                                              \
    X(CURLOPT_CLOSESOCKETFUNCTION, 20208)                                                          \
    X(CURLOPT_CONNECTTIMEOUT_MS, 156)                                                              \
    X(CURLOPT_CONNECT_ONLY, 141)                                                                   \
    X(CURLOPT_DNS_CACHE_TIMEOUT, 92)                                                               \
    X(CURLOPT_ERRORBUFFER, 10010)                                                                  \
    X(CURLOPT_FRESH_CONNECT, 74)                                                                   \
    X(CURLOPT_HEADERDATA, 10029)                                                                   \
    X(CURLOPT_HEADERFUNCTION, 20079)                                                               \
    X(CURLOPT_HTTPHEADER, 10023)                                                                   \
    X(CURLOPT_HTTP_VERSION, 84)                                                                    \
    X(CURLOPT_NOSIGNAL, 99)                                                                        \
    X(CURLOPT_OPENSOCKETDATA, 10164)                                                               \
    X(CURLOPT_OPENSOCKETFUNCTION, 20163)                                                           \
    X(CURLOPT_PATH_AS_IS, 234)                                                                     \
    X(CURLOPT_PIPEWAIT, 237)                                                                       \
    X(CURLOPT_POST, 47)                                                                            \
    X(CURLOPT_POSTFIELDS, 10015)                                                                   \
    X(CURLOPT_POSTFIELDSIZE_LARGE, 30120)                                                          \
    X(CURLOPT_PREREQDATA, 10313)                                                                   \
    X(CURLOPT_PREREQFUNCTION, 20312)                                                               \
    X(CURLOPT_PRIVATE, 10103)                                                                      \
    X(CURLOPT_PROTOCOLS_STR, 10318)                                                                \
    X(CURLOPT_PROXY, 10004)                                                                        \
    X(CURLOPT_READDATA, 10009)                                                                     \
    X(CURLOPT_READFUNCTION, 20012)                                                                 \
    X(CURLOPT_SSLCERT, 10025)                                                                      \
    X(CURLOPT_SSLKEY, 10087)                                                                       \
    X(CURLOPT_SSLVERSION, 32)                                                                      \
    X(CURLOPT_SSL_VERIFYHOST, 81)                                                                  \
    X(CURLOPT_SSL_VERIFYPEER, 64)                                                                  \
    X(CURLOPT_TCP_KEEPALIVE, 213)                                                                  \
    X(CURLOPT_TCP_KEEPIDLE, 214)                                                                   \
    X(CURLOPT_TCP_KEEPINTVL, 215)                                                                  \
    X(CURLOPT_TIMEOUT, 13)                                                                         \
    X(CURLOPT_TIMEOUT_MS, 155)                                                                     \
    X(CURLOPT_UNIX_SOCKET_PATH, 10231)                                                             \
    X(CURLOPT_UPLOAD_BUFFERSIZE, 280)                                                              \
    X(CURLOPT_URL, 10002)                                                                          \
    X(CURLOPT_USERAGENT, 10018)                                                                    \
    X(CURLOPT_WRITEDATA, 10001)                                                                    \
    X(CURLOPT_WRITEFUNCTION, 20011)

#define TIDE_CURL_MULTI_OPTIONS(X)                                                                 \
    X(CURLMOPT_MAXCONNECTS, 6)                                                                     \
    X(CURLMOPT_MAX_HOST_CONNECTIONS, 7)                                                            \
    X(CURLMOPT_PIPELINING, 3)                                                                      \
    X(CURLMOPT_SOCKETDATA, 10002)                                                                  \
    X(CURLMOPT_SOCKETFUNCTION, 20001)                                                              \
    X(CURLMOPT_TIMERDATA, 10005)                                                                   \
    X(CURLMOPT_TIMERFUNCTION, 20004)

#define TIDE_CURL_INFOS(X)                                                                         \
    X(CURLINFO_ACTIVESOCKET, 0x50002c)                                                             \
    X(CURLINFO_CERTINFO, 0x400022)                                                                 \
    X(CURLINFO_PRIVATE, 0x100015)                                                                  \
    X(CURLINFO_RESPONSE_CODE, 0x200002)                                                            \
    X(CURLINFO_SIZE_UPLOAD_T, 0x600007)                                                            \
    X(CURLINFO_TOTAL_TIME, 0x300003)

#define TIDE_CURL_CONSTANTS(X)                                                                     \
    X(CURLPAUSE_CONT, 0)                                                                           \
    X(CURLPIPE_MULTIPLEX, 2)                                                                       \
    X(CURL_CSELECT_IN, 1)                                                                          \
    X(CURL_CSELECT_OUT, 2)                                                                         \
    X(CURL_ERROR_SIZE, 256)                                                                        \
    X(CURL_GLOBAL_DEFAULT, 3)                                                                      \
    X(CURL_HTTP_VERSION_1_1, 2)                                                                    \
    X(CURL_HTTP_VERSION_2TLS, 4)                                                                   \
    X(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE, 5)                                                      \
    X(CURL_POLL_IN, 1)                                                                             \
    X(CURL_POLL_OUT, 2)                                                                            \
    X(CURL_POLL_REMOVE, 4)                                                                         \
    X(CURL_PREREQFUNC_ABORT, 1)                                                                    \
    X(CURL_PREREQFUNC_OK, 0)                                                                       \
    X(CURL_READFUNC_PAUSE, 0x10000001)                                                             \
    X(CURL_SOCKET_BAD, -1)                                                                         \
    X(CURL_SOCKET_TIMEOUT, -1)                                                                     \
    X(CURL_SSLVERSION_TLSv1_2, 6)                                                                  \
    X(CURL_WRITEFUNC_PAUSE, 0x10000001)

#define TIDE_CURL_MULTI_CODES(X) X(CURLM_OK, 0)

#define TIDE_CURL_MESSAGES(X) X(CURLMSG_DONE, 1)

/* result, name, parameters */
#define TIDE_CURL_FUNCTIONS(X)                                                                     \
    X(CURLcode, curl_global_init, (long flags))                                                    \
    X(CURL *, curl_easy_init, (void))                                                              \
    X(CURLcode, curl_easy_setopt, (CURL * easy, CURLoption option, ...))                           \
    X(CURLcode, curl_easy_getinfo, (CURL * easy, CURLINFO info, ...))                              \
    X(CURLcode, curl_easy_perform, (CURL * easy))                                                  \
    X(CURLcode, curl_easy_pause, (CURL * easy, int actions))                                       \
    X(const char *, curl_easy_strerror, (CURLcode code))                                           \
    X(void, curl_easy_cleanup, (CURL * easy))                                                      \
    X(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text))        \
    X(void, curl_slist_free_all, (struct curl_slist * list))                                       \
    X(CURLM *, curl_multi_init, (void))                                                            \
    X(CURLMcode, curl_multi_setopt, (CURLM * multi, CURLMoption option, ...))                      \
    X(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL * easy))                              \
    X(CURLMcode, curl_multi_remove_handle, (CURLM * multi, CURL * easy))                           \
    X(CURLMcode, curl_multi_assign, (CURLM * multi, curl_socket_t fd, void *arg))                  \
    X(CURLMcode, curl_multi_socket_action,                                                         \
      (CURLM * multi, curl_socket_t fd, int events, int *running_count))                           \
    X(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *left_count))                           \
    X(CURLMcode, curl_multi_cleanup, (CURLM * multi))

/* The test that includes curl's own header defines this. */
#ifndef TIDE_CURL_TYPES_ARE_DECLARED

#define TIDE_CURL_VALUE(name, value) name = (value),

typedef void CURL;
typedef void CURLM;
typedef int curl_socket_t;
typedef int64_t curl_off_t;

typedef enum { TIDE_CURL_CODES(TIDE_CURL_VALUE) } CURLcode;
typedef enum { TIDE_CURL_OPTIONS(TIDE_CURL_VALUE) } CURLoption;
typedef enum { TIDE_CURL_MULTI_OPTIONS(TIDE_CURL_VALUE) } CURLMoption;
typedef enum { TIDE_CURL_INFOS(TIDE_CURL_VALUE) } CURLINFO;
typedef enum { TIDE_CURL_MULTI_CODES(TIDE_CURL_VALUE) } CURLMcode;
typedef enum { TIDE_CURL_MESSAGES(TIDE_CURL_VALUE) } CURLMSG;
typedef enum { CURLSOCKTYPE_IPCXN = 0 } curlsocktype;
enum { TIDE_CURL_CONSTANTS(TIDE_CURL_VALUE) };

typedef struct CURLMsg {
    CURLMSG msg;
    CURL *easy_handle;
    union {
        void *whatever;
        CURLcode result;
    } data;
} CURLMsg;

struct curl_slist {
    char *data;
    struct curl_slist *next;
};

struct curl_certinfo {
    int num_of_certs;
    struct curl_slist **certinfo;
};

struct curl_sockaddr {
    int family;
    int socktype;
    int protocol;
    unsigned int addrlen;
    struct sockaddr addr;
};

#define TIDE_CURL_DECLARE(result, name, parameters) extern result name parameters;
TIDE_CURL_FUNCTIONS(TIDE_CURL_DECLARE)

/* An option's number shows what it takes: below 10000 a long, from 30000 a curl_off_t, between them
 * a pointer. An int in place of a long would be read with garbage in its upper half. */
#define TIDE_CURL_IS_INTEGER(value)                                                                \
    _Generic((value), _Bool : 1, char : 1, int : 1, unsigned : 1, long : 1, unsigned long : 1,     \
             default : 0)
#define TIDE_CURL_TAKES(option, value)                                                             \
    ((option) < 10000   ? _Generic((value), long : 1, default : 0)                                 \
     : (option) < 30000 ? !TIDE_CURL_IS_INTEGER(value)                                             \
                        : _Generic((value), curl_off_t : 1, default : 0))
#define TIDE_CURL_CHECK(option, value)                                                             \
    (void)sizeof(struct {                                                                          \
        _Static_assert(TIDE_CURL_TAKES(option, value), #option " takes another type");             \
        int unused;                                                                                \
    })
#define curl_easy_setopt(easy, option, value)                                                      \
    (TIDE_CURL_CHECK(option, value), (curl_easy_setopt)(easy, option, value))
#define curl_multi_setopt(multi, option, value)                                                    \
    (TIDE_CURL_CHECK(option, value), (curl_multi_setopt)(multi, option, value))

#endif
