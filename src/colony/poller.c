#include "colony/poller.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "colony/poller_parts.h"
#include "feed/reader_token.h"

enum {
    REQUEST_MAX = 256 << 10,
    TROUBLE_TEXT_MAX = TIDE_POLLER_TROUBLE_MAX - TIDE_FEED_NAME_MAX - 3,
    REFUSED_MAX = 3,
    STUCK_FAILURES = 8, /* in a row, of one stream: an error in the log, and again after as many */
};

static const tide_backoff backoff = {.base_us = 500000, .cap_us = 30000000};

int64_t tide_poller_mono(const tide_poller *poller)
{
    return poller->options.env->mono_us(poller->options.env);
}

/* ---- life ---- */

static tide_status copy_types(tide_poller *poller, const tide_poller_options *options,
                              tide_error *err)
{
    if (!options->data_types)
        return TIDE_OK;
    TIDE_ALLOC(poller->data_types, (size_t)options->data_type_count + 1, err);
    for (int i = 0; i < options->data_type_count; i++) {
        poller->data_types[i] = strdup(options->data_types[i]);
        TIDE_NEED_MEMORY(poller->data_types[i], err);
        poller->data_type_count = i + 1;
    }
    return TIDE_OK;
}

tide_status tide_poller_new(tide_poller **out, const tide_held_agent *agent,
                            const tide_poller_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_poller_freep) TIDE_NEW(tide_poller, poller, err);
    if (!options->reader || strlen(options->reader) >= sizeof poller->reader)
        return tide_fail(err, TIDE_E_INVALID, "a reader's name has 1 to %d bytes",
                         TIDE_FEED_READER_MAX);
    tide_buffer_init(&poller->request, REQUEST_MAX);
    poller->options = *options;
    poller->agent = *agent;
    (void)snprintf(poller->reader, sizeof poller->reader, "%s",
                   *agent->reader ? agent->reader : options->reader);
    poller->options.reader = poller->reader;
    if (poller->options.grace_us <= 0)
        poller->options.grace_us = TIDE_SETTLE_GRACE_US;
    tide_registry_lease_name(poller->lease_name, agent->agent_id);
    TIDE_TRY(copy_types(poller, options, err));
    poller->options.data_types = NULL; /* the caller's; ours are the copies */
    poller->reload_us = tide_poller_mono(poller) + TIDE_POLLER_RELOAD_US;
    *out = TIDE_TAKE(poller);
    return TIDE_OK;
}

void tide_poller_free(tide_poller *poller)
{
    if (!poller)
        return;
    for (int i = 0; i < poller->count; i++) {
        tide_position_done(&poller->streams[i].position);
        free(poller->streams[i].past);
    }
    free(poller->streams);
    for (int i = 0; i < poller->data_type_count; i++)
        free(poller->data_types[i]);
    free(poller->data_types);
    tide_buffer_done(&poller->request);
    free(poller);
}

/* ---- streams ---- */

static bool is_wanted(const tide_poller *poller, const char *name)
{
    for (int i = 0; i < poller->data_type_count; i++)
        if (strcmp(poller->data_types[i], name) == 0)
            return true;
    return !poller->data_types;
}

static tide_status make_room(tide_poller *poller, tide_error *err)
{
    if (poller->count >= TIDE_POLL_WATCH_STREAMS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "agent '%s' has more than %d streams",
                         poller->agent.agent_id, TIDE_POLL_WATCH_STREAMS_MAX);
    return tide_list_room(&poller->streams, poller->count, sizeof *poller->streams, TIDE_LIST_MAX,
                          err);
}

static tide_status poller_stream(tide_poller *poller, const char *name, tide_poll_stream **out,
                                 tide_error *err)
{
    for (int i = 0; i < poller->count; i++)
        if (strcmp(poller->streams[i].name, name) == 0) {
            *out = &poller->streams[i];
            return TIDE_OK;
        }
    TIDE_TRY(make_room(poller, err));
    tide_poll_stream *stream = &poller->streams[poller->count++];
    *stream = (tide_poll_stream){.type = tide_colony_type_find(name),
                                 .is_ignored = !is_wanted(poller, name)};
    (void)snprintf(stream->name, sizeof stream->name, "%s", name);
    tide_position_init(&stream->position, poller->agent.agent_id, name);
    tide_poll_page_init(&stream->page, stream->type);
    *out = stream;
    return TIDE_OK;
}

