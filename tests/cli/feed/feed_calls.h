/* feed_calls.h - records in a case's store, as an agent would have put them there. */
#pragma once

#include <tidemark/feed.h>

#include "cli/cli_run.h"

/* The time of the first record of a batch of logs, in milliseconds; each further one is a millisecond later. */
#define FEED_TIME_MS INT64_C(1700000000000)

/* One batch of logs: bodies "SERVICE 1", "SERVICE 2", ... Makes the store. */
void feed_put_logs(cli_fixture *t, int count, const char *service);
/* One record of opaque bytes, in a stream that is declared. */
void feed_put_opaque(cli_fixture *t, const char *stream, const void *bytes, size_t len);
/* A reader says that it has settled everything up to position. */
void feed_settle(cli_fixture *t, const char *stream, const char *reader, int64_t position);
/* The body of the batch that begins at first_seq becomes zeros. */
void feed_damage(cli_fixture *t, int first_seq);
