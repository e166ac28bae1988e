/* option_table.h - every option of the program, one row each.
 *
 * X(id, name, short or 0, value name or NULL, default or NULL, environment or NULL, type, least,
 * most, help)
 *
 * least and most are the range of a NUMBER, of a SIZE in bytes, of a DURATION in microseconds, and
 * how often a TEXTS may be given; other types have none (0, 0). The value name of a CHOICE lists
 * what there is to choose from. A verb can narrow a row or give it another default
 * (tide_cli_override). */
#pragma once

#include <stdint.h>

#include <tidemark/identity.h>
#include <tidemark/lease.h>
#include <tidemark/sequence.h>

enum {
    /* how often a repeatable option may be given, unless its row says less */
    TIDE_CLI_TEXTS_MAX = 1000,
    TIDE_CLI_ROWS_MAX = 100000000, /* rows that one listing can ask for */
};

#define TIDE_CLI_DURATION_MAX INT64_C(315360000000000) /* 3650 days, in microseconds */

/* For every command: where, how it is printed, help. */
#define TIDE_CLI_OPTIONS_COMMON(X)                                                                 \
    X(STORE, "store", 's', "URL", "./tidemark.db", "TIDEMARK_STORE", TEXT, 0, 0,                   \
      "the store: a file, sqlite:PATH or postgres://USER@HOST/DATABASE")                           \
    X(CONTEXT, "context", 0, "NAME", NULL, "TIDEMARK_CONTEXT", TEXT, 0, 0,                         \
      "use the store or service of this context ('tidemark help context')")                        \
    X(TIMEOUT, "timeout", 0, "DURATION", "30s", NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,          \
      "how long to wait for the store (PostgreSQL)")                                               \
    X(PG_POOLER, "pg-pooler", 0, "auto|none|transaction", "auto", "TIDEMARK_PG_POOLER", CHOICE, 0, \
      0, "a pooler in front of PostgreSQL: found out, none, or one in transaction mode")           \
    X(JSON, "json", 'j', NULL, NULL, NULL, FLAG, 0, 0,                                             \
      "print one JSON object per line, for programs")                                              \
    X(HELP, "help", 'h', NULL, NULL, NULL, FLAG, 0, 0, "print this and exit")

#define TIDE_CLI_OPTIONS_GENERAL(X)                                                                \
    X(VERSION, "version", 'V', NULL, NULL, NULL, FLAG, 0, 0, "print the version and exit")         \
    X(COUNT, "count", 'n', "N", "1", NULL, NUMBER, 1, TIDE_SEQUENCE_BATCH_MAX,                     \
      "how many numbers to take at once")                                                          \
    X(WHY, "why", 'w', "TEXT", NULL, NULL, TEXT, 0, 0, "reason, stored in the history")            \
    X(ABOVE, "above", 0, "EPOCH", NULL, NULL, NUMBER, 0, TIDE_EPOCH_MAX - 1,                       \
      "an epoch that was seen elsewhere; the new one is above it")                                 \
    X(LIMIT, "limit", 'l', "N", "100", NULL, NUMBER, 1, TIDE_CLI_ROWS_MAX, "at most so many")      \
    X(ALL, "all", 0, NULL, NULL, NULL, FLAG, 0, 0, "all of them")                                  \
    X(STATUS, "status", 0, "STATUS", NULL, NULL, TEXT, 0, 0, "only those in this status")          \
    X(FROM, "from", 0, "N", NULL, NULL, NUMBER, 0, INT64_MAX, "from this number on")               \
    X(EPOCH_ID, "epoch-id", 0, "ID", NULL, NULL, TEXT, 0, 0,                                       \
      "the epoch in which --from was read; a cut of history since then is reported")               \
    X(TO, "to", 0, "N", NULL, NULL, NUMBER, 0, INT64_MAX, "up to this number, which counts too")   \
    X(SINCE, "since", 0, "TIME", NULL, NULL, PAST, 0, 0, "from this time on")                      \
    X(UNTIL, "until", 0, "TIME", NULL, NULL, PAST, 0, 0, "up to this time")                        \
    X(OLDER_THAN, "older-than", 0, "DURATION", NULL, NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,     \
      "only what is older than this")                                                              \
    X(FOLLOW, "follow", 'f', NULL, NULL, NULL, FLAG, 0, 0, "continue with new ones until Ctrl-C")  \
    X(FAILURE_KIND, "failure-kind", 0, "KIND", NULL, NULL, TEXT, 0, 0,                             \
      "only failed ones of this kind: error, exhausted, quarantined, cancelled, dependency")       \
    X(FROM_SCRATCH, "from-scratch", 0, NULL, NULL, NULL, FLAG, 0, 0,                               \
      "do not hand over the last checkpoint")                                                      \
    X(WITH_DEPENDENTS, "with-dependents", 0, NULL, NULL, NULL, FLAG, 0, 0,                         \
      "also what failed because it depends on these")                                              \
    X(DRY_RUN, "dry-run", 0, NULL, NULL, NULL, FLAG, 0, 0,                                         \
      "print what would be done; change nothing")                                                  \
    X(FORCE, "force", 0, NULL, NULL, NULL, FLAG, 0, 0, "also where it would be refused otherwise") \
    X(OUT, "out", 0, "FILE", NULL, NULL, TEXT, 0, 0, "write to this file, which must not exist")   \
    X(REASON, "reason", 0, "TEXT", NULL, NULL, TEXT, 0, 0, "reason, stored with the change")

