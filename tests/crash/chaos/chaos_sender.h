/* chaos_sender.h - a client that writes into an agent and keeps a history of what it was answered.
 *
 * One thread per agent sends numbered records to a stream of users, and spans by OTLP, each once: what fails is not sent again, so
 * nothing may be there twice. The history is for tests/check/delivery.py: a send for each record and span, backup and cut for
 * what was done to the agent's store, forget for an agent that drops after seconds what nobody has read.
 *
 * Threads: chaos_sender_pause, _resume, _note from one that is not its own. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "crash/chaos/chaos_fleet.h"
#include "net/client/client.h"
#include "support/prng.h"

typedef struct chaos_sender {
    const chaos_node *node;
    int index;
    tide_client *client;
    int history;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows; held during a call */
    int64_t next;         /* number of the next record or span */
    int64_t acknowledged;
    int64_t unknown;
    atomic_bool is_over;
    prng chance;
} chaos_sender;

TIDE_MUST_CHECK tide_status chaos_sender_open(chaos_sender *sender, const chaos_fleet *fleet,
                                              int index, uint64_t seed, tide_error *err);
/* Ends the thread and closes the history; fine also after a failed open, and twice. */
void chaos_sender_close(chaos_sender *sender);
void chaos_sender_free(chaos_sender *sender); /* the client, too */

/* No call is under way until it is resumed. */
void chaos_sender_pause(chaos_sender *sender);
void chaos_sender_resume(chaos_sender *sender);
/* While paused: something was done to the store (backup, wipe, restore, rollback). head: the greatest number of the stream that a
 * backup has. */
void chaos_sender_note(chaos_sender *sender, const char *what, uint64_t head);

/* One stream of the agent, or all of them. */
typedef void chaos_stream_fn(void *arg, const char *session, const char *stream, uint64_t head);
TIDE_MUST_CHECK tide_status chaos_sender_streams(chaos_sender *sender, chaos_stream_fn *fn,
                                                 void *arg, tide_error *err);
