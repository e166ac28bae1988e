/* raw_sql.h - a foreign client in C: plain SQL on a store's file or database, past the library.
 *
 * Statements are given like printf. raw_ok fails the case when the store refuses; raw_refuse when it accepts, or refuses
 * with other words. Foreign keys are off on SQLite, as in most clients. %s of raw_time() is a time as the engine
 * writes it.
 *
 * Threads: one connection belongs to one thread. */
#pragma once

#include <libpq-fe.h>
#include <sqlite3.h>

#include "support/store_fixture.h"

enum { RAW_TEXT_SIZE = 8192 };

typedef struct raw_sql {
    tide_engine engine;
    sqlite3 *db;
    PGconn *pg;
    char text[RAW_TEXT_SIZE]; /* the last answer */
    char error[1024];         /* the last refusal */
    char sqlstate[8];
} raw_sql;

void raw_open(raw_sql *raw, const store_test *t);
void raw_close(raw_sql *raw);

/* Accepted? */
bool raw_try(raw_sql *raw, const char *format, ...) __attribute__((format(printf, 2, 3)));
void raw_ok(raw_sql *raw, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* why: part of the store's words; on PostgreSQL the SQLSTATE must be one of integrity. */
void raw_refuse(raw_sql *raw, const char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The answer: columns joined by '|', rows by a space; NULL is "-". Valid until the next call. */
const char *raw_text(raw_sql *raw, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t raw_number(raw_sql *raw, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An expression for the real time, so many seconds from now. One of a few buffers, used in turn. */
const char *raw_time(const raw_sql *raw, int seconds);