#define TIDE_CLI_OPTIONS_WORK(X)                                                                   \
    X(TASK, "task", 0, "ID", NULL, NULL, TEXT, 0, 0, "the task")                                   \
    X(TITLE, "title", 0, "TEXT", NULL, NULL, TEXT, 0, 0, "title, for people")                      \
    X(TYPE, "type", 't', "TYPE", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX, "the type")             \
    X(INPUT, "input", 0, "JSON", NULL, NULL, TEXT, 0, 0,                                           \
      "what the work is given: JSON, @FILE, or - for stdin")                                       \
    X(PRIORITY, "priority", 0, "N", "0", NULL, NUMBER, -1000000, 1000000, "higher comes first")    \
    X(MAX_RETRIES, "max-retries", 0, "N", "3", NULL, NUMBER, 0, 1000,                              \
      "how often to try again after a failure")                                                    \
    X(RETRIES, "retries", 0, "N", NULL, NULL, NUMBER, 0, 1000,                                     \
      "retries of items that are added without --max-retries")                                     \
    X(BACKOFF, "backoff", 0, "FROM..TO", NULL, NULL, TEXT, 0, 0,                                   \
      "wait before a retry: first and longest, like 1s..1h; it doubles each time")                 \
    X(NO_RETRY, "no-retry", 0, "KIND", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX,                   \
      "do not retry after this: error, crash or timeout")                                          \
    X(RUNNING, "running", 0, "N", NULL, NULL, NUMBER, 1, 1000000, "items in progress at once")     \
    X(PER_KEY, "per-key", 0, NULL, NULL, NULL, FLAG, 0, 0, "count the items of each limit key")    \
    X(LIMIT_KEY, "limit-key", 0, "KEY", NULL, NULL, TEXT, 0, 0,                                    \
      "what 'work limit --per-key' counts, like a customer")                                       \
    X(RESET, "reset", 0, NULL, NULL, NULL, FLAG, 0, 0, "return to the defaults")                   \
    X(RUN_AFTER, "run-after", 0, "TIME", NULL, NULL, FUTURE, 0, 0, "not before this time")         \
    X(ATTEMPT_TIMEOUT, "attempt-timeout", 0, "DURATION", NULL, NULL, DURATION, 1,                  \
      TIDE_CLI_DURATION_MAX, "how long an attempt may take")                                       \
    X(UNIQUE_KEY, "unique-key", 0, "KEY", NULL, NULL, TEXT, 0, 0,                                  \
      "at most one unfinished item has this key")                                                  \
    X(DEPENDS_ON, "depends-on", 0, "ID", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX,                 \
      "not before this item is completed")                                                         \
    X(BATCH, "batch", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                           \
      "one JSON object per line from this file, or from stdin (-)")                                \
    X(WORKER, "worker", 0, "NAME", NULL, "TIDEMARK_WORKER", TEXT, 0, 0,                            \
      "name of the worker (default HOST-PID)")                                                     \
    X(LEASE, "lease", 0, "DURATION", "5m", NULL, DURATION, TIDE_LEASE_MIN_US, TIDE_LEASE_MAX_US,   \
      "length of the lease unless renewed")                                                        \
    X(TOKEN, "token", 0, "N", NULL, NULL, NUMBER, 1, INT64_MAX, "the lease's token, as claimed")   \
    X(STEP_TOKEN, "step-token", 0, "N", NULL, NULL, NUMBER, 1, INT64_MAX,                          \
      "token of the step, from begin-step")                                                        \
    X(ITEM_TOKEN, "item-token", 0, "N", NULL, NULL, NUMBER, 1, INT64_MAX,                          \
      "token of the lease of --work-item")                                                         \
    X(HOLDER, "holder", 0, "NAME", NULL, NULL, TEXT, 0, 0, "holder of the lease")                  \
    X(FINISH, "finish", 0, "ID=TOKEN[=JSON]", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX,            \
      "finish this item under its token, with this output")                                        \
    X(OUTPUT, "output", 0, "JSON", NULL, NULL, TEXT, 0, 0,                                         \
      "the result: JSON, @FILE, or - for stdin")                                                   \
    X(ERROR, "error", 0, "TEXT", NULL, NULL, TEXT, 0, 0, "text of the error")                      \
    X(FINAL, "final", 0, NULL, NULL, NULL, FLAG, 0, 0, "do not try again")                         \
    X(RETRY_AFTER, "retry-after", 0, "DURATION", NULL, NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,   \
      "try again after this long")                                                                 \
    X(PROGRESS, "progress", 0, "N", NULL, NULL, NUMBER, 0, 100, "how much is done, in percent")    \
    X(WORK_ITEM, "work-item", 0, "ID", NULL, NULL, TEXT, 0, 0, "the work item")                    \
    X(CANCEL_REST, "cancel-rest", 0, NULL, NULL, NULL, FLAG, 0, 0,                                 \
      "cancel what has not been finished")                                                         \
    X(CRASH_LIMIT, "crash-limit", 0, "N", NULL, NULL, NUMBER, 1, 1000,                             \
      "quarantine an item after so many crashes")                                                  \
    X(SWEEP, "sweep", 0, "DURATION", "1s", NULL, DURATION, 1000, INT64_C(60000000),                \
      "look for ended leases, due items and schedules at least so often")                          \
    X(KEEP_KEYS, "keep-keys", 0, "DURATION", NULL, NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,       \
      "delete completed idempotency keys without an expiry after this time (default 7d)")          \
    X(KEEP_ITEMS, "keep-items", 0, "DURATION", NULL, NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,     \
      "delete work items so long after they ended (default 30d)")                                  \
    X(KEEP_CHECKPOINTS, "keep-checkpoints", 0, "N", NULL, NULL, NUMBER, 1, TIDE_CLI_ROWS_MAX,      \
      "delete all but the newest N checkpoints of each task and what resuming needs")              \
    X(PARALLEL, "parallel", 0, "N", "1", NULL, NUMBER, 1, 256, "run so many at a time")            \
    X(PREFETCH, "prefetch", 0, "N", "0", NULL, NUMBER, 0, 1000,                                    \
      "how many to claim ahead of those that run")                                                 \
    X(DRAIN, "drain", 0, "DURATION", NULL, NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,               \
      "how long what runs may go on after SIGTERM")                                                \
    X(UNTIL_EMPTY, "until-empty", 0, NULL, NULL, NULL, FLAG, 0, 0, "end when nothing is left")     \
    X(ENV, "env", 0, "NAME=VALUE", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX,                       \
      "set in the command's environment")                                                          \
    X(CRON, "cron", 0, "EXPRESSION", NULL, NULL, TEXT, 0, 0,                                       \
      "when: minute hour day month weekday")                                                       \
    X(TIME_ZONE, "time-zone", 0, "NAME", NULL, NULL, TEXT, 0, 0,                                   \
      "time zone of --cron, like Europe/Berlin (default UTC)")                                     \
    X(EVERY, "every", 0, "DURATION", NULL, NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,               \
      "how far apart")

