/* top_frame.c - a snapshot of `tidemark top` as lines. See top.h.
 *
 *     tidemark top  ./colony.db  2026-11-16T16:00:00Z  3 ms
 *     0 numbers unexplained, 12 pending, 0 in open gaps, 0 lost with a reason
 *     FLEET 5 agents, by lag          rows of agents: what room is left
 *     GAPS 2 open                     a quarter of the room at most
 *     WORK 3 leases, 0 stale          likewise
 *     STORE 1.2 MiB, ...              one line */
#include "base/cleanup.h"
#include "cli/machine/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { AGENT_MAX = 30, HEAD_LINES = 2, PANES = 4 };

static const char *const sort_names[] = {[TIDE_TOP_BY_AGENT] = "name",
                                         [TIDE_TOP_BY_BEHIND] = "records behind",
                                         [TIDE_TOP_BY_LAG] = "lag",
                                         [TIDE_TOP_BY_LOSS] = "time until loss",
                                         [TIDE_TOP_BY_GAPS] = "gaps"};

/* ---- lines ---- */

static void end_line(tide_top_frame *frame, tide_cli_style style)
{
    (void)fputc('\n', frame->file);
    if (frame->count < frame->capacity)
        frame->styles[frame->count++] = style;
}

static int count_characters(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* width characters; what is longer is cut. Negative: to the left. */
static void put_cell(FILE *file, const char *text, int width)
{
    const int room = abs(width);
    int count = 0;
    int len = 0;
    for (; text[len]; len++) {
        if (((unsigned char)text[len] & 0xc0) != 0x80 && ++count > room)
            break;
    }
    count = count > room ? room : count;
    if (width > 0)
        (void)fprintf(file, "%*s", room - count, "");
    tide_cli_print(file, "%.*s", len, text);
    if (width < 0)
        (void)fprintf(file, "%*s", room - count, "");
    (void)fputs("  ", file);
}

static void put_number(FILE *file, int64_t number, int width)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    put_cell(file, text, width);
}

static void put_seconds(FILE *file, int64_t ms, bool is_known)
{
    char text[TIDE_CLI_DURATION_SIZE] = "-";
    if (is_known)
        tide_cli_duration_text(text, ms * 1000);
    put_cell(file, text, 9);
}

/* ---- fleet ---- */

typedef struct agent_row {
    const COLONY(FleetLine) * line;
    tide_cli_standing standing;
    tide_top_sort sort;
} agent_row;

static int64_t weigh(const agent_row *row)
{
    switch (row->sort) {
    case TIDE_TOP_BY_BEHIND:
        return row->standing.lag_records;
    case TIDE_TOP_BY_LAG:
        return row->standing.lag_ms;
    case TIDE_TOP_BY_LOSS:
        return row->standing.until_loss_ms < 0 ? INT64_MIN : -row->standing.until_loss_ms;
    case TIDE_TOP_BY_GAPS:
        return row->standing.open_gaps;
    case TIDE_TOP_BY_AGENT:
    case TIDE_TOP_SORTS:
        break;
    }
    return 0;
}

/* The worst first; equal ones by name. */
static int compare_rows(const void *a, const void *b)
{
    const agent_row *left = a;
    const agent_row *right = b;
    const int64_t left_weight = weigh(left);
    const int64_t right_weight = weigh(right);
    if (left_weight != right_weight)
        return left_weight > right_weight ? -1 : 1;
    return strcmp(left->line->agent_id, right->line->agent_id);
}

static tide_cli_style style_of(const agent_row *row)
{
    const int64_t loss_ms = row->standing.until_loss_ms;
    if (strcmp(row->line->health, "away") == 0 || (loss_ms >= 0 && loss_ms < 60000))
        return TIDE_CLI_RED;
    return strcmp(row->line->health, "healthy") != 0 || row->standing.open_gaps > 0 ||
                   *row->standing.hold
               ? TIDE_CLI_YELLOW
               : TIDE_CLI_PLAIN;
}

static void draw_agent(tide_top_frame *frame, const agent_row *row, int width)
{
    FILE *file = frame->file;
    put_cell(file, row->line->agent_id, -width);
    put_cell(file, row->line->health, -8);
    put_number(file, row->standing.lag_records, 10);
    put_seconds(file, row->standing.lag_ms, row->standing.lag_ms > 0);
    put_seconds(file, row->standing.until_loss_ms, row->standing.until_loss_ms >= 0);
    put_number(file, row->standing.open_gaps, 7);
    tide_cli_print(file, "%s", *row->standing.hold ? row->standing.hold : row->line->error);
    end_line(frame, style_of(row));
}

