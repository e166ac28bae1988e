#include "services/work/services.h"

#include <stdlib.h>

#include <tidemark/journal.h>
#include <tidemark/work.h>

#include "services/api/rpc.h"
#include "services/work/work_metrics.h"

struct tide_services {
    tide_rpc_context context;
};

static void leave(void *arg)
{
    const tide_services *s = arg;
    tide_long_poll_end(s->context.work);
    tide_long_poll_end(s->context.journal);
}

static tide_status join(tide_services *s, tide_listener *front, tide_error *err)
{
    static const tide_method *const tables[] = {
        tide_rpc_tasks,       tide_rpc_work,    tide_rpc_work_look,      tide_rpc_schedules,
        tide_rpc_idempotency, tide_rpc_journal, tide_rpc_journal_streams};
    const tide_listener_component part = {.leave = leave, .arg = s};
    char topic[64];
    tide_work_topic(topic, NULL);
    tide_metrics_add_source(tide_listener_metrics(front), tide_work_metrics, s->context.store);
    TIDE_TRY(tide_long_poll_open(&s->context.work, s->context.store, topic, err));
    TIDE_TRY(tide_long_poll_open(&s->context.journal, s->context.store, TIDE_JOURNAL_TOPIC, err));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        TIDE_TRY(tide_listener_add(front, tables[i], NULL, &s->context, err));
    return tide_listener_join(front, &part, err);
}

tide_status tide_services_open(tide_services **out, tide_listener *front, tide_store *store,
                               tide_error *err)
{
    tide_services *s = calloc(1, sizeof *s);
    if (!s)
        return tide_no_memory(err);
    s->context.store = store;
    const tide_status status = join(s, front, err);
    if (status < TIDE_OK) {
        tide_services_close(s);
        return status;
    }
    *out = s;
    return TIDE_OK;
}

void tide_services_close(tide_services *s)
{
    if (!s)
        return;
    tide_long_poll_close(s->context.work);
    tide_long_poll_close(s->context.journal);
    free(s);
}
