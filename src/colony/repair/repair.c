#include "colony/repair/repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/settle_parts.h"

enum { REQUEST_MAX = 64 << 10, MOVED_TRIES = 4 };

/* ---- positions that are short ---- */

typedef struct positions {
    tide_position *items;
    int count;
} positions;

static void positions_done(positions *list)
{
    for (int i = 0; i < list->count; i++)
        tide_position_done(&list->items[i]);
    free(list->items);
}

static tide_status keep_position(void *arg, const tide_position *position,
                                 const tide_gap_sums *gaps, tide_error *err)
{
    positions *list = arg;
    (void)gaps;
    TIDE_TRY(tide_list_room(&list->items, list->count, sizeof *list->items, TIDE_LIST_MAX, err));
    tide_position_init(&list->items[list->count], "", "");
    TIDE_TRY(tide_position_copy(&list->items[list->count], position, err));
    list->count++;
    return TIDE_OK;
}

/* The position as it is now, and how many of its rows are gone. TIDE_NONE: there is no such position. */
static tide_status count_short(const tide_repair_options *options, tide_position *at,
                               int64_t *is_short, tide_error *err)
{
    int64_t rows = 0;
    int64_t dead = 0;
    tide_sink *sink = options->sink;
    TIDE_CLEANUP(positions_done) positions now = {0};
    TIDE_TRY_FOUND(sink->ops->count(sink, at, keep_position, &now, &rows, &dead, err));
    const tide_position old = *at;
    *at = now.items[0];
    now.items[0] = old; /* freed with the list */
    *is_short = at->stored - at->expired - rows;
    return TIDE_OK;
}

/* ---- the numbers without rows ---- */

typedef struct ranges {
    tide_interval *items;
    int count;
} ranges;

static void ranges_done(ranges *list)
{
    free(list->items);
}

static tide_status add_range(ranges *list, int64_t first, int64_t last, tide_error *err)
{
    if (first > last || list->count == TIDE_REPAIR_RANGES_MAX)
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&list->items, list->count, sizeof *list->items, TIDE_LIST_MAX, err));
    list->items[list->count++] = (tide_interval){first, last};
    return TIDE_OK;
}

typedef struct search {
    const tide_repair_options *options;
    const tide_position *at;
    ranges *out;
} search;

/* Numbers of gaps that are not recovered were never stored. */
static tide_status keep_range(void *arg, tide_interval absent, tide_error *err)
{
    const search *s = arg;
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list gaps = {0};
    TIDE_TRY(tide_sink_gaps_in(s->options->sink, s->at, absent.first, absent.last, &gaps, err));
    int64_t first = absent.first;
    for (int i = 0; i < gaps.count; i++) {
        TIDE_TRY(add_range(s->out, first, gaps.gaps[i].start_seq - 1, err));
        if (gaps.gaps[i].end_seq >= first)
            first = gaps.gaps[i].end_seq + 1;
    }
    return add_range(s->out, first, absent.last, err);
}

/* ---- what the agent still has ---- */

typedef struct repairing {
    const tide_repair_options *options;
    tide_repair_line *line;
    tide_position *at;
} repairing;

static void note_reason(const repairing *r, const char *reason)
{
    (void)snprintf(r->line->reason, sizeof r->line->reason, "%s", reason);
}

static tide_status ask_range(const repairing *r, tide_interval range, tide_ask *ask,
                             tide_buffer *answer, tide_reply *reply, tide_error *err)
{
    const tide_position *at = r->at;
    const tide_colony_type *type = tide_colony_type_find(at->data_type);
    const int64_t width = range.last - range.first + 1;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request = tide_buffer_of(REQUEST_MAX);
    *ask = (tide_ask){.type = type,
                      .data_type = at->data_type,
                      .start_seq = range.first - 1,
                      .last_seq = range.last,
                      .max_records = width < type->stream->page ? width : type->stream->page,
                      .session_id = "",
                      .points = at->is_foreign ? NULL : at->points,
                      .point_count = at->is_foreign ? 0 : at->point_count};
    TIDE_TRY(tide_ask_encode(&request, ask, err));
    tide_buffer_clear(answer);
    TIDE_TRY(r->options->ask(r->options->ask_arg, at->agent_id, type->path,
                             tide_buffer_view(&request), answer, err));
    return tide_reply_read(reply, type, tide_buffer_view(answer), err);
}

/* The last number up to which the agent's history is the position's; 0, with the reason: none. */
static int64_t find_limit(const repairing *r, const tide_reply *reply, int64_t last)
{
    const tide_position *at = r->at;
    if (strcmp(reply->session_id, at->session_id) != 0) {
        note_reason(r, "session changed");
        return 0;
    }
    if (!reply->has_state)
        return last;
    if (reply->epoch < at->epoch ||
        (reply->standing == TIDE_FEED_STANDING_DIVERGED && reply->matched_seq < last)) {
        note_reason(r, "diverged");
        return 0;
    }
    const int64_t next = tide_settling_next_epoch(reply, at->epoch, NULL);
    if (next <= last)
        note_reason(r, "restored");
    return next <= last ? next - 1 : last;
}