static tide_status draw_fleet(tide_top_frame *frame, const tide_top_snapshot *snapshot,
                              const tide_top_view *view, int rows, int first, tide_error *err)
{
    const size_t count = snapshot->fleet->n_agents;
    int width = (int)strlen("AGENT");
    agent_row *agents = calloc(count + 1, sizeof *agents);
    TIDE_NEED_MEMORY(agents, err);
    for (size_t i = 0; i < count; i++) {
        const COLONY(FleetLine) *line = snapshot->fleet->agents[i];
        const int len = count_characters(line->agent_id);
        agents[i] = (agent_row){line, tide_cli_fleet_standing(line), view->sort};
        width = len > width ? len : width;
    }
    width = width > AGENT_MAX ? AGENT_MAX : width;
    qsort(agents, count, sizeof *agents, compare_rows);
    tide_cli_print(frame->file, "FLEET  %zu agents, by %s%s", count, sort_names[view->sort],
                   view->is_reversed ? ", reversed" : "");
    end_line(frame, TIDE_CLI_BOLD);
    put_cell(frame->file, "AGENT", -width);
    (void)fputs("HEALTH        BEHIND        LAG    LOSS IN     GAPS  TROUBLE", frame->file);
    end_line(frame, TIDE_CLI_PLAIN);
    for (int i = first; i < (int)count && i - first < rows; i++)
        draw_agent(frame, &agents[view->is_reversed ? (int)count - 1 - i : i], width);
    free(agents);
    return TIDE_OK;
}

/* ---- gaps, work, store ---- */

static void draw_gaps(tide_top_frame *frame, const tide_top_snapshot *snapshot, int rows, int first)
{
    FILE *file = frame->file;
    const size_t count = snapshot->gaps->n_gaps;
    tide_cli_print(file, "GAPS  %zu%s open", count, snapshot->gaps->more ? "+" : "");
    end_line(frame, TIDE_CLI_BOLD);
    for (int i = first; i < (int)count && i - first < rows; i++) {
        const COLONY(Gap) *gap = snapshot->gaps->gaps[i];
        char range[64];
        char age[TIDE_CLI_DURATION_SIZE];
        (void)snprintf(range, sizeof range, "%" PRIu64 "..%" PRIu64, gap->start_seq_id,
                       gap->end_seq_id);
        tide_cli_duration_text(age, snapshot->taken_us - gap->detected_at);
        put_number(file, gap->id, 6);
        put_cell(file, gap->agent_id, -16);
        put_cell(file, gap->data_type, -16);
        put_cell(file, range, -24);
        put_cell(file, gap->status, -10);
        tide_cli_print(file, "%s, %u attempts, for %s", gap->reason, gap->recovery_attempts, age);
        end_line(frame, TIDE_CLI_YELLOW);
    }
}

static void draw_work(tide_top_frame *frame, const tide_top_snapshot *snapshot, int rows, int first)
{
    FILE *file = frame->file;
    if (!snapshot->has_work) {
        (void)fputs("WORK  not served there", file);
        end_line(frame, TIDE_CLI_BOLD);
        return;
    }
    tide_cli_print(file, "WORK  %" PRId64 " leases, %" PRId64 " stale", snapshot->active_leases,
                   snapshot->stale_leases);
    end_line(frame, TIDE_CLI_BOLD);
    for (int i = first; i < snapshot->work_count && i - first < rows; i++) {
        const tide_top_work *row = &snapshot->work[i];
        char age[TIDE_CLI_DURATION_SIZE];
        tide_cli_duration_text(age, (int64_t)(row->mean_age_s * 1e6));
        put_cell(file, row->work_type, -24);
        put_cell(file, row->status, -12);
        put_number(file, row->count, 9);
        tide_cli_print(file, "mean age %s", age);
        end_line(frame, strcmp(row->status, "failed") == 0 ? TIDE_CLI_RED : TIDE_CLI_PLAIN);
    }
}

static void draw_store(tide_top_frame *frame, const tide_top_snapshot *snapshot)
{
    const double mib = 1 << 20;
    if (snapshot->store_bytes < 0)
        tide_cli_print(frame->file, "STORE  %s", snapshot->place);
    else
        tide_cli_print(frame->file, "STORE  %s  %.1f MiB, log %.1f MiB, %.1f GiB free on its disk",
                       snapshot->place, (double)snapshot->store_bytes / mib,
                       (double)snapshot->log_bytes / mib,
                       (double)snapshot->free_bytes / mib / 1024);
    end_line(frame, TIDE_CLI_BOLD);
}

