#include "remote/replica_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "net/codec/protobuf_guard.h"
#include "remote/replica_messages.h"
#include "remote/replica_peer_internal.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.replica.v1.ReplicaService/"
#define CALL_US INT64_C(60000000)

enum { ADDRESS_MAX = 300, METHOD_MAX = 64 };

struct tide_remote {
    tide_client *client;
    char address[ADDRESS_MAX];
    char under[ADDRESS_MAX]; /* where its service is: "/replica/NAME"; "": at the root */
    tide_arena answer;       /* the last one, decoded */
    tide_peer peer;
};

/* ---- calls ---- */

tide_status tide_remote_call(tide_remote *remote, const char *method, const tide_buffer *request,
                             const ProtobufCMessageDescriptor *answers, ProtobufCMessage **response,
                             tide_error *err)
{
    char path[ADDRESS_MAX + sizeof SERVICE + METHOD_MAX];
    (void)snprintf(path, sizeof path, "%s%s%s", remote->under, SERVICE, method);
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    const tide_client_request call = {
        .path = path,
        .message = tide_view_bytes(request->len > 0 ? request->ptr : "", request->len),
        .is_idempotent = true,
        .timeout_us = CALL_US};
    tide_status status = tide_client_call(remote->client, &call, &reply, err);
    if (status < TIDE_OK) {
        TIDE_IGNORE(tide_fail_context(err, status, "%s", remote->address));
        return status;
    }
    tide_arena_reset(&remote->answer);
    status = tide_protobuf_unpack(response, answers, tide_buffer_view(&reply.message),
                                  &remote->answer, err);
    if (status < TIDE_OK)
        TIDE_IGNORE(tide_fail_context(err, status, "the answer of %s", remote->address));
    return status;
}

static tide_status remote_marks(void *arg, const tide_peer_marks *others, tide_peer_marks *out,
                                tide_error *err)
{
    tide_remote *remote = arg;
    ProtobufCMessage *response = NULL;
    REPLICA(GetMarksRequest) request = REPLICA_INIT(GET_MARKS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.with_tables = true;
    if (others) {
        request.node.data = (uint8_t *)others->node.bytes;
        request.node.len = TIDE_NODE_LEN;
        request.epoch = (uint64_t)others->epoch;
        TIDE_TRY(tide_wire_put_marks(&bytes, 3, others, err));
    }
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    TIDE_TRY(tide_remote_call(remote, "GetMarks", &bytes,
                              &tidemark__replica__v1__get_marks_response__descriptor, &response,
                              err));
    REPLICA(GetMarksResponse) *marks = (REPLICA(GetMarksResponse) *)response;
    tide_status status = tide_wire_node(&out->node, &marks->node, err);
    if (status >= TIDE_OK)
        status = tide_wire_number(&out->epoch, marks->epoch, err);
    if (status >= TIDE_OK)
        status = tide_wire_number(&out->quarantined, marks->quarantined, err);
    if (status >= TIDE_OK)
        status = tide_wire_number(&out->waiting, marks->waiting, err);
    if (status >= TIDE_OK)
        status = tide_wire_read_marks(out, marks->origins, marks->n_origins, marks->tables,
                                      marks->n_tables, err);
    return status;
}

static tide_status remote_offer(void *arg, const tide_peer_table *tables, int count, int *created,
                                tide_error *err)
{
    ProtobufCMessage *response = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_wire_put_tables(&bytes, 1, tables, count, err));
    TIDE_TRY(tide_remote_call(arg, "OfferTables", &bytes,
                              &tidemark__replica__v1__offer_tables_response__descriptor, &response,
                              err));
    *created = (int)((REPLICA(OfferTablesResponse) *)response)->created;
    return TIDE_OK;
}

static tide_status read_page(tide_peer_page *page, const REPLICA(ReadEventsResponse) * answer,
                             tide_error *err)
{
    TIDE_TRY(tide_wire_number(&page->through, answer->through, err));
    TIDE_TRY(tide_wire_number(&page->floor, answer->floor, err));
    page->has_more = answer->more;
    page->needs_snapshot = answer->snapshot_required;
    for (size_t i = 0; i < answer->n_events; i++)
        TIDE_TRY(tide_peer_page_add(
            page, tide_view_bytes(answer->events[i].data, answer->events[i].len), err));
    return TIDE_OK;
}

