/* profile.c - what profile samples refer to: frames by number, and the binaries of services. See feed.h. */
#include <tidemark/feed.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/utf8.h"
#include "feed/parts.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- frames ---- */

enum { SLICE_MAX = TIDE_FEED_PAGE_BYTES_MAX / (TIDE_FEED_FRAME_NAME_MAX + 1) };

typedef struct frames_request {
    const tide_view *names;
    uint64_t *ids;
    int count;
    int found; /* how many are known */
} frames_request;

static tide_status find_frame(tide_tx *tx, tide_view name, uint64_t *id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_FEED_FRAME_FIND, err, tide_bind_view("name", name));
    if (status == TIDE_OK)
        *id = (uint64_t)tide_query_col_i64(query);
    return status;
}

/* TIDE_NONE: there are max of them. */
static tide_status add_frame(tide_tx *tx, tide_view name, int64_t max, uint64_t *id,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FEED_FRAME_ADD, err,
                                           tide_bind_view("name", name), tide_bind_i64("max", max));
    if (status == TIDE_OK)
        *id = (uint64_t)tide_query_col_i64(query);
    return status;
}

/* Samples are worth more than names: behind the last place stands one for all that have none. */
static tide_status put_frame(tide_tx *tx, tide_view name, uint64_t *id, tide_error *err)
{
    const tide_view further = tide_view_of(TIDE_FEED_FRAME_FURTHER);
    tide_status status = find_frame(tx, name, id, err);
    if (status == TIDE_NONE)
        status = add_frame(tx, name, TIDE_FEED_FRAMES_MAX, id, err);
    if (status == TIDE_NONE)
        status = find_frame(tx, further, id, err);
    if (status == TIDE_NONE)
        status = add_frame(tx, further, TIDE_FEED_FRAMES_MAX + 1, id, err);
    return status == TIDE_NONE ? tide_fail(err, TIDE_E_DAMAGED, "a frame has a number above %d",
                                           TIDE_FEED_FRAMES_MAX)
                               : status;
}

static tide_status find_frames(tide_tx *tx, void *arg, tide_error *err)
{
    frames_request *request = arg;
    request->found = 0;
    for (int i = 0; i < request->count; i++) {
        const tide_status status = find_frame(tx, request->names[i], &request->ids[i], err);
        TIDE_TRY(status);
        request->found += status == TIDE_OK;
    }
    return TIDE_OK;
}

static tide_status put_frames(tide_tx *tx, void *arg, tide_error *err)
{
    frames_request *request = arg;
    for (int i = 0; i < request->count; i++)
        TIDE_TRY(put_frame(tx, request->names[i], &request->ids[i], err));
    return TIDE_OK;
}

tide_status tide_feed_frames_put(tide_feed *feed, const tide_view *names, uint64_t *ids, int count,
                                 tide_error *err)
{
    TIDE_NEED(feed && ((names && ids) || count <= 0), err);
    for (int i = 0; i < count; i++)
        if (!tide_utf8_valid(names[i]))
            return tide_fail(err, TIDE_E_INVALID, "a frame's name is UTF-8 text");
        else if (names[i].len > TIDE_FEED_FRAME_NAME_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "a frame's name of %zu bytes, at most %d",
                             names[i].len, TIDE_FEED_FRAME_NAME_MAX);
    frames_request request = {.names = names, .count = count};
    request.ids = ids;
    TIDE_TRY(tide_store_read(feed->store, find_frames, &request, err));
    if (request.found == count)
        return TIDE_OK;
    return tide_store_write(feed->store, put_frames, &request, err);
}

typedef struct names_request {
    const uint64_t *ids;
    int count;
    tide_buffer names; /* each with its NUL; an empty one: not known */
} names_request;

static tide_status find_names(tide_tx *tx, void *arg, tide_error *err)
{
    names_request *request = arg;
    tide_buffer_clear(&request->names);
    for (int i = 0; i < request->count; i++) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FEED_FRAME_NAME, err,
                                         tide_bind_i64("id", (int64_t)request->ids[i]));
        TIDE_TRY(status);
        const tide_view name = status == TIDE_OK ? tide_query_col_text(query) : tide_view_of("");
        if (name.len <= TIDE_FEED_FRAME_NAME_MAX)
            status = tide_buffer_append_view(&request->names, name);
        if (status >= TIDE_OK)
            status = tide_buffer_append_byte(&request->names, 0);
        if (status < TIDE_OK)
            return tide_fail(err, status, "the names of %d frames are too long", request->count);
    }
    return TIDE_OK;
}