#define TIDE_CLI_OPTIONS_JOURNAL(X)                                                                \
    X(DATA, "data", 0, "JSON", NULL, NULL, TEXT, 0, 0,                                             \
      "the state to keep: JSON, @FILE, or - for stdin")                                            \
    X(MESSAGE, "message", 'm', "TEXT", NULL, NULL, TEXT, 0, 0, "what it is, for people")           \
    X(TAG, "tag", 0, "TAG", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX, "a tag")                     \
    X(METADATA, "metadata", 0, "JSON", NULL, NULL, TEXT, 0, 0,                                     \
      "more about it: JSON, @FILE, or - for stdin")                                                \
    X(TRIGGER, "trigger", 0, "KIND", NULL, NULL, TEXT, 0, 0, "cause of the checkpoint")            \
    X(EXPECT, "expect", 0, "N", NULL, NULL, NUMBER, 1, INT64_MAX,                                  \
      "write only if this is the next number")                                                     \
    X(CONFLICT_RETENTION, "conflict-retention", 0, "DURATION", NULL, NULL, DURATION, 0,            \
      TIDE_CLI_DURATION_MAX,                                                                       \
      "keep for stock clients what expired snapshots changed, for so long (default 7d)")           \
    X(REFERENCE, "reference", 0, NULL, NULL, NULL, FLAG, 0, 0,                                     \
      "name the lake's own data files, without copies: for readers alone")                         \
    X(FILES, "files", 0, NULL, NULL, NULL, FLAG, 0, 0,                                             \
      "also compare every data and delete file with its digest")                                   \
    X(RECORD_DIGESTS, "record-digests", 0, NULL, NULL, NULL, FLAG, 0, 0,                           \
      "and record digests of files that have none: what stock clients wrote")                      \
    X(KEEP, "keep", 0, "N", NULL, NULL, NUMBER, 0, TIDE_CLI_ROWS_MAX, "keep the newest N")         \
    X(KEEP_TAGGED, "keep-tagged", 0, NULL, NULL, NULL, FLAG, 0, 0, "what has a tag stays")         \
    X(NOTE, "note", 0, "TEXT", NULL, NULL, TEXT, 0, 0, "the note")                                 \
    X(SEVERITY, "severity", 0, "LEVEL", NULL, NULL, TEXT, 0, 0, "severity of the note")            \
    X(RESUMABLE, "resumable", 0, NULL, NULL, NULL, FLAG, 0, 0, "only what can be resumed")

