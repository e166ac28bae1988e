/* journal_stream_rpc.c - the methods of JournalService that stream: Tail, Export, Import.
 *
 * Tail: a follower is parked at the journal's waiter; each step sends what is new, as long as the client keeps up.
 * Export: written by a thread of the pool, which waits while the client is slow. Import: what comes is kept in a file
 * without a name until the client has sent everything; then a thread of its own imports it, all or nothing. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "store/identity.h"

#define SERVICE "/tidemark.journal.v1.JournalService"

enum {
    TAIL_EVENTS = 500,      /* per step */
    CHUNK_LEN = 256 * 1024, /* of an export */
    STALL_MAX_S = 60,       /* a client that takes nothing for so long is given up */
    IMPORTS_MAX = 4,        /* at once */
};

#define IMPORT_LEN_MAX (INT64_C(16) << 30)

/* ---- tail ---- */

typedef struct follower {
    tide_journal_position position;
    bool with_snapshot;
} follower;

typedef struct sender {
    tide_call *call;
    bool is_over;
} sender;

static tide_status send_event(void *arg, const tide_journal_event *event, tide_error *err)
{
    sender *s = arg;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_encode_event(&bytes, event, err));
    s->is_over = !tide_call_send(s->call, tide_buffer_view(&bytes));
    return s->is_over ? TIDE_E_INTERRUPTED : TIDE_OK;
}

static int64_t step_tail(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    follower *f = arg;
    tide_error err = {0};
    if (is_over) {
        tide_call_end(call, TIDE_E_UNAVAILABLE, NULL); /* the service ends; the client has left */
        return -1;
    }
    if (tide_call_is_full(call))
        return 10000; /* the client reads: soon again */
    sender s = {.call = call};
    const tide_status status = tide_journal_tail(
        store, &f->position,
        &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = TAIL_EVENTS,
                                     .with_snapshot = f->with_snapshot},
        send_event, &s, &err);
    if (status < TIDE_OK) {
        if (status == TIDE_E_MISMATCH &&
            tide_role_includes(tide_call_role_of(call), TIDE_ROLE_WRITE))
            tide_identity_presented(store, &f->position.identity);
        tide_call_end(call, status, &err);
        return -1;
    }
    return status == TIDE_NONE ? INT64_MAX : 0;
}

static tide_status park_tail(const tide_rpc_context *context, tide_call *call,
                             const JOURNAL(TailRequest) * request, tide_error *err)
{
    if (request->global_sequence < 0 || request->event_id < 0)
        return tide_fail(err, TIDE_E_INVALID, "positions are not below 0");
    TIDE_NEW(follower, f, err);
    *f = (follower){
        .position = {.global_sequence = request->global_sequence, .event_id = request->event_id},
        .with_snapshot = request->with_snapshot};
    tide_status status = tide_rpc_read_identity(&f->position.identity, request->session_id,
                                                request->epoch, request->epoch_id, err);
    if (status < TIDE_OK) {
        free(f);
        return status;
    }
    return tide_long_poll_park(context->journal, call, step_tail, f, INT64_MAX, err);
}

static void run_tail(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    ProtobufCMessage *decoded = NULL;
    tide_status status = tide_call_decode(call, message, &decoded, &err);
    if (status >= TIDE_OK)
        status = park_tail(arg, call, (const JOURNAL(TailRequest) *)decoded, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}

/* ---- export ---- */

/* Lives as long as the call, which may say that there is room when nobody waits any more. */
typedef struct exporter {
    tide_call *call;
    pthread_mutex_t lock;
    pthread_cond_t drained;
    bool has_room;
    tide_buffer chunk;
} exporter;

static void note_room(tide_call *call, void *arg)
{
    (void)call;
    exporter *e = arg;
    TIDE_HOLD(&e->lock);
    e->has_room = true;
    (void)pthread_cond_signal(&e->drained);
}

static tide_status wait_for_room(exporter *e, tide_error *err)
{
    if (!tide_call_is_full(e->call))
        return TIDE_OK;
    e->has_room = false;
    tide_call_on_drain(e->call, note_room, e);
    const int64_t until_us = tide_cond_until(STALL_MAX_S * INT64_C(1000000));
    (void)pthread_mutex_lock(&e->lock);
    while (!e->has_room && !tide_call_is_cancelled(e->call) &&
           tide_cond_wait(&e->drained, &e->lock, until_us)) {
    }
    const bool has_room = e->has_room;
    (void)pthread_mutex_unlock(&e->lock);
    if (has_room)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_TIMEOUT, "the client took nothing for %d s", STALL_MAX_S);
}

