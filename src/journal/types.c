/* types.c - types of checkpoints that users add to the eight. */
#include <tidemark/journal.h>

#include "base/interface/caller.h"
#include "journal/check.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct type_request {
    const char *type;
    bool is_resumable;
    const char *description;
} type_request;

static tide_status raise_type(tide_tx *tx, const char *type, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_JOURNAL_TYPE_RAISE, NULL, err, tide_bind_text("type", type),
                        tide_bind_bool("yes", true));
}

static tide_status add_type(tide_tx *tx, void *arg, tide_error *err)
{
    const type_request *request = arg;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_JOURNAL_TYPE_ADD, NULL, err,
                          tide_bind_text("type", request->type),
                          tide_bind_bool("is_resumable", request->is_resumable),
                          tide_bind_text("description", request->description)));
    return request->is_resumable ? raise_type(tx, request->type, err) : TIDE_OK;
}

tide_status tide_journal_add_type(tide_store *store, const char *type, bool is_resumable,
                                  const char *description, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_journal_check_name("checkpoint type", type, TIDE_JOURNAL_TYPE_MAX, err));
    type_request request = {
        .type = type, .is_resumable = is_resumable, .description = description ? description : ""};
    TIDE_TRY(tide_journal_check_text("a description", request.description, TIDE_JOURNAL_MESSAGE_MAX,
                                     err));
    return tide_store_write(store, add_type, &request, err);
}