#define TIDE_CLI_OPTIONS_IDEMPOTENCY(X)                                                            \
    X(KEY, "key", 'k', "KEY", NULL, NULL, TEXT, 0, 0, "the key: what has it is done once")         \
    X(SCOPE, "scope", 0, "NAME", NULL, NULL, TEXT, 0, 0, "the scope in which the key counts")      \
    X(REQUEST, "request", 0, "TEXT", NULL, NULL, TEXT, 0, 0,                                       \
      "what is asked for; the same key must come with the same request")                           \
    X(POLICY, "policy", 0, "resume|rerun|fail", NULL, NULL, CHOICE, 0, 0,                          \
      "what to do where another stopped half-way")                                                 \
    X(EXPIRY, "expiry", 0, "DURATION", "24h", NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,            \
      "how long the answer is kept and given again, or forever (100 years)")                       \
    X(LOCK, "lock", 0, "DURATION", NULL, NULL, DURATION, TIDE_LEASE_MIN_US, TIDE_LEASE_MAX_US,     \
      "how long it is held before another may take over")

#define TIDE_CLI_OPTIONS_ACCESS(X)                                                                 \
    X(CONFIG, "config", 0, "FILE", NULL, "TIDEMARK_CONFIG", TEXT, 0, 0,                            \
      "settings from this file: NAME = VALUE, one per line")                                       \
    X(ROLE, "role", 0, "ingest|read|write|admin", "read", NULL, CHOICE, 0, 0, "role of the token") \
    X(AGENT, "agent", 0, "NAME", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX, "for this agent only")  \
    X(EXPIRES, "expires", 0, "DURATION", NULL, NULL, DURATION, 1, TIDE_CLI_DURATION_MAX,           \
      "ends by itself after this long")

/* For programs that serve. Limits of the network have rows of their own (net/http/limits.h) and are
 * set by --net-limit. */