static tide_status send_chunk(exporter *e, tide_error *err)
{
    if (e->chunk.len == 0)
        return TIDE_OK;
    TIDE_TRY(wait_for_room(e, err));
    JOURNAL(Chunk) chunk = JOURNAL_INIT(CHUNK);
    chunk.data = (ProtobufCBinaryData){.data = (uint8_t *)e->chunk.ptr, .len = e->chunk.len};
    const bool is_sent = tide_call_send_message(e->call, &chunk.base);
    tide_buffer_clear(&e->chunk);
    return is_sent ? TIDE_OK : tide_fail(err, TIDE_E_INTERRUPTED, "the client has left");
}

static tide_status write_chunk(void *arg, tide_view bytes, tide_error *err)
{
    exporter *e = arg;
    while (bytes.len > 0) {
        const size_t room = CHUNK_LEN - e->chunk.len;
        const size_t len = bytes.len < room ? bytes.len : room;
        if (tide_buffer_append(&e->chunk, bytes.ptr, len) < TIDE_OK)
            return tide_no_memory(err);
        bytes = tide_view_bytes(bytes.ptr + len, bytes.len - len);
        if (e->chunk.len == CHUNK_LEN)
            TIDE_TRY(send_chunk(e, err));
    }
    return TIDE_OK;
}

static tide_status export_to(tide_call *call, tide_store *store, const char *task_id,
                             tide_error *err)
{
    exporter *e = tide_call_memory(call, sizeof *e);
    TIDE_NEED_MEMORY(e, err);
    e->call = call;
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->drained, NULL);
    tide_buffer_init(&e->chunk, CHUNK_LEN);
    tide_call_on_cancel(call, note_room, e); /* who waits for room sees that the call is over */
    tide_journal_transfer transfer;
    tide_status status = tide_journal_export(
        store,
        &(tide_journal_export_request){TIDE_JOURNAL_EXPORT_REQUEST_INIT, .task_id = task_id,
                                       .write = write_chunk, .arg = e},
        &transfer, err);
    if (status >= TIDE_OK)
        status = send_chunk(e, err);
    tide_buffer_done(&e->chunk);
    return status;
}

static void run_export(tide_call *call, tide_view message, void *arg)
{
    const tide_rpc_context *context = arg;
    tide_error err = {0};
    ProtobufCMessage *decoded = NULL;
    tide_status status = tide_call_decode(call, message, &decoded, &err);
    if (status >= TIDE_OK) {
        const JOURNAL(ExportRequest) *request = (const JOURNAL(ExportRequest) *)decoded;
        status = export_to(call, context->store, tide_rpc_text(request->task_id), &err);
    }
    tide_call_end(call, status, &err);
}

/* ---- import ---- */

/* Lives as long as the call: the loop that receives and the thread that imports both refer to it. */
typedef struct importer {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int fd; /* -1: the import is over */
    int64_t len;
    bool is_complete;
    tide_status status;
    tide_error err;
} importer;

static atomic_int imports;

static tide_status keep_chunk(importer *i, tide_view bytes, tide_error *err)
{
    if (i->len + (int64_t)bytes.len > IMPORT_LEN_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "an import of more than %lld GiB",
                         (long long)(IMPORT_LEN_MAX >> 30));
    while (bytes.len > 0) {
        const ssize_t written = write(i->fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_IO,
                             "keeping what is to be imported: %s", strerror(errno));
        bytes = tide_view_bytes(bytes.ptr + written, bytes.len - (size_t)written);
        i->len += written;
    }
    return TIDE_OK;
}

static void take_chunk(tide_call *call, tide_view message, void *arg)
{
    importer *i = arg;
    ProtobufCMessage *decoded = NULL;
    TIDE_HOLD(&i->lock);
    if (i->fd >= 0 && i->status >= TIDE_OK) {
        i->is_complete = !message.ptr;
        if (message.ptr)
            i->status = tide_call_decode(call, message, &decoded, &i->err);
        if (decoded && i->status >= TIDE_OK) {
            const JOURNAL(Chunk) *chunk = (const JOURNAL(Chunk) *)decoded;
            i->status = keep_chunk(i, tide_view_bytes(chunk->data.data, chunk->data.len), &i->err);
        }
    }
    (void)pthread_cond_signal(&i->moved);
}

static void note_leaving(tide_call *call, void *arg)
{
    importer *i = arg;
    (void)call;
    TIDE_HOLD(&i->lock);
    if (!i->is_complete && i->status >= TIDE_OK)
        i->status = tide_fail(&i->err, TIDE_E_INTERRUPTED, "the client has left");
    (void)pthread_cond_signal(&i->moved);
}