/* How long its holes have been held is in memory alone: a position that is loaded again (a recovery has changed it meanwhile) takes it over. */
static tide_status keep_held(tide_position *fresh, tide_position *old, int64_t mono_us,
                             tide_error *err)
{
    if (old->epoch != fresh->epoch || strcmp(old->session_id, fresh->session_id) != 0)
        return TIDE_OK;
    free(fresh->held);
    fresh->held = TIDE_TAKE(old->held);
    fresh->held_count = old->held_count;
    old->held_count = 0;
    return tide_position_hold(fresh, mono_us, err);
}

void tide_poller_replace(tide_poll_stream *stream, tide_position *by)
{
    if (strcmp(stream->position.session_id, by->session_id) != 0)
        stream->past_epoch = 0;
    tide_position_done(&stream->position);
    stream->position = *by;
    tide_position_init(by, "", "");
}

tide_status tide_poller_load(tide_poller *poller, tide_poll_stream *stream, tide_error *err)
{
    if (stream->is_loaded)
        return TIDE_OK;
    TIDE_CLEANUP(tide_position_done) tide_position fresh;
    tide_position_init(&fresh, poller->agent.agent_id, stream->name);
    TIDE_TRY(
        tide_sink_load(poller->options.sink, poller->agent.agent_id, stream->name, &fresh, err));
    TIDE_TRY(keep_held(&fresh, &stream->position, tide_poller_mono(poller), err));
    tide_poller_replace(stream, &fresh);
    stream->is_loaded = true;
    return TIDE_OK;
}

void tide_poller_reload(tide_poller *poller)
{
    for (int i = 0; i < poller->count; i++)
        poller->streams[i].is_loaded = false;
    poller->reload_us = tide_poller_mono(poller) + TIDE_POLLER_RELOAD_US;
}

/* ---- failures ---- */

static void tell_failed(const tide_poller *poller, const char *data_type, tide_status status,
                        const char *text)
{
    const tide_poller_events *events = &poller->options.events;
    if (events->failed)
        events->failed(events->arg, poller->agent.agent_id, data_type, status, text);
}

static void give_up_if_once(tide_poller *poller, int failures)
{
    if (poller->options.is_once && failures >= TIDE_POLLER_ONCE_TRIES)
        poller->is_given_up = true;
}

/* Every refusal is counted; reported are the first, and of those that do not go away by themselves. */
static void report_refusal(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                           const char *text)
{
    const int64_t now_us = tide_poller_mono(poller);
    const bool is_stuck = stream->failures % STUCK_FAILURES == 0;
    const bool is_first =
        stream->told_refusal_us == 0 || now_us - stream->told_refusal_us >= TIDE_POLLER_PROBE_US;
    if (!is_stuck && !is_first)
        return;
    stream->told_refusal_us = now_us;
    tide_poller_report(&poller->options.reporter, &(tide_report){.kind = TIDE_REPORT_REFUSED,
                                                                 .agent_id = poller->agent.agent_id,
                                                                 .data_type = stream->name,
                                                                 .status = status,
                                                                 .reason = text,
                                                                 .number = stream->failures,
                                                                 .is_sink = stream->is_sink_hold,
                                                                 .is_stuck = is_stuck});
}

void tide_poller_hold_stream(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                             const char *text)
{
    tell_failed(poller, stream->name, status, text);
    stream->retry_us = tide_poller_mono(poller) +
                       tide_backoff_next(&backoff, stream->failures, poller->options.env);
    stream->failures++;
    report_refusal(poller, stream, status, text);
    (void)snprintf(poller->trouble, sizeof poller->trouble, "%s: %.*s", stream->name,
                   (int)tide_utf8_cut(tide_view_of(text), TROUBLE_TEXT_MAX).len, text);
    poller->is_sink_trouble = stream->is_sink_hold;
    give_up_if_once(poller, stream->failures);
}

static void hold_agent(tide_poller *poller, const char *data_type, tide_status status,
                       const char *text, int64_t retry_after_us)
{
    tell_failed(poller, data_type, status, text);
    int64_t wait_us = tide_backoff_next(&backoff, poller->failures, poller->options.env);
    if (retry_after_us > wait_us)
        wait_us = retry_after_us < backoff.cap_us ? retry_after_us : backoff.cap_us;
    poller->retry_us = tide_poller_mono(poller) + wait_us;
    poller->failures++;
    give_up_if_once(poller, poller->failures);
}

