/* service_append.c - AppendStream: rows of any length go into a file while they come in, on the loop; then a desk appends them as one snapshot. Nobody waits in
 * between. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "services/lake/service.h"

static atomic_int uploads;

/* Freed by whoever ends it: the loop, while rows come in; the desk, from then on. The call's memory holds the place where it is found. */
typedef struct upload {
    tide_laked *laked;
    tide_spool spool;
    tide_sha256 sha;
    char *head; /* the first message, as it came */
    size_t head_len;
} upload;

typedef struct upload_place {
    pthread_mutex_t lock;
    upload *is; /* NULL: it is over, or at a desk */
} upload_place;

static void free_upload(upload *u)
{
    if (!u)
        return;
    tide_spool_done(&u->spool);
    tide_sha256_done(&u->sha);
    free(u->head);
    free(u);
    (void)atomic_fetch_sub(&uploads, 1);
}

TIDE_CLEANUP_FN(free_uploadp, upload, free_upload)

static upload *take(upload_place *place)
{
    TIDE_HOLD(&place->lock);
    upload *u = place->is;
    place->is = NULL;
    return u;
}

static void give_up(tide_call *call, void *arg)
{
    (void)call;
    free_upload(take(arg));
}

/* ---- at a desk ---- */

static tide_status append(tide_lake_turn *turn, upload *u, tide_error *err)
{
    ProtobufCMessage *decoded = NULL;
    uint8_t hash[TIDE_SHA256_LEN];
    TIDE_TRY(tide_call_decode(turn->call, tide_view_bytes(u->head, u->head_len), &decoded, err));
    const LAKE(AppendRequest) *given = ((const LAKE(AppendChunk) *)decoded)->append;
    LAKE(Operation) op = LAKE_INIT(OPERATION);
    LAKE(Operation) * ops[] = {&op};
    op.operation_case = TIDEMARK__LAKE__V1__OPERATION__OPERATION_APPEND;
    op.append = given->operation;
    TIDE_TRY(tide_laked_hash_end(&u->sha, u->spool.len, err));
    TIDE_TRY(tide_sha256_finish(&u->sha, hash, err));
    TIDE_TRY(tide_spool_finish(&u->spool, err));
    const tide_lake_asked asked = {.catalog = given->catalog,
                                   .operations = ops,
                                   .count = 1,
                                   .commit = given->commit,
                                   .spool = &u->spool,
                                   .hash = hash};
    return tide_laked_change(turn, &asked, err);
}

static void serve_upload(tide_duckdb_thread *desk, tide_call *call, tide_view message, void *arg)
{
    (void)message;
    TIDE_CLEANUP(free_uploadp) upload *u = take(arg);
    if (!u)
        return; /* the caller left meanwhile */
    tide_error err = {0};
    tide_lake_turn turn = {.laked = u->laked, .call = call, .desk = desk};
    tide_buffer_init(&turn.out, TIDE_RPC_RESPONSE_MAX);
    const tide_status status = append(&turn, u, &err);
    if (status < TIDE_OK)
        tide_laked_end(&turn, status, &err);
    else
        tide_call_respond(call, tide_buffer_view(&turn.out));
    tide_buffer_done(&turn.out);
}

/* ---- on the loop ---- */

static tide_status begin(upload *u, tide_call *call, tide_view message,
                         const LAKE(AppendChunk) * chunk, tide_error *err)
{
    if (!chunk->append || !chunk->append->operation)
        return tide_fail(err, TIDE_E_INVALID,
                         "the first message has to say where the rows belong (`append`)");
    LAKE(Operation) op = LAKE_INIT(OPERATION);
    op.operation_case = TIDEMARK__LAKE__V1__OPERATION__OPERATION_APPEND;
    op.append = chunk->append->operation;
    TIDE_TRY(tide_laked_hash_catalog(&u->sha, chunk->append->catalog, err));
    TIDE_TRY(tide_laked_hash_operation(&u->sha, &op, err));
    TIDE_TRY(tide_spool_open(&u->spool, tide_lake_data_dir(u->laked->lake), u->laked->env, err));
    u->head = tide_call_move_message(call, &u->head_len);
    (void)message;
    return u->head ? TIDE_OK : tide_no_memory(err);
}

static tide_status keep(upload *u, tide_view bytes, tide_error *err)
{
    if (bytes.len == 0)
        return TIDE_OK;
    TIDE_TRY(tide_sha256_add(&u->sha, bytes, err));
    return tide_spool_write(&u->spool, bytes, err);
}

static tide_status take_chunk(upload *u, tide_call *call, tide_view message, tide_error *err)
{
    ProtobufCMessage *decoded = NULL;
    TIDE_TRY(tide_call_decode(call, message, &decoded, err));
    const LAKE(AppendChunk) *chunk = (const LAKE(AppendChunk) *)decoded;
    const bool is_first = !u->head;
    if (!is_first && chunk->append)
        return tide_fail(err, TIDE_E_INVALID,
                         "`append` belongs into the first message: a stream has one");
    if (is_first) {
        TIDE_TRY(begin(u, call, message, chunk, err));
        const LAKE(Append) *op = chunk->append->operation;
        TIDE_TRY(keep(u, tide_view_bytes(op->rows.data, op->rows.len), err));
        TIDE_TRY(keep(u, tide_view_of(op->text), err));
    }
    return keep(u, tide_view_bytes(chunk->rows.data, chunk->rows.len), err);
}

/* It goes to a desk; the place keeps it until it is its turn. */
static tide_status finish(upload *u, tide_call *call, upload_place *place, tide_error *err)
{
    if (!u->head)
        return tide_fail(err, TIDE_E_INVALID, "the stream has no message");
    return tide_duckdb_pool_put(u->laked->desks, call, NULL, 0, serve_upload, give_up, place, err);
}

static void receive(tide_call *call, tide_view message, void *arg)
{
    upload_place *place = arg;
    tide_error err = {0};
    (void)pthread_mutex_lock(&place->lock);
    tide_status status = TIDE_OK;
    if (place->is)
        status = message.ptr ? take_chunk(place->is, call, message, &err)
                             : finish(place->is, call, place, &err);
    (void)pthread_mutex_unlock(&place->lock);
    if (status >= TIDE_OK)
        return;
    give_up(call, place);
    tide_call_end(call, status, &err);
}

static tide_status open_upload(tide_call *call, tide_laked *laked, upload_place **out,
                               tide_error *err)
{
    if (atomic_fetch_add(&uploads, 1) >= TIDE_LAKED_UPLOADS_MAX) {
        (void)atomic_fetch_sub(&uploads, 1);
        return tide_fail(err, TIDE_E_BUSY, "%d streams of rows come in already",
                         TIDE_LAKED_UPLOADS_MAX);
    }
    upload_place *place = tide_call_memory(call, sizeof *place);
    upload *u = place ? calloc(1, sizeof *u) : NULL;
    if (!u) {
        (void)atomic_fetch_sub(&uploads, 1);
        return tide_no_memory(err);
    }
    (void)pthread_mutex_init(&place->lock, NULL);
    u->laked = laked;
    u->spool.fd = -1;
    place->is = u;
    *out = place;
    return TIDE_OK;
}

void tide_laked_append_stream(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_error err = {0};
    upload_place *place = NULL;
    const tide_status status = open_upload(call, arg, &place, &err);
    if (status < TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    tide_call_on_cancel(call, give_up, place);
    tide_call_receive(call, receive, place);
}