#define TIDE_CLI_OPTIONS_SERVICE(X)                                                                \
    X(LISTEN, "listen", 0, "ADDR", NULL, NULL, TEXT, 0, 0,                                         \
      "where to serve: HOST:PORT (0 picks a port) or unix:PATH")                                   \
    X(GRPC, "grpc", 0, "ADDR", "127.0.0.1:4317", NULL, TEXT, 0, 0,                                 \
      "where to serve gRPC: HOST:PORT (0 picks a port) or unix:PATH")                              \
    X(HTTP, "http", 0, "ADDR", "127.0.0.1:4318", NULL, TEXT, 0, 0,                                 \
      "where to serve HTTP: HOST:PORT (0 picks a port) or unix:PATH")                              \
    X(NAME, "name", 0, "NAME", NULL, NULL, TEXT, 0, 0, "name (default: the host's)")               \
    X(TLS_CERT, "tls-cert", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                     \
      "serve TLS with this certificate (PEM, with its chain)")                                     \
    X(TLS_KEY, "tls-key", 0, "FILE", NULL, NULL, TEXT, 0, 0, "the certificate's key (PEM)")        \
    X(TLS_CA, "tls-ca", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                         \
      "check clients' certificates against these authorities (PEM)")                               \
    X(CLIENT_CERTS, "client-certs", 0, "none|optional|required", "none", NULL, CHOICE, 0, 0,       \
      "certificates of clients (mutual TLS)")                                                      \
    X(TOKEN_FILE, "token-file", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                 \
      "further tokens: NAME ROLE TOKEN-OR-SHA256 per line")                                        \
    X(REQUIRE_TOKEN, "require-token", 0, NULL, NULL, NULL, FLAG, 0, 0,                             \
      "demand a token from callers of this machine, too")                                          \
    X(LOCAL_ROLE, "local-role", 0, "none|ingest|read|write|admin", "ingest", NULL, CHOICE, 0, 0,   \
      "what other users of this machine may do without a token")                                   \
    X(TRUSTED_SQL, "trusted-sql", 0, NULL, NULL, NULL, FLAG, 0, 0,                                 \
      "let admins run SQL inside the daemon, where a duckdb: store leaves no other way")           \
    X(EXPORT_DIR, "export-dir", 0, "DIR", NULL, NULL, TEXT, 0, 0,                                  \
      "let callers export below this directory (default: nowhere)")                                \
    X(INSECURE, "insecure", 0, NULL, NULL, NULL, FLAG, 0, 0,                                       \
      "serve other machines without TLS; they need tokens all the same")                           \
    X(ALLOW_HOST, "allow-host", 0, "NAME", NULL, NULL, TEXTS, 0, 64,                               \
      "a name of this machine that callers without a token may use, besides localhost")            \
    X(NET_LIMIT, "net-limit", 0, "NAME=N", NULL, NULL, TEXTS, 0, 64,                               \
      "set a limit of the network; an unknown NAME lists them")                                    \
    X(LOG_LEVEL, "log-level", 0, "error|warn|info|debug", "info", NULL, CHOICE, 0, 0,              \
      "what to log on stderr")                                                                     \
    X(LOG_FORMAT, "log-format", 0, "logfmt|json", "logfmt", NULL, CHOICE, 0, 0, "how to log")      \
    X(KEEP_FOR, "keep-for", 0, "DURATION", "1h", NULL, DURATION, 1000000, TIDE_CLI_DURATION_MAX,   \
      "how long records are kept after their arrival")                                             \
    X(KEEP_BYTES, "keep-bytes", 0, "SIZE", "1GiB", NULL, SIZE, 1 << 20, INT64_C(1) << 50,          \
      "how much is kept; unread records are kept beyond it")                                       \
    X(HARD_FOR, "hard-for", 0, "DURATION", "24h", NULL, DURATION, 1000000, TIDE_CLI_DURATION_MAX,  \
      "unread records are given up after this long, with a receipt")                               \
    X(HARD_BYTES, "hard-bytes", 0, "SIZE", "4GiB", NULL, SIZE, 1 << 20, INT64_C(1) << 50,          \
      "unread records are given up beyond this size, with a receipt")                              \
    X(READER_IDLE, "reader-idle", 0, "DURATION", "24h", NULL, DURATION, 1000000,                   \
      TIDE_CLI_DURATION_MAX, "a reader that is away so long is forgotten")                         \
    X(DEMO, "demo", 0, NULL, NULL, NULL, FLAG, 0, 0,                                               \
      "with agents, work and faults on request, to look at")                                       \
    X(DEMO_AGENTS, "demo-agents", 0, "N", "8", NULL, NUMBER, 1, 2000,                              \
      "how many agents it has; beyond the first 4 they are simulated")                             \
    X(REPLICA, "replica", 0, "NAME=FILE", NULL, NULL, TEXTS, 0, 16,                                \
      "serve this SQLite database and keep it in sync, at /replica/NAME")                          \
    X(REPLICA_PEER, "replica-peer", 0, "NAME=ADDR", NULL, NULL, TEXTS, 0, 64,                      \
      "a peer of the database NAME: HOST:PORT, http://HOST:PORT/replica/NAME, or the name of "     \
      "another one here")                                                                          \
    X(COLLECT, "collect", 0, "DURATION", "15s", NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,          \
      "between looks at this machine's /proc; 0s: never")                                          \
    X(SAMPLE, "sample", 0, "PERCENT", "100", NULL, NUMBER, 0, 100,                                 \
      "how many spans are kept of those that neither failed nor took 500 ms")                      \
    X(CODEC, "codec", 0, "lz4|zstd|none", "lz4", NULL, CHOICE, 0, 0, "how records are packed")     \
    X(QUEUE, "queue", 0, "SIZE", "64MiB", NULL, SIZE, 1 << 20, INT64_C(1) << 40,                   \
      "queue of records before the disk; when it is full, clients must retry")                     \
    X(NO_DECLARE, "no-declare", 0, NULL, NULL, NULL, FLAG, 0, 0,                                   \
      "refuse records of streams that were not declared")