/* The sink cannot be read: nothing can be asked, whichever stream it is about. */
static void hold_for_sink(tide_poller *poller, tide_poll_stream *stream, const tide_error *why)
{
    const tide_poller_events *events = &poller->options.events;
    if (events->not_stored)
        events->not_stored(events->arg, poller->agent.agent_id, stream->name, why->status,
                           why->text);
    stream->is_sink_hold = true;
    poller->retry_us = tide_poller_mono(poller) +
                       tide_backoff_next(&backoff, poller->failures, poller->options.env);
    poller->failures++;
    give_up_if_once(poller, poller->failures);
}

/* ---- asking ---- */

static bool load_all(tide_poller *poller, tide_error *err)
{
    for (int i = 0; i < poller->count; i++) {
        tide_poll_stream *stream = &poller->streams[i];
        if (!stream->is_ignored && tide_poller_load(poller, stream, err) < TIDE_OK) {
            hold_for_sink(poller, stream, err);
            return false;
        }
    }
    return true;
}

static void begin_question(tide_poller *poller, tide_asked_kind kind, tide_question *out)
{
    poller->asked = kind;
    poller->asked_us = tide_poller_mono(poller);
    out->request = tide_buffer_view(&poller->request);
}

static tide_status ask_page(tide_poller *poller, int index, tide_question *out, tide_error *err)
{
    tide_poll_stream *stream = &poller->streams[index];
    poller->is_lead = tide_poll_plan_wants_lead(poller, stream);
    tide_poll_plan_ask(poller, stream, &poller->ask);
    stream->is_skipping = stream->is_skipping && stream->skip_from == poller->ask.start_seq;
    if (stream->is_skipping)
        tide_poll_skip_ask(stream, &poller->ask);
    if (stream->is_forking && !stream->is_anew)
        tide_poll_fork_ask(stream, &poller->ask);
    poller->ask.sent_us = tide_poller_mono(poller);
    tide_buffer_clear(&poller->request);
    TIDE_TRY(tide_ask_encode(&poller->request, &poller->ask, err));
    *out = (tide_question){.path = stream->type->path,
                           .timeout_us = TIDE_POLLER_TIMEOUT_US,
                           .message_max = tide_poll_page_message_max(&stream->page),
                           .bytes = poller->ask.max_bytes};
    begin_question(poller, TIDE_ASKED_PAGE, out);
    poller->asked_stream = index;
    stream->asked_us = poller->asked_us;
    return TIDE_OK;
}

static tide_status ask_watch(tide_poller *poller, int64_t wait_us, tide_question *out,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    tide_poll_watch_seen *seen = calloc((size_t)poller->count + 1, sizeof *seen);
    TIDE_NEED_MEMORY(seen, err);
    int count = 0;
    for (int i = 0; i < poller->count; i++)
        if (poller->streams[i].is_listed && count < TIDE_FEED_STREAMS_MAX)
            seen[count++] = (tide_poll_watch_seen){.stream = poller->streams[i].name,
                                                   .head = poller->streams[i].head};
    tide_buffer_clear(&poller->request);
    TIDE_TRY(tide_poll_watch_encode(&poller->request, seen, wait_us > 0 ? count : 0,
                                    poller->session_id, wait_us, err));
    *out = (tide_question){.path = TIDE_POLL_WATCH_PATH,
                           .timeout_us = wait_us + TIDE_POLLER_TIMEOUT_US,
                           .message_max = TIDE_POLL_WATCH_ANSWER_MAX,
                           .is_watch = true};
    begin_question(poller, TIDE_ASKED_WATCH, out);
    poller->wait_us = wait_us;
    return TIDE_OK;
}

