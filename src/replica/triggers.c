#include "replica/triggers.h"

#include "base/cleanup.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

static bool is_tracked(void *arg, const char *table)
{
    tide_error err;
    int64_t found = 0;
    return tide_foreign_number(&found, arg, TIDE_TEMPLATE_REPLICA_TABLE_IS_TRACKED->text, &err,
                               tide_bind_text("name", table)) == TIDE_OK &&
           found != 0;
}

tide_status tide_triggers_copy(tide_foreign_tx *tx, tide_error *err)
{
    return tide_foreign_copy_triggers(tx, is_tracked, tx, err);
}

tide_status tide_triggers_check(tide_foreign_tx *tx, tide_error *err)
{
    char why[1024];
    TIDE_TRY(tide_triggers_copy(tx, err));
    TIDE_OK_IF_NONE(tide_foreign_trigger_problem(tx, why, sizeof why, err));
    return tide_fail(err, TIDE_E_UNSUPPORTED, "%s", why);
}