/* ---- all together ---- */

static void draw_head(tide_top_frame *frame, const tide_top_snapshot *snapshot)
{
    char time[TIDE_CLI_TIME_SIZE];
    const COLONY(FleetResponse) *fleet = snapshot->fleet;
    tide_cli_time_text(time, snapshot->taken_us);
    tide_cli_print(frame->file, "tidemark top  %s  %.19sZ  %.0f ms", snapshot->place, time,
                   (double)snapshot->took_us / 1000);
    end_line(frame, TIDE_CLI_BOLD);
    tide_cli_print(frame->file,
                   "%" PRIu64 " numbers unexplained, %" PRIu64 " pending, %" PRIu64
                   " in open gaps, %" PRIu64 " lost with a reason",
                   fleet->unexplained, fleet->pending, fleet->open_gaps, fleet->lost);
    end_line(frame, fleet->unexplained > 0 ? TIDE_CLI_RED : TIDE_CLI_GREEN);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Rows of each pane, without titles. */
typedef struct room {
    int fleet, gaps, work;
} room;

static room share_room(const tide_top_snapshot *snapshot, const tide_top_view *view)
{
    if (view->rows == INT_MAX)
        return (room){INT_MAX, INT_MAX, INT_MAX};
    /* Titles: two of the fleet, one of each other pane. */
    const int left = view->rows - HEAD_LINES - (view->pane == TIDE_TOP_ALL ? 5 : 2);
    if (left <= 0)
        return (room){0, 0, 0};
    if (view->pane != TIDE_TOP_ALL)
        return (room){left, left, left};
    const room share = {.gaps = least((int)snapshot->gaps->n_gaps, left / 4),
                        .work = least(snapshot->work_count, left / 4)};
    return (room){left - share.gaps - share.work, share.gaps, share.work};
}

static int count_rows(const tide_top_snapshot *snapshot, tide_top_pane pane)
{
    switch (pane) {
    case TIDE_TOP_ALL:
    case TIDE_TOP_FLEET:
        return (int)snapshot->fleet->n_agents;
    case TIDE_TOP_GAPS:
        return (int)snapshot->gaps->n_gaps;
    case TIDE_TOP_WORK:
        return snapshot->work_count;
    case TIDE_TOP_STORE:
        break;
    }
    return 0;
}

static tide_status draw_panes(tide_top_frame *frame, const tide_top_snapshot *snapshot,
                              const tide_top_view *view, tide_error *err)
{
    const tide_top_pane pane = view->pane;
    const room share = share_room(snapshot, view);
    const int rows = count_rows(snapshot, pane);
    const int shown = pane == TIDE_TOP_ALL || pane == TIDE_TOP_FLEET ? share.fleet : share.gaps;
    const int last = rows > shown ? rows - shown : 0;
    const int first = least(view->first, last);
    frame->more = last - first;
    draw_head(frame, snapshot);
    if (pane == TIDE_TOP_ALL || pane == TIDE_TOP_FLEET)
        TIDE_TRY(draw_fleet(frame, snapshot, view, share.fleet, first, err));
    if (pane == TIDE_TOP_ALL || pane == TIDE_TOP_GAPS)
        draw_gaps(frame, snapshot, share.gaps, pane == TIDE_TOP_GAPS ? first : 0);
    if (pane == TIDE_TOP_ALL || pane == TIDE_TOP_WORK)
        draw_work(frame, snapshot, share.work, pane == TIDE_TOP_WORK ? first : 0);
    if (pane == TIDE_TOP_ALL || pane == TIDE_TOP_STORE)
        draw_store(frame, snapshot);
    return TIDE_OK;
}

tide_status tide_top_draw(tide_top_frame *out, const tide_top_snapshot *snapshot,
                          const tide_top_view *view, tide_error *err)
{
    *out = (tide_top_frame){.capacity = (int)snapshot->fleet->n_agents +
                                        (int)snapshot->gaps->n_gaps + snapshot->work_count + 16};
    out->styles = calloc((size_t)out->capacity, sizeof *out->styles);
    out->file = open_memstream(&out->text, &out->len);
    TIDE_NEED_MEMORY(out->styles && out->file, err);
    const tide_status status = draw_panes(out, snapshot, view, err);
    const int closed = fclose(out->file);
    out->file = NULL;
    return status >= TIDE_OK && closed != 0 ? tide_no_memory(err) : status;
}

void tide_top_frame_done(tide_top_frame *frame)
{
    if (frame->file)
        (void)fclose(frame->file);
    free(frame->text);
    free(frame->styles);
    *frame = (tide_top_frame){.count = 0};
}
