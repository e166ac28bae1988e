/* poller_skip.c - a record that is larger than any answer may be.
 *
 * An agent that we did not write cannot be asked for a range, and does not say how large a record is. When the answer is too large although one
 * record was asked for, the question is asked behind later numbers, until it fits:
 *
 *     start    s    s+1   s+2   s+4  ...        too large at `low`, fits at `high`; halved until they are neighbours
 *     answer   LL   LL    ok                    then the record is number `high`
 *
 * The numbers from s+1 to there are lost (too large), which is recorded, and reading goes on behind them. An agent that answers with several
 * records where one was asked for does not keep to the number: its answers tell nothing of single records, and nothing is skipped.
 * Neither is it when nothing fits within SKIP_MAX numbers. The stream is then held, visibly, and tried again. */

#include "base/cleanup.h"
#include "colony/poller_parts.h"

enum { SKIP_MAX = 64 };

static const char REASON[] = "too large";

static void report_begin(tide_poller *poller, const tide_poll_stream *stream)
{
    tide_poller_report(&poller->options.reporter, &(tide_report){.kind = TIDE_REPORT_TOO_LARGE,
                                                                 .agent_id = poller->agent.agent_id,
                                                                 .data_type = stream->name,
                                                                 .number = stream->skip_from});
}

void tide_poll_skip_begin(tide_poller *poller, tide_poll_stream *stream)
{
    stream->is_skipping = true;
    stream->skip_from = poller->ask.start_seq;
    stream->skip_low = stream->skip_from;
    stream->skip_high = 0;
    report_begin(poller, stream);
}

void tide_poll_skip_ask(const tide_poll_stream *stream, tide_ask *ask)
{
    const int64_t tried = stream->skip_low - stream->skip_from;
    ask->start_seq = stream->skip_high > 0
                         ? stream->skip_low + (stream->skip_high - stream->skip_low) / 2
                         : stream->skip_from + (tried > 0 ? 2 * tried : 1);
    ask->max_records = 1;
    ask->overlap_seq = 0;
    ask->reader = NULL; /* nothing behind it is settled */
}

static void give_up(tide_poller *poller, tide_poll_stream *stream, const char *why)
{
    stream->is_skipping = false;
    tide_poller_hold_stream(poller, stream, TIDE_E_LIMIT, why);
}

void tide_poll_skip_large(tide_poller *poller, tide_poll_stream *stream)
{
    stream->skip_low = poller->ask.start_seq;
    if (stream->skip_high == 0 && stream->skip_low - stream->skip_from >= SKIP_MAX)
        give_up(poller, stream, "every answer is larger than 64 MiB, also of a single record");
}

/* It is number skip_high. */
static tide_status skip(tide_poller *poller, tide_poll_stream *stream, const tide_reply *reply,
                        tide_error *err)
{
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    tide_env *env = poller->options.env;
    stream->is_skipping = false;
    TIDE_TRY(tide_poller_load(poller, stream, err));
    TIDE_TRY(tide_settle_skip(&change, &stream->position, reply, stream->skip_from,
                              stream->skip_high, REASON, env->wall_us(env), err));
    TIDE_TRY(tide_poller_apply(poller, stream, &change, err));
    stream->is_too_large = false;
    stream->is_met = true;
    stream->is_more = true;
    stream->failures = 0;
    stream->retry_us = 0;
    return TIDE_OK;
}

tide_status tide_poll_skip_fits(tide_poller *poller, tide_poll_stream *stream,
                                const tide_reply *reply, tide_error *err)
{
    if (reply->has_state || reply->record_count > 1) {
        give_up(poller, stream,
                "the answers are larger than 64 MiB, and have more records than were asked for");
        return TIDE_OK;
    }
    stream->skip_high = poller->ask.start_seq;
    if (stream->skip_high - stream->skip_low > 1)
        return TIDE_OK;
    const tide_status status = skip(poller, stream, reply, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK) {
        stream->is_loaded = false;
        tide_poller_hold_stream(poller, stream, status, err->text);
    }
    return TIDE_OK;
}
