/* curl_layout.h - sizes and offsets of libcurl's structs, computed by two files: one includes
 * net/client/curl_api.h, the other curl's own header. curl_api_test.c compares the results. */
#pragma once

#include <stddef.h>

enum { CURL_LAYOUT_COUNT = 21 };

extern const size_t curl_layout_ours[CURL_LAYOUT_COUNT];
extern const size_t curl_layout_theirs[CURL_LAYOUT_COUNT];

#define CURL_LAYOUT                                                                                \
    {                                                                                              \
        sizeof(CURLcode), sizeof(CURLoption), sizeof(CURLMoption), sizeof(CURLINFO),               \
            sizeof(CURLMcode), sizeof(curlsocktype), sizeof(curl_socket_t), sizeof(curl_off_t),    \
            sizeof(CURLMsg), offsetof(CURLMsg, easy_handle), offsetof(CURLMsg, data.result),       \
            sizeof(struct curl_slist), offsetof(struct curl_slist, next),                          \
            sizeof(struct curl_certinfo), offsetof(struct curl_certinfo, certinfo),                \
            sizeof(struct curl_sockaddr), offsetof(struct curl_sockaddr, socktype),                \
            offsetof(struct curl_sockaddr, protocol), offsetof(struct curl_sockaddr, addrlen),     \
            offsetof(struct curl_sockaddr, addr), offsetof(CURLMsg, msg),                          \
    }
