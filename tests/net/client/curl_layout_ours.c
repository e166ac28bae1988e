#include "net/client/curl_layout.h"

#include "net/client/curl_api.h"

const size_t curl_layout_ours[CURL_LAYOUT_COUNT] = CURL_LAYOUT;