/* Nothing is unread: wait for news, or for the next thing that is due. */
static tide_status ask_news(tide_poller *poller, int64_t mono_us, int64_t due_us,
                            tide_question *out, int64_t *wake_us, tide_error *err)
{
    *wake_us = due_us;
    if (poller->options.is_once)
        return TIDE_NONE;
    if (poller->mode == TIDE_POLLER_FOREIGN) {
        if (mono_us >= poller->probe_us)
            return ask_watch(poller, 0, out, err);
        *wake_us = due_us < poller->probe_us ? due_us : poller->probe_us;
        return TIDE_NONE;
    }
    if (poller->is_stale)
        return ask_watch(poller, 0, out, err);
    if (mono_us < poller->watch_us) {
        *wake_us = due_us < poller->watch_us ? due_us : poller->watch_us;
        return TIDE_NONE;
    }
    int64_t wait_us =
        poller->options.watch_us > 0 ? poller->options.watch_us : TIDE_POLLER_WATCH_US;
    if (due_us - mono_us < wait_us)
        wait_us = due_us - mono_us < 1000 ? 1000 : due_us - mono_us;
    return ask_watch(poller, wait_us, out, err);
}

tide_status tide_poller_next(tide_poller *poller, tide_question *out, int64_t *wake_us,
                             tide_error *err)
{
    assert(poller->asked == TIDE_ASKED_NOTHING);
    const int64_t mono_us = tide_poller_mono(poller);
    *wake_us = INT64_MAX;
    if (tide_poller_is_over(poller))
        return TIDE_NONE;
    if (mono_us < poller->retry_us) {
        *wake_us = poller->retry_us;
        return TIDE_NONE;
    }
    if (mono_us >= poller->reload_us)
        tide_poller_reload(poller);
    if (poller->mode == TIDE_POLLER_PROBE)
        return ask_watch(poller, 0, out, err);
    if (!load_all(poller, err)) {
        *wake_us = poller->retry_us;
        return TIDE_NONE;
    }
    int64_t due_us;
    const int index = tide_poll_plan_choose(poller, mono_us, &due_us);
    return index >= 0 ? ask_page(poller, index, out, err)
                      : ask_news(poller, mono_us, due_us, out, wake_us, err);
}

void tide_poller_drop(tide_poller *poller)
{
    poller->asked = TIDE_ASKED_NOTHING;
}

/* ---- answers ---- */

/* What the watch said of one stream. */
static tide_status take_stream(void *arg, const tide_poll_watch_stream *told, tide_error *err)
{
    tide_poller *poller = arg;
    tide_poll_stream *stream = NULL;
    TIDE_TRY(poller_stream(poller, told->stream, &stream, err));
    const bool is_news =
        !stream->is_told || told->head_seq != stream->head || told->epoch != stream->epoch;
    /* Whether there is something new in a stream that is not read is not known: look again soon. */
    if (is_news && stream->is_ignored && poller->idle_watches > 1)
        poller->idle_watches = 1;
    /* Of what is new the last one's arrival is known; the first one's was not much earlier, unless nobody looked for long. */
    if (is_news || stream->arrived_ms == 0)
        stream->arrived_ms = stream->is_met ? told->head_arrived_ms : 0;
    stream->is_told = true;
    stream->is_listed = true;
    stream->is_absent = false;
    stream->head = told->head_seq;
    stream->oldest = told->oldest_seq;
    stream->epoch = told->epoch;
    stream->now_ms = told->now_ms;
    stream->retention_ms = told->retention_ms;
    stream->told_us = tide_poller_mono(poller);
    tide_poller_note_clock(poller, told->now_ms);
    return TIDE_OK;
}

static tide_status take_watch(tide_poller *poller, tide_view answer, int64_t elapsed_us,
                              tide_error *err)
{
    char session_id[TIDE_POSITION_ID_MAX + 1];
    poller->idle_watches++;
    for (int i = 0; i < poller->count; i++)
        poller->streams[i].is_listed = false;
    const tide_status status = tide_poll_watch_read(answer, session_id, take_stream, poller, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK) {
        hold_agent(poller, "", status, err->text, -1);
        return TIDE_OK;
    }
    memcpy(poller->session_id, session_id, sizeof poller->session_id);
    tide_poller_note_session(poller, session_id);
    if (elapsed_us * 2 >= poller->wait_us)
        poller->idle_watches = 0;
    poller->failures = 0;
    poller->is_stale = false;
    poller->mode = TIDE_POLLER_WATCH;
    /* An agent that ends its watches, and has nothing new then, is not asked in a loop. */
    poller->watch_us =
        poller->idle_watches == 0
            ? 0
            : tide_poller_mono(poller) +
                  tide_backoff_next(&backoff, poller->idle_watches - 1, poller->options.env);
    return TIDE_OK;
}

