/* Store URLs: parsed or refused, and a password is never shown. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    tide_store_url url;
    tide_error err;
    if (tide_store_url_parse(&url, text, &err) == TIDE_OK) {
        assert(*url.target);
        char *shown = tide_store_url_redact(text);
        assert(shown && strlen(shown) <= strlen(text) + 1);
        free(shown);
    }
    free(text);
    return 0;
}