static tide_status remote_read(void *arg, const tide_node_id *origin, int64_t epoch, int64_t after,
                               int64_t max_rows, int64_t max_bytes, tide_peer_page *page,
                               tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(ReadEventsRequest) request = REPLICA_INIT(READ_EVENTS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    tide_peer_page_clear(page);
    request.origin.data = (uint8_t *)origin->bytes;
    request.origin.len = TIDE_NODE_LEN;
    request.epoch = (uint64_t)epoch;
    request.after = (uint64_t)after;
    request.max_rows = (uint32_t)max_rows;
    request.max_bytes = (uint32_t)max_bytes;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    TIDE_TRY(tide_remote_call(arg, "ReadEvents", &bytes,
                              &tidemark__replica__v1__read_events_response__descriptor, &response,
                              err));
    return read_page(page, (REPLICA(ReadEventsResponse) *)response, err);
}

static tide_status remote_push(void *arg, const tide_origin_mark *mark, const tide_peer_page *page,
                               tide_applied *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(OriginMark) of = tide_wire_mark(mark);
    REPLICA(PushEventsRequest) request = REPLICA_INIT(PUSH_EVENTS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.mark = &of;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    for (int i = 0; i < page->count; i++)
        TIDE_TRY(tide_rpc_put_bytes(&bytes, 2, tide_peer_page_event(page, i), err));
    TIDE_TRY(tide_remote_call(arg, "PushEvents", &bytes,
                              &tidemark__replica__v1__push_events_response__descriptor, &response,
                              err));
    const REPLICA(PushEventsResponse) *answer = (const REPLICA(PushEventsResponse) *)response;
    *out = (tide_applied){.events = (int64_t)answer->events,
                          .known = (int64_t)answer->known,
                          .rows = (int64_t)answer->rows,
                          .conflicts = (int64_t)answer->conflicts,
                          .quarantined = (int64_t)answer->quarantined,
                          .waiting = (int64_t)answer->waiting};
    return TIDE_OK;
}

static tide_status append_digests(const REPLICA(DigestsResponse) * answer, tide_digest_fn *fn,
                                  void *arg, tide_error *err)
{
    for (size_t i = 0; i < answer->n_tables; i++) {
        const REPLICA(TableDigest) *table = answer->tables[i];
        tide_table_digest digest = {.rows = 0};
        if (table->digest.len != sizeof digest.digest ||
            strlen(table->table) > TIDE_EVENT_TABLE_MAX)
            return tide_fail(err, TIDE_E_DAMAGED, "a digest has %zu bytes", sizeof digest.digest);
        (void)snprintf(digest.table, sizeof digest.table, "%s", table->table);
        memcpy(digest.digest, table->digest.data, sizeof digest.digest);
        TIDE_TRY(tide_wire_number(&digest.rows, table->rows, err));
        TIDE_TRY(fn(arg, &digest, err));
    }
    return TIDE_OK;
}

tide_status tide_remote_digests(tide_remote *remote, tide_digest_fn *fn, void *arg, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_remote_call(remote, "Digests", &bytes,
                              &tidemark__replica__v1__digests_response__descriptor, &response,
                              err));
    return append_digests((const REPLICA(DigestsResponse) *)response, fn, arg, err);
}

/* ---- life ---- */

/* A service that has several databases has each below a path: what follows the host is before the
 * names of methods. */
static void parse_path(char *target, char under[ADDRESS_MAX])
{
    char *host = strstr(target, "://");
    char *slash = host ? strchr(host + strlen("://"), '/') : NULL;
    if (!slash)
        return;
    (void)snprintf(under, ADDRESS_MAX, "%s", slash);
    *slash = '\0';
    const size_t len = strlen(under);
    if (under[len - 1] == '/')
        under[len - 1] = '\0';
}

static tide_status open_client(tide_remote *remote, const tide_remote_options *options,
                               tide_error *err)
{
    char target[ADDRESS_MAX + 16];
    const char *under = options->under ? options->under : "";
    const bool is_tls = options->ca_file || options->cert_file;
    if ((size_t)snprintf(remote->address, sizeof remote->address, "%s%s", options->address,
                         under) >= sizeof remote->address)
        return tide_fail(err, TIDE_E_INVALID, "an address has at most %d bytes", ADDRESS_MAX - 1);
    (void)snprintf(target, sizeof target, "%s%s", tide_client_scheme(options->address, is_tls),
                   options->address);
    (void)snprintf(remote->under, sizeof remote->under, "%s", under);
    parse_path(target, remote->under);
    const tide_client_options client = {.target = target,
                                        .env = options->env,
                                        .ca_file = options->ca_file,
                                        .cert_file = options->cert_file,
                                        .key_file = options->key_file,
                                        .token_file = options->token_file,
                                        .is_insecure = options->is_insecure,
                                        .is_gzip = true,
                                        .user_agent = "tidemark-replica",
                                        .count = options->count,
                                        .count_arg = options->count_arg};
    return tide_client_open(&remote->client, &client, err);
}

tide_status tide_remote_open(tide_remote **out, const tide_remote_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_remote_closep) TIDE_NEW(tide_remote, remote, err);
    tide_arena_init(&remote->answer, TIDE_PROTOBUF_MEMORY_MAX);
    TIDE_TRY(open_client(remote, options, err));
    remote->peer = (tide_peer){.arg = remote,
                               .name = remote->address,
                               .marks = remote_marks,
                               .offer = remote_offer,
                               .read = remote_read,
                               .push = remote_push};
    *out = TIDE_TAKE(remote);
    return TIDE_OK;
}

void tide_remote_close(tide_remote *remote)
{
    if (!remote)
        return;
    tide_client_close(remote->client);
    tide_arena_done(&remote->answer);
    free(remote);
}

void tide_remote_stop(tide_remote *remote)
{
    tide_client_stop(remote->client);
}

tide_peer *tide_remote_peer(tide_remote *remote)
{
    return &remote->peer;
}