/* It knows no watch: the types that such agents have, or those that were asked for. */
static tide_status begin_foreign(tide_poller *poller, tide_error *err)
{
    tide_poll_stream *stream = NULL;
    poller->probe_us = tide_poller_mono(poller) + TIDE_POLLER_PROBE_US;
    if (poller->mode == TIDE_POLLER_FOREIGN)
        return TIDE_OK;
    poller->mode = TIDE_POLLER_FOREIGN;
    for (int kind = TIDE_STREAM_TELEMETRY; kind <= TIDE_STREAM_MEMORY_PROFILE; kind++) {
        const char *name = tide_stream_type_of((tide_stream_kind)kind)->name;
        if (is_wanted(poller, name))
            TIDE_TRY(poller_stream(poller, name, &stream, err));
    }
    for (int i = 0; i < poller->data_type_count; i++)
        TIDE_TRY(poller_stream(poller, poller->data_types[i], &stream, err));
    return TIDE_OK;
}

static bool is_no_such(tide_status status)
{
    return status == TIDE_E_UNSUPPORTED || status == TIDE_E_NOT_FOUND;
}

/* Somebody has answered, though not what we asked for: the agent is there. */
static bool is_answer(tide_status status)
{
    return is_no_such(status) || status == TIDE_E_LIMIT || status == TIDE_E_INVALID ||
           status == TIDE_E_CONFLICT || status == TIDE_E_SERIALIZATION;
}

/* Why there was no page, and what follows from it. */
static void miss_page(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                      const char *text, int64_t retry_after_us)
{
    const bool is_other = status == TIDE_E_CONFLICT || status == TIDE_E_SERIALIZATION;
    if (is_answer(status))
        stream->is_forking = false; /* begins anew, if it still differs */
    if (poller->is_lead) {
        stream->lead_us = tide_poller_mono(poller) + TIDE_POLLER_LEAD_US;
        stream->lead_seq = 0;
    }
    if (status == TIDE_E_LIMIT &&
        (poller->is_lead || (!stream->is_skipping && tide_poll_page_shrink(&stream->page)))) {
        tell_failed(poller, stream->name, status, text);
    } else if (is_other && stream->past && stream->past->is_asking) {
        /* It says nothing of that epoch's points: then the ids alone decide. */
        stream->past->is_asking = false;
        stream->past->is_known = true;
    } else if (status == TIDE_E_LIMIT && stream->is_skipping) {
        tide_poll_skip_large(poller, stream);
    } else if (status == TIDE_E_LIMIT && poller->mode == TIDE_POLLER_FOREIGN && !stream->is_anew) {
        tell_failed(poller, stream->name, status, text);
        stream->is_too_large = true;
        tide_poll_skip_begin(poller, stream);
    } else if (is_other && !stream->is_anew && stream->refused < REFUSED_MAX) {
        stream->is_anew = true;
        stream->refused++;
    } else if (is_other && !stream->is_anew) {
        char why[TIDE_ERROR_TEXT_MAX];
        (void)snprintf(
            why, sizeof why,
            "session %s is refused, and stated when none is named: two agents may answer "
            "in turn at this address (%.200s)",
            stream->position.session_id, text);
        stream->refused = 0;
        tide_poller_hold_stream(poller, stream, status, why);
    } else if (is_no_such(status)) {
        tell_failed(poller, stream->name, status, text);
        stream->is_absent = true;
        stream->retry_us = tide_poller_mono(poller) + TIDE_POLLER_PROBE_US;
    } else if (status == TIDE_E_LIMIT || status == TIDE_E_INVALID || is_other) {
        tide_poller_hold_stream(poller, stream, status, text);
    } else {
        stream->is_skipping = false;
        if (status == TIDE_E_TIMEOUT || status == TIDE_E_BUSY)
            (void)tide_poll_page_shrink(&stream->page);
        hold_agent(poller, stream->name, status, text, retry_after_us);
    }
}

/* The agent has seen a higher token of this reader. Ours is refused, unless the store never issued
 * that token: then the reader's name is shared with a copy, or a later state, of the store. */
