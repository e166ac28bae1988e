/* sql_template.h - statements for tables whose names are known only at run time: texts with holes,
 * filled with quoted names.
 *
 * A template stands in sql/ as a `-- template: NAME` block and reads as SQL. Holes:
 *
 *     {{table}}                       a value of the context: a name, quoted, or a number
 *     {{each LIST SEP}} .. {{end}}    the text once per item of a list, SEP between them
 *     {{name}} {{n}} {{p}} {{bit}}    inside: the item's name, quoted; its numbers
 *     {{sql}}                         inside: its text as it is, from the file's own schema (an
 *                                     index's expression)
 *     {{if FLAG}} .. {{end}}          only where the innermost item that has flags, or the context,
 *                                     has the flag; {{if !FLAG}} the opposite
 *
 * Lists may hold lists. A name is written between double quotes with those inside doubled, so
 * nothing of it can leave them; one that holds a NUL cannot exist in SQLite.
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>

#include "base/buffer.h"

typedef struct tide_template {
    const char *name;
    const char *text;
} tide_template;

typedef struct tide_template_list tide_template_list;

typedef struct tide_template_item {
    const char *name;
    int64_t n;
    int64_t p;
    int64_t bit;
    const char *sql;   /* NULL: none */
    const char *flags; /* words with blanks between; NULL: none */
    const tide_template_list *lists;
    int list_count;
} tide_template_item;

struct tide_template_list {
    const char *hole;
    const tide_template_item *items;
    int count;
};

typedef struct tide_template_value {
    const char *hole;
    const char *name; /* NULL: the number */
    int64_t number;
} tide_template_value;

typedef struct tide_template_context {
    const tide_template_value *values;
    int value_count;
    const tide_template_list *lists;
    int list_count;
    const char *flags;
} tide_template_context;

/* Append the filled text. A hole that the context does not know is a bug, and asserts.
 * TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_template_fill(tide_buffer *out, const tide_template *template,
                                               const tide_template_context *context,
                                               tide_error *err);

/* A name between double quotes. */
TIDE_MUST_CHECK tide_status tide_template_quote(tide_buffer *out, const char *name);
