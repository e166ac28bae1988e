#include "core/value_digest.h"

#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/digest.h"

tide_status tide_value_digest(int64_t *out, const char *kind, tide_view name, tide_view value,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(SIZE_MAX / 2);
    if (tide_buffer_printf(&text, "%s %zu %zu ", kind, name.len, value.len) < TIDE_OK ||
        tide_buffer_append_view(&text, name) < TIDE_OK ||
        tide_buffer_append_view(&text, value) < TIDE_OK)
        return tide_no_memory(err);
    const tide_digest128 digest = tide_digest128_of(tide_buffer_view(&text));
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof number; i++)
        number = number << 8 | digest.bytes[i];
    memcpy(out, &number, sizeof *out);
    return TIDE_OK;
}

tide_status tide_value_digest_check(int64_t stored, const char *kind, tide_view name,
                                    tide_view value, tide_error *err)
{
    int64_t found = 0;
    TIDE_TRY(tide_value_digest(&found, kind, name, value, err));
    return found == stored
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED,
                           "the stored %s of '%.*s' is not what was written: restore the store "
                           "from a backup (tidemark store verify lists all that are damaged)",
                           kind, (int)(name.len < 200 ? name.len : 200), name.ptr);
}