static void miss_lease(tide_poller *poller, tide_poll_stream *stream, const char *text)
{
    const char *stream_name = stream ? stream->name : "";
    const int64_t seen = stream && poller->ask.reader ? tide_reader_token_seen(text) : 0;
    const int64_t now_us = tide_poller_mono(poller);
    tide_error err = {.status = TIDE_OK};
    char before[sizeof poller->reader];
    memcpy(before, poller->reader, sizeof before);
    if (seen == 0) {
        tell_failed(poller, stream_name, TIDE_E_LEASE_LOST, text);
        poller->is_lease_lost = true;
        return;
    }
    if (poller->renamed_us != 0 && now_us - poller->renamed_us < TIDE_READER_EPOCH_US) {
        hold_agent(poller, stream_name, TIDE_E_LEASE_LOST, text, -1);
        return;
    }
    const tide_status status = tide_registry_rename_reader(
        poller->options.sink->store,
        &(tide_reader_refusal){
            .agent_id = poller->agent.agent_id, .reader = before, .seen_token = seen},
        poller->reader, &err);
    if (status == TIDE_E_LEASE_LOST) {
        tell_failed(poller, stream_name, TIDE_E_LEASE_LOST, text);
        poller->is_lease_lost = true;
    } else if (status < TIDE_OK) {
        hold_for_sink(poller, stream, &err);
    } else {
        poller->renamed_us = now_us;
        for (int i = 0; i < poller->count; i++)
            poller->streams[i].settled = -1; /* the agent knows nothing of this reader */
        tide_poller_report(&poller->options.reporter,
                           &(tide_report){.kind = TIDE_REPORT_READER,
                                          .agent_id = poller->agent.agent_id,
                                          .reason = poller->reader,
                                          .number = seen});
    }
}

static tide_status miss(tide_poller *poller, tide_asked_kind asked, tide_status status,
                        const char *text, int64_t retry_after_us, tide_error *err)
{
    const char *words = text ? text : tide_status_get(status)->text;
    tide_poll_stream *stream =
        asked == TIDE_ASKED_PAGE ? &poller->streams[poller->asked_stream] : NULL;
    /* Over the network a refused token is FAILED_PRECONDITION, which other statuses share. */
    if (status == TIDE_E_LEASE_LOST ||
        (status == TIDE_E_MISMATCH && stream && tide_reader_token_seen(words) > 0)) {
        miss_lease(poller, stream, words);
        return TIDE_OK;
    }
    if (is_answer(status)) {
        poller->failures = 0;
        poller->retry_us = 0;
    }
    if (stream) {
        miss_page(poller, stream, status, words, retry_after_us);
        return TIDE_OK;
    }
    if (is_no_such(status))
        return begin_foreign(poller, err);
    hold_agent(poller, "", status, words, retry_after_us);
    return TIDE_OK;
}

tide_status tide_poller_take(tide_poller *poller, tide_status status, tide_view answer,
                             const char *text, int64_t retry_after_us, tide_error *err)
{
    assert(poller->asked != TIDE_ASKED_NOTHING);
    const tide_asked_kind asked = poller->asked;
    const int64_t elapsed_us = tide_poller_mono(poller) - poller->asked_us;
    poller->asked = TIDE_ASKED_NOTHING;
    poller->trouble[0] = '\0';
    poller->is_sink_trouble = false;
    if (status != TIDE_OK)
        return miss(poller, asked, status, text, retry_after_us, err);
    if (asked == TIDE_ASKED_WATCH)
        return take_watch(poller, answer, elapsed_us, err);
    return tide_poller_take_page(poller, &poller->streams[poller->asked_stream], answer, elapsed_us,
                                 err);
}

/* ---- how it stands ---- */

const char *tide_poller_trouble(const tide_poller *poller)
{
    return *poller->trouble ? poller->trouble : NULL;
}

bool tide_poller_is_sink_trouble(const tide_poller *poller)
{
    return poller->is_sink_trouble;
}

bool tide_poller_is_caught_up(const tide_poller *poller)
{
    if (poller->mode == TIDE_POLLER_PROBE || poller->failures > 0 || poller->is_stale)
        return false;
    for (int i = 0; i < poller->count; i++)
        if (!tide_poll_plan_is_settled(poller, &poller->streams[i]))
            return false;
    return true;
}

void tide_poller_refresh(tide_poller *poller)
{
    poller->is_stale = poller->mode == TIDE_POLLER_WATCH;
    for (int i = 0; i < poller->count && poller->mode == TIDE_POLLER_FOREIGN; i++)
        poller->streams[i].is_more = !poller->streams[i].is_absent;
}

