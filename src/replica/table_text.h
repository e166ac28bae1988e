/* table_text.h - filling templates for a table: see table.h. */
#pragma once

#include "replica/table.h"
#include "store/sql_template.h"

/* What a template may want besides the table itself. */
typedef struct tide_table_fill {
    const int *some; /* columns */
    int some_count;
    int foreign;         /* of the table's foreign keys */
    bool is_parent;      /* pairs are the parent's columns */
    const char *view;    /* NULL: none */
    const char *renamed; /* NULL: none */
    const char *node;    /* the column of an event's origin; NULL: none */
} tide_table_fill;

enum { TIDE_TABLE_TEXT_MAX = 4 << 20 };

/* Append the template's text, filled for this table. */
TIDE_MUST_CHECK tide_status tide_table_text(tide_buffer *out, const tide_table *table,
                                            const tide_template *template,
                                            const tide_table_fill *fill, tide_error *err);

/* Not a key of the schema, but the number that SQLite gives to rows. */
bool tide_table_unique_is_rowid(const tide_table_unique *unique);

/* Does the table have unique keys besides its key, by which a REPLACE could remove other rows? */
bool tide_table_has_doubles(const tide_table *table);