#define TIDE_CLI_OPTIONS_COLONY(X)                                                                 \
    X(AGENTS, "agents", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                         \
      "further agents: NAME ADDRESS per line")                                                     \
    X(ONCE, "once", 0, NULL, NULL, NULL, FLAG, 0, 0, "until everything is caught up, then end")    \
    X(DATA_TYPE, "data-type", 0, "TYPE", NULL, NULL, TEXT, 0, 0, "only this data type")            \
    X(CLOSED, "closed", 0, NULL, NULL, NULL, FLAG, 0, 0, "also sessions and epochs that are over") \
    X(OFFLINE, "offline", 0, NULL, NULL, NULL, FLAG, 0, 0, "do not ask the agents")                \
    X(GRACE, "grace", 0, "DURATION", "10s", NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,              \
      "how long a missing number may still come before it is a gap (agents that do not say)")      \
    X(RECOVER_EVERY, "recover-every", 0, "DURATION", "5m", NULL, DURATION, 1000000,                \
      TIDE_CLI_DURATION_MAX, "between two attempts to recover a gap")                              \
    X(ATTEMPTS, "attempts", 0, "N", "3", NULL, NUMBER, 1, 100, "attempts to recover a gap")        \
    X(WORKERS, "workers", 0, "N", "4", NULL, NUMBER, 1, 64, "threads that store answers")          \
    X(BUDGET, "budget", 0, "SIZE", "64MiB", NULL, SIZE, 1 << 20, INT64_C(1) << 40,                 \
      "bytes of answers under way")                                                                \
    X(AGENT_CA, "agent-ca", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                     \
      "speak TLS with agents, and check their certificates against this authority (PEM)")          \
    X(AGENT_CERT, "agent-cert", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                 \
      "the colony's own certificate for agents (PEM)")                                             \
    X(AGENT_KEY, "agent-key", 0, "FILE", NULL, NULL, TEXT, 0, 0, "its key (PEM)")                  \
    X(AGENT_TOKEN_FILE, "agent-token-file", 0, "FILE", NULL, NULL, TEXT, 0, 0,                     \
      "the token that agents are shown: the file's first line")                                    \
    X(AGENT_INSECURE, "agent-insecure", 0, NULL, NULL, NULL, FLAG, 0, 0,                           \
      "send the token to other machines without TLS")                                              \
    X(DUCKDB_LIBRARY, "duckdb-library", 0, "FILE", NULL, "TIDEMARK_DUCKDB", TEXT, 0, 0,            \
      "where libduckdb.so is, for stores of DuckDB")                                               \
    X(PARQUET, "parquet", 0, "DIR", NULL, NULL, TEXT, 0, 0, "write Parquet files below this one")  \
    X(LAKE, "lake", 0, "URL", NULL, NULL, TEXT, 0, 0,                                              \
      "append to tables of the lake in this store ('tidemark lake init')")                         \
    X(SCHEMA, "schema", 0, "NAME", NULL, NULL, TEXT, 0, 0, "of the tables in the catalog; main")

