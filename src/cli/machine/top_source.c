/* top_source.c - the figures of `tidemark top`: asked for, kept, as JSON. See top.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/machine/top.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "store/url.h"

#define STATS_PATH "/tidemark.work.v1.WorkService/Stats"
#define CALL_US INT64_C(30000000)

void tide_top_source_done(tide_top_source *source)
{
    tide_cli_colony_done(&source->colony);
}

void tide_top_free(tide_top_snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->fleet)
        protobuf_c_message_free_unpacked(&snapshot->fleet->base, NULL);
    if (snapshot->gaps)
        protobuf_c_message_free_unpacked(&snapshot->gaps->base, NULL);
    free(snapshot);
}

/* ---- the colony ---- */

static tide_status take_fleet(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    COLONY(FleetRequest) request = COLONY_INIT(FLEET_REQUEST);
    TIDE_TRY(tide_cli_colony_call(&source->colony, "Fleet", &request.base,
                                  &tidemark__colony__v1__fleet_response__descriptor, &response,
                                  err));
    out->fleet = (COLONY(FleetResponse) *)response;
    return TIDE_OK;
}

static tide_status take_gaps(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    char detected[] = "detected";
    char recovering[] = "recovering";
    char *statuses[] = {detected, recovering};
    ProtobufCMessage *response = NULL;
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    request.statuses = statuses;
    request.n_statuses = 2;
    request.limit = TIDE_TOP_GAPS_MAX;
    TIDE_TRY(tide_cli_colony_call(&source->colony, "ListGaps", &request.base,
                                  &tidemark__colony__v1__list_gaps_response__descriptor, &response,
                                  err));
    out->gaps = (COLONY(ListGapsResponse) *)response;
    return TIDE_OK;
}

/* ---- work ---- */

static tide_status keep_item(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    tide_top_snapshot *out = arg;
    if (out->work_count == TIDE_TOP_WORK_MAX)
        return TIDE_OK;
    tide_top_work *row = &out->work[out->work_count++];
    (void)snprintf(row->work_type, sizeof row->work_type, "%s", stat->work_type);
    (void)snprintf(row->status, sizeof row->status, "%s", stat->status);
    row->count = stat->count;
    row->mean_age_s = stat->mean_age_s;
    return TIDE_OK;
}

static tide_status keep_leases(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)err;
    tide_top_snapshot *out = arg;
    out->active_leases = stat->active;
    out->stale_leases = stat->stale;
    return TIDE_OK;
}

static tide_status keep_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)arg;
    (void)stat;
    (void)err;
    return TIDE_OK;
}

static void keep_answer(tide_top_snapshot *out, const WORK(StatsResponse) * answer)
{
    tide_error unused = {.status = TIDE_OK};
    for (size_t i = 0; i < answer->n_items; i++) {
        const tide_work_stat stat = {.work_type = answer->items[i]->work_type,
                                     .status = answer->items[i]->status,
                                     .count = answer->items[i]->count,
                                     .mean_age_s = answer->items[i]->mean_age_s};
        TIDE_IGNORE(keep_item(out, &stat, &unused));
    }
    if (answer->leases) {
        out->active_leases = answer->leases->active;
        out->stale_leases = answer->leases->stale;
    }
}

static tide_status ask_work(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    TIDE_CLEANUP(tide_client_reply_done) tide_client_reply reply;
    tide_client_reply_init(&reply);
    const tide_client_request call = {.path = STATS_PATH,
                                      .message = tide_view_bytes("", 0),
                                      .is_idempotent = true,
                                      .timeout_us = CALL_US};
    const tide_status status = tide_client_call(source->colony.remote, &call, &reply, err);
    if (status == TIDE_E_UNSUPPORTED || status == TIDE_E_NOT_FOUND || status == TIDE_E_DENIED)
        return TIDE_OK; /* a colony without work items beside it */
    TIDE_TRY(status);
    WORK(StatsResponse) *answer = (WORK(StatsResponse) *)protobuf_c_message_unpack(
        &tidemark__work__v1__stats_response__descriptor, NULL, reply.message.len,
        (const uint8_t *)reply.message.ptr);
    if (!answer)
        return tide_fail(err, TIDE_E_DAMAGED, "the answer to Stats cannot be read");
    keep_answer(out, answer);
    out->has_work = true;
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return TIDE_OK;
}

static tide_status take_work(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    static const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = keep_item,
                                            .lease = keep_leases, .task = keep_task};
    if (!source->colony.store)
        return ask_work(source, out, err);
    TIDE_TRY(tide_work_stats(source->colony.store, &fns, out, err));
    out->has_work = true;
    return TIDE_OK;
}

/* ---- the store ---- */

static int64_t size_of(const char *path, const char *suffix)
{
    char name[PATH_MAX];
    struct stat found;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &found) == 0 ? (int64_t)found.st_size : 0;
}

static void take_store(tide_top_source *source, tide_top_snapshot *out)
{
    static const char duckdb[] = "duckdb:";
    const char *address = tide_cli_text(source->cli, TIDE_CLI_ADDRESS);
    const char *url = tide_cli_text(source->cli, TIDE_CLI_STORE);
    TIDE_CLEANUP(tide_freep) char *shown = address ? strdup(address) : tide_store_url_redact(url);
    tide_error unused = {.status = TIDE_OK};
    tide_store_url parsed = {.engine = TIDE_ENGINE_SQLITE, .target = url + sizeof duckdb - 1};
    struct statvfs disk;
    (void)snprintf(out->place, sizeof out->place, "%s", shown ? shown : "?");
    out->store_bytes = out->log_bytes = out->free_bytes = -1;
    if (address || (strncmp(url, duckdb, sizeof duckdb - 1) != 0 &&
                    (tide_store_url_parse(&parsed, url, &unused) < TIDE_OK ||
                     parsed.engine != TIDE_ENGINE_SQLITE)))
        return;
    out->store_bytes = size_of(parsed.target, "");
    out->log_bytes = size_of(parsed.target, "-wal");
    if (statvfs(parsed.target, &disk) == 0)
        out->free_bytes = (int64_t)((double)disk.f_bavail * (double)disk.f_frsize);
}

/* ---- all of it ---- */

static tide_status take(tide_top_source *source, tide_top_snapshot *out, tide_error *err)
{
    if (!source->is_open)
        TIDE_TRY(
            tide_cli_colony_open(source->cli, &source->colony, TIDE_STORE_EXISTING, false, err));
    source->is_open = true;
    take_store(source, out);
    TIDE_TRY(take_fleet(source, out, err));
    TIDE_TRY(take_gaps(source, out, err));
    return take_work(source, out, err);
}

tide_status tide_top_take(tide_top_source *source, tide_top_snapshot **out, tide_error *err)
{
    const int64_t begun_us = source->env->mono_us(source->env);
    tide_top_snapshot *snapshot = calloc(1, sizeof *snapshot);
    TIDE_NEED_MEMORY(snapshot, err);
    const tide_status status = take(source, snapshot, err);
    if (status < TIDE_OK) {
        tide_top_free(snapshot);
        return status;
    }
    snapshot->taken_us = source->env->wall_us(source->env);
    snapshot->took_us = source->env->mono_us(source->env) - begun_us;
    *out = snapshot;
    return TIDE_OK;
}
