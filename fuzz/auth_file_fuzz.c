/* Token files: parsed or refused with a line; no name and no token stands there twice. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "net/server/auth_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tide_auth_rows rows;
    tide_error err = {.status = TIDE_OK};
    const tide_status status = tide_auth_rows_parse(&rows, tide_view_bytes(data, size), "f", &err);
    if (status < TIDE_OK)
        assert(strncmp(err.text, "f:", 2) == 0);
    for (size_t i = 0; status == TIDE_OK && i < rows.count; i++) {
        assert(rows.items[i].name[0] && strlen(rows.items[i].name) <= TIDE_AUTH_NAME_MAX);
        assert(rows.items[i].role >= TIDE_ROLE_READ && rows.items[i].role <= TIDE_ROLE_INGEST);
        for (size_t j = 0; j < i; j++)
            assert(strcmp(rows.items[i].name, rows.items[j].name) != 0);
    }
    tide_auth_rows_done(&rows);
    return 0;
}