static tide_status get_slice(tide_feed *feed, names_request *request, tide_feed_frame_fn *fn,
                             void *arg, tide_error *err)
{
    TIDE_TRY(tide_store_read(feed->store, find_names, request, err));
    const char *at = tide_buffer_text(&request->names);
    for (int i = 0; i < request->count; i++) {
        const tide_view name = tide_view_of(at);
        at += name.len + 1;
        if (name.len > 0)
            TIDE_TRY(tide_callback_check(fn(arg, request->ids[i], name, err), err));
    }
    return TIDE_OK;
}

tide_status tide_feed_frames_get(tide_feed *feed, const uint64_t *ids, int count,
                                 tide_feed_frame_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(feed && fn && (ids || count <= 0), err);
    names_request request = {.count = 0};
    tide_buffer_init(&request.names, TIDE_FEED_PAGE_BYTES_MAX);
    tide_status status = TIDE_OK;
    for (int at = 0; at < count && status >= TIDE_OK; at += SLICE_MAX) {
        request.ids = ids + at;
        request.count = count - at < SLICE_MAX ? count - at : SLICE_MAX;
        status = get_slice(feed, &request, fn, arg, err);
    }
    tide_buffer_done(&request.names);
    return status;
}

/* ---- binaries ---- */

typedef struct binaries_request {
    const tide_feed_binary *binaries;
    int count;
} binaries_request;

static tide_status put_binary(tide_tx *tx, const tide_feed_binary *binary, int64_t now_us,
                              tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_SQL_FEED_BINARY_PUT, NULL, err, tide_bind_view("build_id", binary->build_id),
        tide_bind_view("service_id", binary->service_id),
        tide_bind_view("path", binary->binary_path),
        tide_bind_time("first_seen", binary->first_seen_us > 0 ? binary->first_seen_us : now_us),
        tide_bind_time("last_seen", binary->last_seen_us > 0 ? binary->last_seen_us : now_us),
        tide_bind_bool("has_debug_info", binary->has_debug_info));
}

static tide_status put_binaries(tide_tx *tx, void *arg, tide_error *err)
{
    const binaries_request *request = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    for (int i = 0; i < request->count; i++)
        TIDE_TRY(put_binary(tx, &request->binaries[i], now_us, err));
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_BINARY_COUNT, err, TIDE_NO_BIND);
    if (tide_query_col_i64(query) > TIDE_FEED_BINARIES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "there are %d binaries already",
                         TIDE_FEED_BINARIES_MAX);
    return TIDE_OK;
}

tide_status tide_feed_binaries_put(tide_feed *feed, const tide_feed_binary *binaries, int count,
                                   tide_error *err)
{
    TIDE_NEED(feed && (binaries || count <= 0), err);
    for (int i = 0; i < count; i++)
        if (!tide_utf8_valid(binaries[i].build_id) || !tide_utf8_valid(binaries[i].service_id) ||
            !tide_utf8_valid(binaries[i].binary_path))
            return tide_fail(err, TIDE_E_INVALID, "what describes a binary is UTF-8 text");
    binaries_request request = {.binaries = binaries, .count = count};
    return tide_store_write(feed->store, put_binaries, &request, err);
}

typedef struct binaries_list {
    tide_feed_binary_fn *fn;
    void *arg;
} binaries_list;

static tide_status list_binaries(tide_tx *tx, void *arg, tide_error *err)
{
    const binaries_list *list = arg;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_FEED_BINARY_LIST, err);
    TIDE_EACH(tide_query_step(query, err)) {
        tide_feed_binary binary = {0};
        binary.build_id = tide_query_col_text(query);
        binary.service_id = tide_query_col_text(query);
        binary.binary_path = tide_query_col_text(query);
        binary.first_seen_us = tide_query_col_time(query);
        binary.last_seen_us = tide_query_col_time(query);
        binary.has_debug_info = tide_query_col_bool(query);
        TIDE_TRY(tide_callback_check(list->fn(list->arg, &binary, err), err));
    }
    return TIDE_OK;
}

tide_status tide_feed_binaries_get(tide_feed *feed, tide_feed_binary_fn *fn, void *arg,
                                   tide_error *err)
{
    TIDE_NEED(feed && fn, err);
    binaries_list list = {.fn = fn, .arg = arg};
    return tide_store_read(feed->store, list_binaries, &list, err);
}
