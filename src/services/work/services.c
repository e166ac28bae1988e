#include "services/work/services.h"

#include <stdlib.h>

#include <tidemark/journal.h>
#include <tidemark/work.h>

#include "services/api/rpc.h"
#include "services/journal/number_check.h"
#include "services/work/attempt_times.h"
#include "services/work/work_metrics.h"

struct tide_services {
    tide_rpc_context context;
    tide_refusal_log refusals;
    tide_work_maintenance *maintenance;
    tide_work_metrics *metrics;
    tide_number_check *numbers;
};

const tide_step *const tidemark_serve_steps[] = {TIDE_LISTENER_STEPS, TIDE_WORK_STEPS,
                                                 &tide_step_work_figures,
                                                 &tide_step_journal_numbers, NULL};

static void leave(void *arg)
{
    const tide_services *s = arg;
    tide_long_poll_end(s->context.work);
    tide_long_poll_end(s->context.journal);
}

static tide_status join(tide_services *s, tide_listener *listener, tide_error *err)
{
    static const tide_method *const tables[] = {
        tide_rpc_tasks,       tide_rpc_work,    tide_rpc_work_look,      tide_rpc_schedules,
        tide_rpc_idempotency, tide_rpc_journal, tide_rpc_journal_streams};
    const tide_listener_component component = {.leave = leave, .arg = s};
    char topic[64];
    tide_work_topic(topic, NULL);
    TIDE_TRY(tide_work_metrics_new(&s->metrics, s->context.store, tide_listener_metrics(listener),
                                   tide_listener_ticker(listener), err));
    TIDE_TRY(tide_number_check_new(&s->numbers, s->context.store, tide_listener_metrics(listener),
                                   tide_listener_ticker(listener), tide_listener_log(listener),
                                   err));
    TIDE_TRY(tide_long_poll_open(&s->context.work, s->context.store, topic, err));
    TIDE_TRY(tide_long_poll_open(&s->context.journal, s->context.store, TIDE_JOURNAL_TOPIC, err));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        TIDE_TRY(tide_listener_add(listener, tables[i], NULL, &s->context, err));
    TIDE_TRY(tide_work_maintenance_bind(s->maintenance, tide_listener_ticker(listener), err));
    return tide_listener_join(listener, &component, err);
}

tide_status tide_services_open(tide_services **out, tide_listener *listener, tide_store *store,
                               const tide_work_maintenance_options *maintenance, tide_error *err)
{
    tide_services *s = calloc(1, sizeof *s);
    if (!s)
        return tide_no_memory(err);
    s->context.store = store;
    tide_refusal_log_init(&s->refusals, tide_listener_log(listener),
                          tide_listener_metrics(listener), tide_store_env(store));
    s->context.refusals = &s->refusals;
    tide_status status = tide_attempt_times_new(&s->context.times, tide_listener_metrics(listener),
                                                tide_store_env(store), err);
    tide_work_maintenance_options own = *maintenance;
    own.log = tide_listener_log(listener);
    if (status >= TIDE_OK)
        status = tide_work_maintenance_new(&s->maintenance, store, &own,
                                           tide_listener_metrics(listener), err);
    if (status >= TIDE_OK)
        status = join(s, listener, err);
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
    tide_work_maintenance_free(s->maintenance);
    tide_work_metrics_free(s->metrics);
    tide_number_check_free(s->numbers);
    tide_refusal_log_done(&s->refusals);
    tide_attempt_times_free(s->context.times);
    free(s);
}