#define TIDE_CLI_OPTIONS_REPLICA(X)                                                                \
    X(RETAIN, "retain", 0, "DURATION", "7d", NULL, DURATION, 0, TIDE_CLI_DURATION_MAX,             \
      "how long events of these tables are kept at least")                                         \
    X(SNAPSHOT_EVERY, "snapshot-every", 0, "DURATION", "24h", NULL, DURATION, 1000000,             \
      TIDE_CLI_DURATION_MAX, "between snapshots of the tracked tables")                            \
    X(SNAPSHOT_DIR, "snapshot-dir", 0, "DIR", NULL, NULL, TEXT, 0, 0,                              \
      "where they are kept, instead of DB-snapshots")                                              \
    X(PULL, "pull", 0, NULL, NULL, NULL, FLAG, 0, 0, "only take what the peers have")              \
    X(PUSH, "push", 0, NULL, NULL, NULL, FLAG, 0, 0, "only give the peers what they lack")         \
    X(OURS, "ours", 0, NULL, NULL, NULL, FLAG, 0, 0, "keep what the table shows")                  \
    X(THEIRS, "theirs", 0, NULL, NULL, NULL, FLAG, 0, 0, "write what was lost again")              \
    X(VALUE, "value", 0, "JSON", NULL, NULL, TEXT, 0, 0, "write this value instead")               \
    X(RESCAN, "rescan", 0, NULL, NULL, NULL, FLAG, 0, 0,                                           \
      "compare all rows with what is known of them: what no trigger saw becomes events")           \
    X(REPAIR, "repair", 0, NULL, NULL, NULL, FLAG, 0, 0, "put right what differs, at both")        \
    X(PEER, "peer", 0, "HOST:PORT", NULL, NULL, TEXTS, 0, 64, "sync with this peer")               \
    X(PEER_CA, "peer-ca", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                       \
      "speak TLS with peers, and check their certificates against this authority (PEM)")           \
    X(PEER_CERT, "peer-cert", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                   \
      "this node's own certificate for peers (PEM)")                                               \
    X(PEER_KEY, "peer-key", 0, "FILE", NULL, NULL, TEXT, 0, 0, "its key (PEM)")                    \
    X(PEER_TOKEN_FILE, "peer-token-file", 0, "FILE", NULL, NULL, TEXT, 0, 0,                       \
      "the token that peers are shown: the file's first line")                                     \
    X(PEER_INSECURE, "peer-insecure", 0, NULL, NULL, NULL, FLAG, 0, 0,                             \
      "send the token to other machines without TLS")

#define TIDE_CLI_OPTIONS_LAKE(X)                                                                   \
    X(CATALOGS, "catalogs", 0, "N", "1", NULL, NUMBER, 1, 1000, "how many catalogs to write to")   \
    X(WRITERS, "writers", 0, "N", "8", NULL, NUMBER, 1, 256,                                       \
      "how many processes write at once, each with a connection of its own")                       \
    X(SECONDS, "seconds", 0, "N", "10", NULL, NUMBER, 1, 86400, "for how long")                    \
    X(KILL, "kill", 0, NULL, NULL, NULL, FLAG, 0, 0,                                               \
      "end writers with kill -9 now and then, and start them again")                               \
    X(AT, "at", 0, "SNAPSHOT|TIME", NULL, NULL, TEXT, 0, 0,                                        \
      "as it was at this snapshot, or at this time; the newest")                                   \
    X(CATALOG, "catalog", 0, "NAME", NULL, NULL, TEXT, 0, 0, "the catalog")                        \
    X(CREATE, "create", 0, NULL, NULL, NULL, FLAG, 0, 0, "make the catalog if there is none")      \
    X(CASCADE, "cascade", 0, NULL, NULL, NULL, FLAG, 0, 0, "with everything that is in it")        \
    X(WHERE, "where", 0, "CONDITION", NULL, NULL, TEXT, 0, 0,                                      \
      "which rows: an SQL condition over the table's columns")                                     \
    X(ISOLATION, "isolation", 0, "serializable|snapshot", "serializable", NULL, CHOICE, 0, 0,      \
      "snapshot: rows that others append meanwhile stay")                                          \
    X(FORMAT, "format", 0, "auto|parquet|csv|json", "auto", NULL, CHOICE, 0, 0,                    \
      "format of the rows; auto: by the name, or by the first bytes")                              \
    X(FILE, "file", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                             \
      "one operation per line, as JSON; - is stdin")                                               \
    X(REQUEST_KEY, "request-key", 0, "KEY", NULL, NULL, TEXT, 0, 0,                                \
      "done once under this key: the second time the first answer is given")                       \
    X(AUTHOR, "author", 0, "NAME", NULL, NULL, TEXT, 0, 0, "author, stored with the snapshot")     \
    X(ORPHANS, "orphans", 0, NULL, NULL, NULL, FLAG, 0, 0,                                         \
      "also files that no snapshot names: left by writers that died")                              \
    X(DESKS, "desks", 0, "N", "3", NULL, NUMBER, 1, 64,                                            \
      "how many queries, appends and deletes run at once, each with a DuckDB of its own")