static tide_status store_rows(const repairing *r, const tide_reply *reply, tide_interval range,
                              int64_t limit, tide_error *err)
{
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(
        tide_settling_begin(&s, &change, r->at, r->options->env->wall_us(r->options->env), err));
    change.is_repair = true;
    change.rows = calloc((size_t)reply->record_count + 1, sizeof(tide_reply_record *));
    if (!change.rows)
        return tide_no_memory(err);
    for (int i = 0; i < reply->record_count; i++) {
        const tide_reply_record *record = &reply->records[i];
        if (!record->is_dead && record->seq >= range.first && record->seq <= limit)
            change.rows[change.row_count++] = record;
    }
    if (change.row_count == 0)
        return TIDE_OK;
    change.frames = reply->frames;
    change.frame_count = reply->frame_count;
    TIDE_TRY(tide_sink_apply(r->options->sink, &change, err));
    r->line->restored += change.row_count;
    r->at->version = change.to.version;
    return TIDE_OK;
}

/* Where the next request of the range begins; 0: there is nothing more to be had. */
static int64_t get_next(const tide_reply *reply, int64_t start)
{
    const int64_t top = reply->record_count > 0 ? reply->records[reply->record_count - 1].seq : 0;
    const int64_t through = reply->has_state ? reply->scanned_through_seq : top;
    return through > start ? through + 1 : 0;
}

static tide_status repair_range(const repairing *r, tide_interval range, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = tide_buffer_of(TIDE_REPLY_BYTES_MAX);
    while (range.first > 0 && range.first <= range.last) {
        tide_ask ask;
        tide_error why = {0};
        TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
        const tide_status status = ask_range(r, range, &ask, &answer, &reply, &why);
        if (status < TIDE_OK) {
            note_reason(r, why.text);
            return TIDE_OK;
        }
        const int64_t limit = find_limit(r, &reply, range.last);
        if (limit < range.first)
            return TIDE_OK;
        if (reply.hole_count > 0)
            note_reason(r, reply.holes[0].reason);
        TIDE_TRY(store_rows(r, &reply, range, limit, err));
        range.first = get_next(&reply, ask.start_seq);
    }
    return TIDE_OK;
}

/* ---- one position ---- */

static tide_status repair_once(const repairing *r, tide_error *err)
{
    tide_sink *sink = r->options->sink;
    TIDE_CLEANUP(ranges_done) ranges absent = {0};
    search s = {.options = r->options, .at = r->at, .out = &absent};
    TIDE_TRY(sink->ops->absent(sink, r->at, keep_range, &s, err));
    for (int i = 0; i < absent.count; i++)
        TIDE_TRY(repair_range(r, absent.items[i], err));
    return TIDE_OK;
}

static tide_status repair_position(const tide_repair_options *options, tide_position *at,
                                   tide_repair_line *line, tide_error *err)
{
    const repairing r = {.options = options, .line = line, .at = at};
    int64_t is_short = 0;
    TIDE_OK_IF_NONE(count_short(options, at, &is_short, err));
    for (int i = 0; is_short > 0 && options->ask; i++) {
        const tide_status status = repair_once(&r, err);
        TIDE_OK_IF_NONE(count_short(options, at, &is_short, err));
        if (status == TIDE_OK || (status != TIDE_E_CONFLICT && status != TIDE_E_OUTCOME_UNKNOWN) ||
            i == MOVED_TRIES) {
            TIDE_TRY(status);
            break;
        }
    }
    if (is_short <= 0)
        return TIDE_OK;
    line->missing += is_short;
    if (!*line->reason)
        note_reason(&r, options->ask ? "the agent does not have them" : "no agent was asked");
    return TIDE_OK;
}

static tide_status report(const tide_repair_options *options, const tide_repair_line *line,
                          int64_t *missing, tide_error *err)
{
    tide_repair_line told = *line;
    if (line->restored == 0 && line->missing == 0)
        return TIDE_OK;
    *missing += line->missing;
    if (line->missing == 0)
        told.reason[0] = '\0';
    return options->fn ? options->fn(options->arg, &told, err) : TIDE_OK;
}

tide_status tide_repair(const tide_repair_options *options, tide_error *err)
{
    int64_t missing = 0;
    tide_repair_line line = {.restored = 0};
    TIDE_CLEANUP(positions_done) positions all = {0};
    TIDE_TRY(options->sink->ops->positions(options->sink, options->agent_id, options->data_type,
                                           true, keep_position, &all, err));
    for (int i = 0; i < all.count; i++) {
        tide_position *at = &all.items[i];
        if (strcmp(line.agent_id, at->agent_id) != 0 ||
            strcmp(line.data_type, at->data_type) != 0) {
            TIDE_TRY(report(options, &line, &missing, err));
            line = (tide_repair_line){.restored = 0};
            (void)snprintf(line.agent_id, sizeof line.agent_id, "%s", at->agent_id);
            (void)snprintf(line.data_type, sizeof line.data_type, "%s", at->data_type);
        }
        TIDE_TRY(repair_position(options, at, &line, err));
    }
    TIDE_TRY(report(options, &line, &missing, err));
    return missing == 0 ? TIDE_OK
                        : tide_fail(err, TIDE_E_DAMAGED,
                                    "%" PRId64 " rows are missing, and no agent has them", missing);
}
