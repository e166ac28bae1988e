/* scheduler_turn.c - one turn of one agent, or of one gap: see scheduler_internal.h. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/lock.h"
#include "services/colony/scheduler_internal.h"

#define RETRY_US INT64_C(1000000)

/* ---- questions ---- */

/* On the hub's thread. */
static void take_answer(void *arg, tide_status status, tide_client_response *reply,
                        const char *text)
{
    tide_poll_job *job = arg;
    tide_scheduler *scheduler = job->scheduler;
    const tide_buffer spare = job->answer;
    job->answer = reply->message;
    reply->message = spare;
    /* An agent that says so has too much to do; only we can say that an answer is too large for us. */
    job->status = status == TIDE_E_LIMIT && !reply->is_too_large ? TIDE_E_BUSY : status;
    job->retry_after_us = reply->retry_after_us;
    (void)snprintf(job->text, sizeof job->text, "%s", text);
    tide_board_answered(scheduler->options.board, job->entry);
    TIDE_HOLD(&scheduler->lock);
    tide_scheduler_receive(job, (int64_t)job->answer.len);
    job->has_answer = true;
    job->is_asking = false;
    tide_scheduler_ready(job);
}

static tide_status open_client(tide_poll_job *job, const char *address, tide_error *err)
{
    if (job->client && strcmp(job->address, address) == 0)
        return TIDE_OK;
    tide_client_close(job->client);
    job->client = NULL;
    (void)snprintf(job->address, sizeof job->address, "%s", address);
    return tide_agent_clients_client(job->scheduler->links, job->address, &job->client, err);
}

/* Under the lock. */
static int64_t get_watch_us(const tide_scheduler *scheduler)
{
    const int64_t fair_us = scheduler->job_count * (INT64_C(1000000) / TIDE_SCHEDULER_WATCH_RATE);
    const int64_t least_us = TIDE_SCHEDULER_WATCH_US;
    return fair_us < least_us               ? least_us
           : fair_us < TIDE_POLLER_WATCH_US ? fair_us
                                            : TIDE_POLLER_WATCH_US;
}

/* Out it goes; or the answer is that it could not. From here on the job is not ours. */
static void ask(tide_poll_job *job, const char *address, const tide_question *question)
{
    tide_scheduler *scheduler = job->scheduler;
    tide_error err = {0};
    const tide_client_request request = {.path = question->path,
                                         .message = question->request,
                                         .timeout_us = question->timeout_us,
                                         .message_max = (size_t)question->message_max,
                                         .is_idempotent = true};
    tide_status status = open_client(job, address, &err);
    TIDE_HOLD(&scheduler->lock);
    tide_scheduler_reserve(job, question->bytes);
    job->is_asking = true;
    job->is_watching = question->is_watch;
    tide_board_asked(scheduler->options.board, job->entry, get_watch_us(scheduler));
    if (status >= TIDE_OK && job->is_leaving)
        status = tide_fail(&err, TIDE_E_INTERRUPTED, "the colony stops");
    if (status >= TIDE_OK)
        status =
            tide_client_start_call(&job->stream, job->client, &request, take_answer, job, &err);
    if (status < TIDE_OK) {
        tide_scheduler_release(job);
        tide_board_answered(scheduler->options.board, job->entry);
        job->is_asking = false;
        job->has_answer = true;
        job->status = status;
        job->retry_after_us = -1;
        tide_buffer_clear(&job->answer);
        (void)snprintf(job->text, sizeof job->text, "%s", err.text);
        tide_scheduler_ready(job);
    }
}

/* The answer is ours; true: there is one. */
static bool begin_turn(tide_poll_job *job)
{
    if (!job->has_answer)
        return false;
    tide_client_end(job->stream);
    job->stream = NULL;
    return true;
}

