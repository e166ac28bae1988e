/* lake_changes_fuzz.c - what a stock client's changes_made says, and names and columns of tables as people write them: read, or refused; what was read is
 * within its limits, and marks of it are JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "lake/lake.h"
#include "lake/mark.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

/* What it leaves collides with what it fears exactly where the matrix says so. */
static tide_status take_deed(void *arg, const tide_lake_deed *deed, const char *schema_name,
                             tide_error *err)
{
    tide_buffer *marks = arg;
    require(deed->act >= 0 && deed->act < TIDE_LAKE_ACT_COUNT);
    require(deed->name != NULL && strlen(deed->name) <= TIDE_LAKE_NAME_MAX);
    require(schema_name == NULL || strlen(schema_name) <= TIDE_LAKE_NAME_MAX);
    (void)tide_lake_deeds_collide(deed, deed);
    TIDE_TRY(tide_lake_deed_leaves(deed, marks, err));
    return tide_lake_deed_fears(deed, marks, err);
}

static void check_changes(const char *text)
{
    tide_error err;
    tide_buffer marks;
    tide_buffer_init(&marks, 1 << 20);
    const tide_status status = tide_lake_changes_parse(text, take_deed, &marks, &err);
    require(status == TIDE_OK || status == TIDE_E_INVALID || status == TIDE_E_LIMIT ||
            status == TIDE_E_NOMEM);
    tide_buffer_done(&marks);
}

static void check_names(const char *text)
{
    for (int parts = 1; parts <= 3; parts++) {
        tide_lake_name name;
        tide_error err;
        if (tide_lake_name_parse(&name, text, parts, &err) != TIDE_OK)
            continue;
        require(name.catalog[0] != '\0' && strlen(name.catalog) <= TIDE_LAKE_NAME_MAX);
        require((name.schema[0] != '\0') == (parts >= 2));
        require((name.object[0] != '\0') == (parts == 3));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = calloc(1, len + 1);
    if (!text)
        return 0;
    if (len > 0)
        memcpy(text, data, len);
    check_changes(text);
    check_names(text);
    free(text);
    return 0;
}