/* Until the client has sent everything, or nothing for too long. */
static tide_status wait_for_all(importer *i, tide_error *err)
{
    TIDE_HOLD(&i->lock);
    for (int64_t seen = -1; !i->is_complete && i->status >= TIDE_OK && seen != i->len;) {
        seen = i->len;
        const int64_t until_us = tide_cond_until(STALL_MAX_S * INT64_C(1000000));
        while (!i->is_complete && i->status >= TIDE_OK && seen == i->len &&
               tide_cond_wait(&i->moved, &i->lock, until_us)) {
        }
    }
    if (!i->is_complete && i->status >= TIDE_OK)
        i->status =
            tide_fail(&i->err, TIDE_E_TIMEOUT, "the client sent nothing for %d s", STALL_MAX_S);
    const tide_status status = i->status;
    *err = i->err;
    return status;
}

static tide_status read_kept(void *arg, void *bytes, size_t len, size_t *got, tide_error *err)
{
    const importer *i = arg;
    ssize_t count;
    do
        count = read(i->fd, bytes, len);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return tide_fail(err, TIDE_E_IO, "reading what is to be imported: %s", strerror(errno));
    *got = (size_t)count;
    return TIDE_OK;
}

static tide_status import_kept(importer *i, tide_store *store, tide_journal_transfer *transfer,
                               tide_error *err)
{
    TIDE_TRY(wait_for_all(i, err));
    if (lseek(i->fd, 0, SEEK_SET) < 0)
        return tide_fail(err, TIDE_E_IO, "reading what is to be imported: %s", strerror(errno));
    return tide_journal_import(store, read_kept, i, NULL, transfer, err);
}

static int open_nameless(void)
{
    const char *dir = getenv("TMPDIR");
    return open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static void close_importer(importer *i)
{
    TIDE_HOLD(&i->lock);
    (void)close(i->fd);
    i->fd = -1;
}

static tide_status receive_import(tide_call *call, tide_store *store,
                                  tide_journal_transfer *transfer, tide_error *err)
{
    importer *i = tide_call_memory(call, sizeof *i);
    TIDE_NEED_MEMORY(i, err);
    (void)pthread_mutex_init(&i->lock, NULL);
    (void)pthread_cond_init(&i->moved, NULL);
    i->status = TIDE_OK;
    i->fd = open_nameless();
    if (i->fd < 0)
        return tide_fail(err, TIDE_E_IO, "a file for what is to be imported: %s", strerror(errno));
    tide_call_on_cancel(call, note_leaving, i);
    tide_call_receive(call, take_chunk, i);
    const tide_status status = import_kept(i, store, transfer, err);
    close_importer(i);
    return status;
}

static void run_import(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    const tide_rpc_context *context = arg;
    tide_error err = {0};
    tide_journal_transfer transfer = {0};
    tide_status status = TIDE_OK;
    if (atomic_fetch_add(&imports, 1) >= IMPORTS_MAX)
        status = tide_fail(&err, TIDE_E_BUSY, "%d imports are running already", IMPORTS_MAX);
    else
        status = receive_import(call, context->store, &transfer, &err);
    (void)atomic_fetch_sub(&imports, 1);
    if (status < TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    JOURNAL(ImportResponse) response = JOURNAL_INIT(IMPORT_RESPONSE);
    response.tasks = transfer.tasks;
    response.checkpoints = transfer.checkpoints;
    response.skipped = transfer.skipped;
    response.renumbered = transfer.renumbered;
    response.head = transfer.head;
    response.removed = transfer.removed;
    response.store_head = transfer.store_head;
    tide_call_respond_message(call, &response.base);
}

const tide_method tide_rpc_journal_streams[] = {
    {.path = SERVICE "/Tail",
     .kind = TIDE_CALL_SERVER_STREAM,
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .request = &tidemark__journal__v1__tail_request__descriptor,
     .response = &tidemark__journal__v1__event__descriptor,
     .run = run_tail},
    {.path = SERVICE "/Export",
     .kind = TIDE_CALL_SERVER_STREAM,
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .request = &tidemark__journal__v1__export_request__descriptor,
     .response = &tidemark__journal__v1__chunk__descriptor,
     .run = run_export},
    {.path = SERVICE "/Import",
     .kind = TIDE_CALL_CLIENT_STREAM,
     .role = TIDE_ROLE_WRITE,
     .is_blocking = true,
     .request = &tidemark__journal__v1__chunk__descriptor,
     .response = &tidemark__journal__v1__import_response__descriptor,
     .run = run_import},
    {.path = NULL},
};