static void end_turn(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    tide_buffer_done(&job->answer); /* thousands of slots keep nothing between their turns */
    tide_buffer_init(&job->answer, TIDE_REPLY_BYTES_MAX);
    TIDE_HOLD(&scheduler->lock);
    job->has_answer = false;
    tide_scheduler_release(job);
    pthread_cond_signal(&scheduler->ready);
}

static bool is_leaving(tide_poll_job *job)
{
    TIDE_HOLD(&job->scheduler->lock);
    return job->is_leaving;
}

/* ---- an agent ---- */

static void keep_lag(void *arg, const tide_poller_lag *lag)
{
    tide_poll_job *job = arg;
    if (tide_list_room(&job->lags, job->lag_count, sizeof *job->lags, TIDE_LIST_MAX, NULL) <
        TIDE_OK)
        return; /* it is for looks alone */
    tide_agent_slot_lag *kept = &job->lags[job->lag_count++];
    *kept = (tide_agent_slot_lag){.lag = *lag};
    (void)snprintf(kept->data_type, sizeof kept->data_type, "%s", lag->data_type);
}

static void keep_lags(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    pthread_mutex_lock(&scheduler->lock);
    job->lag_count = 0;
    job->lags_us = tide_scheduler_now(scheduler);
    tide_poller_lags(job->poller, keep_lag, job);
    const bool is_new =
        job->lag_count > job->begun_count && scheduler->job_count <= TIDE_SCHEDULER_ZEROS_MAX;
    pthread_mutex_unlock(&scheduler->lock);
    tide_board_put_lags(scheduler->options.board, job->entry, job->poller);
    if (!is_new)
        return;
    job->begun_count = job->lag_count;
    for (int i = 0; i < job->lag_count; i++)
        tide_scheduler_begin_metrics(scheduler, job->agent_id, job->lags[i].data_type);
}

/* Once: nobody is polled a second time. */
static void keep_done(tide_scheduler *scheduler, const char *agent_id)
{
    if (tide_list_room(&scheduler->done, scheduler->done_count, sizeof *scheduler->done,
                       TIDE_LIST_MAX, NULL) < TIDE_OK)
        return;
    (void)snprintf(scheduler->done[scheduler->done_count++], sizeof scheduler->done[0], "%s",
                   agent_id);
}

/* Once: what became of it. */
static void count_result(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    TIDE_HOLD(&scheduler->lock);
    keep_done(scheduler, job->agent_id);
    if (tide_poller_is_caught_up(job->poller)) {
        scheduler->result.caught_up++;
    } else {
        scheduler->result.failed++;
        (void)snprintf(scheduler->result.failure, sizeof scheduler->result.failure, "%s: %.300s",
                       job->agent_id,
                       job->failure[0] ? job->failure : "stopped before it was caught up");
    }
}

static bool end_seat(tide_poll_job *job)
{
    if (job->scheduler->options.is_once) {
        count_result(job);
        tide_scheduler_recover(job->scheduler); /* gaps that this agent's records left */
    }
    return true;
}

/* Somebody has changed the agent's positions; a watch that was broken off because of that is no failure of the agent. */
static bool take_reload(tide_poll_job *job)
{
    TIDE_HOLD(&job->scheduler->lock);
    const bool is_due = job->is_reload_due;
    job->is_reload_due = false;
    return is_due;
}

static void take(tide_poll_job *job, bool is_reloaded)
{
    tide_error err = {0};
    if (is_reloaded && job->status == TIDE_E_INTERRUPTED) {
        tide_poller_drop(job->poller);
        return;
    }
    TIDE_IGNORE(tide_poller_take(job->poller, job->status, tide_buffer_view(&job->answer),
                                 job->text, job->retry_after_us, &err));
    /* An agent that answers what cannot be used is not well either. */
    const bool is_answer = job->status >= TIDE_OK || job->status == TIDE_E_LIMIT;
    const char *trouble = is_answer ? tide_poller_trouble(job->poller) : NULL;
    const char *text = trouble ? trouble : job->text;
    const tide_status status = trouble ? TIDE_E_DAMAGED : job->status;
    tide_scheduler_note(job, status, text);
    if (status < TIDE_OK && status != TIDE_E_UNSUPPORTED) /* it need not have every method */
        (void)snprintf(job->failure, sizeof job->failure, "%s", text);
}