#define TIDE_CLI_OPTIONS_SQL(X)                                                                    \
    X(CSV, "csv", 0, NULL, NULL, NULL, FLAG, 0, 0, "print comma-separated values")                 \
    X(PARAM, "param", 0, "NAME=VALUE", NULL, NULL, TEXTS, 0, TIDE_CLI_TEXTS_MAX,                   \
      "value of :NAME: a number where it looks like one, else a text; 'TEXT' in any case")         \
    X(WRITE, "write", 0, NULL, NULL, NULL, FLAG, 0, 0, "let rows be changed")

/* Asking a service instead of opening a store; watching. */
#define TIDE_CLI_OPTIONS_REACH(X)                                                                  \
    X(ADDRESS, "address", 0, "ADDR", NULL, "TIDEMARK_ADDRESS", TEXT, 0, 0,                         \
      "ask the service there, and open no store: HOST:PORT, https://HOST:PORT or unix:PATH")       \
    X(SERVICE_CA, "service-ca", 0, "FILE", NULL, NULL, TEXT, 0, 0,                                 \
      "speak TLS with the service, and check its certificate against this authority (PEM)")        \
    X(SERVICE_CERT, "service-cert", 0, "FILE", NULL, NULL, TEXT, 0, 0,                             \
      "the caller's own certificate for the service (PEM)")                                        \
    X(SERVICE_KEY, "service-key", 0, "FILE", NULL, NULL, TEXT, 0, 0, "its key (PEM)")              \
    X(SERVICE_INSECURE, "service-insecure", 0, NULL, NULL, NULL, FLAG, 0, 0,                       \
      "send the token to another machine without TLS")                                             \
    X(WARNING, "warning", 0, "LEVEL", NULL, NULL, TEXT, 0, 0, "from where on it is a warning")     \
    X(CRITICAL, "critical", 0, "LEVEL", NULL, NULL, TEXT, 0, 0, "from where on it is critical")    \
    X(SORT, "sort", 0, "agent|behind|lag|loss|gaps", "agent", NULL, CHOICE, 0, 0,                  \
      "what agents are sorted by, the worst first")                                                \
    X(MAN, "man", 0, NULL, NULL, NULL, FLAG, 0, 0, "as a manual page, for man -l")

#define TIDE_CLI_OPTIONS(X)                                                                        \
    TIDE_CLI_OPTIONS_COMMON(X)                                                                     \
    TIDE_CLI_OPTIONS_GENERAL(X)                                                                    \
    TIDE_CLI_OPTIONS_WORK(X)                                                                       \
    TIDE_CLI_OPTIONS_JOURNAL(X)                                                                    \
    TIDE_CLI_OPTIONS_IDEMPOTENCY(X)                                                                \
    TIDE_CLI_OPTIONS_ACCESS(X)                                                                     \
    TIDE_CLI_OPTIONS_SERVICE(X)                                                                    \
    TIDE_CLI_OPTIONS_COLONY(X)                                                                     \
    TIDE_CLI_OPTIONS_REPLICA(X)                                                                    \
    TIDE_CLI_OPTIONS_LAKE(X)                                                                       \
    TIDE_CLI_OPTIONS_REACH(X)                                                                      \
    TIDE_CLI_OPTIONS_SQL(X)
