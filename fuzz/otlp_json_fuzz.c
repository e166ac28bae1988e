/* otlp_json_fuzz.c - OTLP requests in JSON. See otlp_check.h. */
#include "otlp_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    check_request(data, len, TIDE_OTLP_JSON);
    return 0;
}