static bool turn_seat(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    tide_error err = {0};
    const bool is_reloaded = take_reload(job);
    if (begin_turn(job)) {
        if (is_leaving(job))
            tide_poller_drop(job->poller);
        else
            take(job, is_reloaded);
        keep_lags(job);
        end_turn(job);
    }
    if (is_reloaded) {
        tide_poller_reload(job->poller);
        tide_agent_slot_poll_begin(job);
    } else {
        tide_agent_slot_poll_end(job);
    }
    if (is_leaving(job) || tide_poller_is_over(job->poller))
        return end_seat(job);
    tide_question question;
    int64_t wake_us = 0;
    pthread_mutex_lock(&scheduler->lock);
    const int64_t watch_us = get_watch_us(scheduler);
    pthread_mutex_unlock(&scheduler->lock);
    tide_poller_set_watch(job->poller, watch_us);
    const tide_status status = tide_poller_next(job->poller, &question, &wake_us, &err);
    if (status == TIDE_OK) {
        /* Positions may have been loaded since the answer: then heads that it stated are proven. */
        if (question.is_watch)
            tide_board_put_lags(scheduler->options.board, job->entry, job->poller);
        ask(job, job->registered, &question);
        return false;
    }
    if (tide_poller_is_over(job->poller))
        return end_seat(job);
    if (status < TIDE_OK)
        wake_us = tide_scheduler_now(scheduler) + RETRY_US;
    pthread_mutex_lock(&scheduler->lock);
    if (job->is_leaving || job->is_reload_due)
        tide_scheduler_ready(job);
    else
        tide_scheduler_idle(job, wake_us);
    pthread_mutex_unlock(&scheduler->lock);
    return false;
}

tide_status tide_agent_slot_new(tide_scheduler *scheduler, const tide_held_agent *agent,
                                tide_poll_job **out, tide_error *err)
{
    tide_poll_job *job = tide_poll_job_new(scheduler);
    TIDE_NEED_MEMORY(job, err);
    (void)snprintf(job->agent_id, sizeof job->agent_id, "%s", agent->agent_id);
    (void)snprintf(job->registered, sizeof job->registered, "%s", agent->address);
    job->token = agent->token;
    const tide_status status =
        tide_poller_new(&job->poller, agent, &scheduler->poller_options, err);
    if (status < TIDE_OK) {
        tide_poll_job_free(job);
        return status;
    }
    if (scheduler->options.board)
        job->entry = tide_board_begin(scheduler->options.board, job->agent_id);
    *out = job;
    return TIDE_OK;
}

/* ---- a gap ---- */

static bool turn_recovery(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    tide_error err = {0};
    if (begin_turn(job)) {
        tide_recovery *recovery = TIDE_TAKE(job->recovery);
        if (is_leaving(job))
            tide_recovery_free(recovery);
        else
            TIDE_IGNORE(tide_recover_take(recovery, job->status, tide_buffer_view(&job->answer),
                                          job->text, &err));
        end_turn(job);
        tide_scheduler_recover(scheduler); /* the rest of it, and the next one */
        return true;
    }
    if (is_leaving(job) || tide_recover_begin(&job->recovery, &scheduler->recover_options,
                                              scheduler->colony_id, &err) != TIDE_OK)
        return true;
    (void)snprintf(job->agent_id, sizeof job->agent_id, "%s", tide_recovery_agent(job->recovery));
    ask(job, tide_recovery_address(job->recovery), tide_recovery_question(job->recovery));
    return false;
}

bool tide_poll_job_turn(tide_poll_job *job)
{
    return job->poller ? turn_seat(job) : turn_recovery(job);
}
