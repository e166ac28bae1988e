/* vtab.h - streams as tables of SQL, and the sequences' numbers as functions.
 *
 *     SELECT service_name, count(*), avg(duration_ms) FROM otel_spans_local
 *     WHERE timestamp >= unixepoch('now', '-5 minutes') * 1000 GROUP BY service_name;
 *
 * Each stream is a table that is simply there (an eponymous virtual table of the database `main`): the built-in ones under
 * the names of record.h (otel_spans_local, ...), a declared stream `orders` as orders_local. A stream declared since, or of an
 * attached store, is named by hand, on a connection that may: CREATE VIRTUAL TABLE temp.x USING
 * tidemark_stream('orders', 'attached schema').
 *
 *     seq_id, then the record's columns, then arrived_at
 *     hidden: batch_epoch, batch_id (of feed_batches), skip_damaged
 *
 * Kinds: attributes are JSON objects and lists of frames JSON arrays, as text; a flag is 0 or 1; unsigned numbers of 64 bits
 * (stack_hash) keep their bits, so those above 2^63 - 1 show as negative (printf('%llu', x)); bytes are a BLOB.
 *
 * What is pushed down: seq_id (and rowid, which is the same) with =, <, <=, >, >= opens only the batches in that range; the
 * time column and arrived_at pass over batches by the times in their heads; service_name = ... or IN (...) (whatever column
 * record.h calls the service) passes over batches whose set of services does not hold it. ORDER BY seq_id, either way, costs no sort.
 * A LIMIT ends the walk. A query that uses nothing but seq_id and the columns from arrived_at on opens no batch
 * at all: count(*) reads heads. tidemark_stats() tells as JSON what this connection's queries have read so far.
 *
 * Damage: a query that comes to a batch which cannot be read fails (SQLITE_CORRUPT_VTAB) and names it: an answer with rows missing would
 * not show it. Numbers on record as lost (feed_losses: damaged, expired, evicted) are simply not there. `WHERE skip_damaged = 1` leaves
 * unreadable batches out; tidemark_stats() then counts them.
 *
 *     nextval(name [, schema])    takes the next number of a sequence, in the statement's own transaction: rolled back,
 *                                 it is given again. Fails where nothing can be written, and for the sequence of a stream, whose
 *                                 numbers its records take.
 *     currval(name [, schema])    the last number that was given, by whomever. Fails if none ever was.
 *
 * The tables are read only. One cursor sees one snapshot, and holds one batch in memory at a time: at most
 * TIDE_FEED_BATCH_BYTES_MAX twice (as stored and unpacked) and 4 bytes per record.
 *
 * Compiled twice: into the library against the bundled SQLite, and with TIDE_VTAB_EXTENSION into tidemark_sqlite.so, where it speaks to
 * whichever SQLite has loaded it (3.37 or later: older ones cannot read the store's tables).
 *
 * Threads: as the connection. */
#pragma once

#include <tidemark/env.h>

struct sqlite3;

/* Put tables and functions on a connection; env gives nextval its clock and must outlive the connection. Returns a SQLite code. The
 * connection need not be a store: its tables then say so when they are used. */
int tide_vtab_register(struct sqlite3 *db, tide_env *env);