bool tide_poller_is_failing(const tide_poller *poller)
{
    bool is = poller->failures >= TIDE_POLLER_ONCE_TRIES;
    for (int i = 0; i < poller->count; i++)
        is = is || poller->streams[i].failures >= TIDE_POLLER_ONCE_TRIES;
    return is;
}

bool tide_poller_has_failures(const tide_poller *poller)
{
    bool has = poller->failures > 0 || poller->is_lease_lost;
    for (int i = 0; i < poller->count; i++)
        has = has || poller->streams[i].failures > 0;
    return has;
}

bool tide_poller_clock(const tide_poller *poller, int64_t *offset_us)
{
    *offset_us = poller->clock_offset_us;
    return poller->has_clock;
}

void tide_poller_note_clock(tide_poller *poller, int64_t now_ms)
{
    if (now_ms <= 0)
        return;
    poller->has_clock = true;
    poller->clock_offset_us = poller->options.env->wall_us(poller->options.env) - now_ms * 1000;
}

void tide_poller_set_watch(tide_poller *poller, int64_t watch_us)
{
    poller->options.watch_us = watch_us;
}

bool tide_poller_is_over(const tide_poller *poller)
{
    return poller->is_lease_lost || poller->is_given_up ||
           (poller->options.is_once && tide_poller_is_caught_up(poller));
}

int64_t tide_poller_loss_us(const tide_poller *poller)
{
    const int64_t mono_us = tide_poller_mono(poller);
    int64_t least_us = INT64_MAX;
    for (int i = 0; i < poller->count; i++) {
        const tide_poll_stream *stream = &poller->streams[i];
        if (stream->is_ignored || !stream->is_loaded || !tide_poll_plan_is_unread(poller, stream))
            continue;
        const int64_t loss_us = tide_poll_plan_loss_us(stream, mono_us);
        least_us = loss_us < least_us ? loss_us : least_us;
    }
    return least_us;
}

static const char *find_hold(const tide_poller *poller, const tide_poll_stream *stream,
                             int64_t mono_us)
{
    if (stream->is_sink_hold)
        return "sink";
    if (stream->is_too_large)
        return "record too large";
    if (mono_us < stream->retry_us || mono_us < poller->retry_us)
        return "back-off";
    return stream->position.cursor.hole_count > 0 ? "held hole" : "";
}

tide_poller_lag tide_poller_lag_after(const tide_poller_lag *lag, int64_t since_us)
{
    tide_poller_lag later = *lag;
    if (lag->records > 0)
        later.lag_us += since_us;
    if (lag->loss_us != INT64_MAX)
        later.loss_us = lag->loss_us > since_us ? lag->loss_us - since_us : 0;
    return later;
}

void tide_poller_lag_unproven(tide_poller_lag *lag, int64_t unproven_us)
{
    lag->age_us = lag->lag_us;
    if (unproven_us > lag->lag_us)
        lag->lag_us = unproven_us;
}

void tide_poller_lags(const tide_poller *poller, void (*fn)(void *arg, const tide_poller_lag *lag),
                      void *arg)
{
    const int64_t mono_us = tide_poller_mono(poller);
    for (int i = 0; i < poller->count; i++) {
        const tide_poll_stream *stream = &poller->streams[i];
        if (stream->is_ignored || stream->is_absent)
            continue;
        const int64_t head = stream->is_told && stream->head > stream->position.head
                                 ? stream->head
                                 : stream->position.head;
        const bool is_unread = tide_poll_plan_is_unread(poller, stream);
        tide_poller_lag lag = {.data_type = stream->name,
                               .records = tide_position_unread(&stream->position, head),
                               .checkpoint = stream->position.cursor.contiguous,
                               .head = head,
                               .loss_us =
                                   is_unread ? tide_poll_plan_loss_us(stream, mono_us) : INT64_MAX,
                               .hold = find_hold(poller, stream, mono_us)};
        if (stream->came_records > 0)
            lag.bytes = (int64_t)((double)lag.records * (double)stream->came_bytes /
                                  (double)stream->came_records);
        if (stream->is_loaded && stream->failures == 0 && !is_unread)
            lag.proven_us = stream->told_us > stream->page_us ? stream->told_us : stream->page_us;
        if (is_unread && stream->arrived_ms > 0 && stream->now_ms >= stream->arrived_ms)
            lag.lag_us = (stream->now_ms - stream->arrived_ms) * 1000 + (mono_us - stream->told_us);
        fn(arg, &lag);
    }
}
