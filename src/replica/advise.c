/* advise.c - what whoever tracks a table should know of it (capture.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "tidemark_templates.h"

typedef struct advising {
    const char *name;
    tide_tracked *out;
    size_t len; /* of what stood there before */
} advising;

__attribute__((format(printf, 2, 3))) static void say(tide_tracked *out, const char *format, ...)
{
    const size_t len = strlen(out->advice);
    const int dash =
        snprintf(out->advice + len, sizeof out->advice - len, "%s", len > 0 ? "; " : "");
    const size_t at = len + (size_t)dash;
    va_list args;
    if (at >= sizeof out->advice)
        return;
    va_start(args, format);
    (void)vsnprintf(out->advice + at, sizeof out->advice - at, format, args);
    va_end(args);
}

static void tell_numbers(tide_tracked *out, const tide_table *table)
{
    if (table->is_rowid_key)
        say(out,
            "%s: two nodes give the same number to different rows, because SQLite continues from "
            "the highest number in the table (%s is INTEGER PRIMARY KEY); such rows become "
            "conflicts. Ranges of numbers per node do not help, nor does AUTOINCREMENT; use UUIDs",
            table->name, table->columns[table->key[0]].name);
}

/* Nothing holds a row back whose parent is not replicated. */
static void tell_parents(tide_tracked *out, tide_foreign_tx *tx, const tide_table *table)
{
    for (int i = 0; i < table->foreign_count; i++) {
        tide_error why;
        int64_t is_tracked = 0;
        if (tide_foreign_number(&is_tracked, tx, TIDE_TEMPLATE_REPLICA_TABLE_IS_TRACKED->text, &why,
                                tide_bind_text("name", table->foreign[i].parent)) == TIDE_OK &&
            is_tracked == 0)
            say(out,
                "%s refers to table %s, which is not tracked: other nodes may show rows without "
                "their parents; track %s as well",
                table->name, table->foreign[i].parent, table->foreign[i].parent);
    }
}

static tide_status tell_nameless(tide_tracked *out, tide_foreign_tx *tx, const tide_table *table,
                                 tide_error *err)
{
    if (!tide_table_is_key_nullable(table))
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_COUNT_NAMELESS, err);
    TIDE_TRY(tide_foreign_step(query, err));
    const int64_t count = tide_foreign_col_i64(query);
    if (count > 0)
        say(out,
            "%lld rows of %s have NULL in their PRIMARY KEY: no other node could find them, so "
            "they stay here alone",
            (long long)count, table->name);
    return TIDE_OK;
}

/* An application that does not switch foreign keys on may have children without parents. They stay,
 * and the reference holds nothing back on any node (references.h). */
static void tell_orphans(tide_tracked *out, tide_foreign_tx *tx, const char *name)
{
    tide_error why;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (tide_foreign_begin(&query, tx, TIDE_TEMPLATE_REPLICA_ORPHANS->text, &why) < TIDE_OK)
        return;
    tide_foreign_bind_text(query, "name", tide_view_of(name));
    /* A foreign key that fits no unique key is an error here, and the application's own business. */
    if (tide_foreign_step(query, &why) != TIDE_OK)
        return;
    const tide_view child = tide_foreign_col_bytes(query);
    const tide_view parent = tide_foreign_col_bytes(query);
    const int64_t count = tide_foreign_col_i64(query);
    say(out,
        "%lld rows of %.*s refer to rows of %.*s that are not there: they stay, and the foreign "
        "key holds no rows back on any node",
        (long long)count, (int)child.len, child.ptr, (int)parent.len, parent.ptr);
}

static tide_status advise(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const advising *a = arg;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    a->out->advice[a->len] = '\0'; /* a closure may run again */
    TIDE_TRY(tide_table_read(&table, tx, a->name, err));
    tell_numbers(a->out, &table);
    tell_parents(a->out, tx, &table);
    TIDE_TRY(tell_nameless(a->out, tx, &table, err));
    tell_orphans(a->out, tx, a->name);
    return TIDE_OK;
}

tide_status tide_capture_advise(tide_foreign_db *file, const char *table, tide_tracked *out,
                                tide_error *err)
{
    advising a = {.name = table, .out = out, .len = strlen(out->advice)};
    return tide_foreign_read(file, advise, &a, err);
}
