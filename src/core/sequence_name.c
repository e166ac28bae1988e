/* sequence_name.c - what a sequence may be called. Apart from the rest, because it needs no store. */
#include <tidemark/sequence.h>

#include <string.h>

#include "base/text/utf8.h"

tide_status tide_sequence_check_name(const char *name, tide_error *err)
{
    const size_t len = name ? strlen(name) : 0;
    if (len < 1 || len > TIDE_SEQUENCE_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a sequence name has 1 to %d bytes, this one has %zu",
                         TIDE_SEQUENCE_NAME_MAX, len);
    if (!tide_utf8_valid(tide_view_of(name)))
        return tide_fail(err, TIDE_E_INVALID, "a sequence name is UTF-8 text");
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return tide_fail(err, TIDE_E_INVALID, "a sequence name has no control characters");
    if (name[0] == ' ' || name[len - 1] == ' ')
        return tide_fail(err, TIDE_E_INVALID,
                         "a sequence name neither begins nor ends with a space");
    return TIDE_OK;
}
