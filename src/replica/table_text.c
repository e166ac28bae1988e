/* table_text.c - the lists of a table's columns and keys that templates ask for. */
#include "replica/table_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/cleanup.h"

typedef struct lists {
    tide_arena arena;
    bool is_full; /* no memory */
} lists;

static void lists_done(lists *l)
{
    tide_arena_done(&l->arena);
}

static tide_template_item *make_items(lists *l, int count)
{
    const size_t len = (size_t)(count > 0 ? count : 1) * sizeof(tide_template_item);
    tide_template_item *items = tide_arena_alloc(&l->arena, len);
    if (items)
        memset(items, 0, len);
    else
        l->is_full = true;
    return items;
}

/* loose: 1 and 1.0 differ. edge, low: only -2^63 has a REAL that is equal and stays one; low is found when the log is folded. wide: may have a collation. short: costs nothing to log.
 * number, text: what it makes of what is stored. */
static const char *name_flags(const tide_table_column *column)
{
    switch (column->affinity) {
    case TIDE_AFFINITY_INTEGER:
        return column->is_key ? "key short number" : "low short number";
    case TIDE_AFFINITY_REAL:
        return column->is_key ? "key short number" : "short number";
    case TIDE_AFFINITY_TEXT:
        return column->is_key ? "key wide short text" : "wide text";
    case TIDE_AFFINITY_NUMERIC:
        return column->is_key ? "key wide short number" : "edge wide number";
    case TIDE_AFFINITY_NONE:
        break;
    }
    return column->is_key ? "key wide loose short" : "wide loose";
}

static tide_template_item make_column(const tide_table *table, int column)
{
    return (tide_template_item){
        .name = table->columns[column].name,
        .n = column + 1,
        .p = TIDE_TABLE_COLUMN_PARAM + column,
        .sql = table->columns[column].fallback ? table->columns[column].fallback : "NULL",
        .flags = name_flags(&table->columns[column])};
}

static tide_template_list list_columns(lists *l, const tide_table *table, const char *hole,
                                       const int *some, int count)
{
    tide_template_item *items = make_items(l, count);
    for (int i = 0; items && i < count; i++)
        items[i] = make_column(table, some ? some[i] : i);
    return (tide_template_list){.hole = hole, .items = items, .count = items ? count : 0};
}

/* The collation by which the key tells rows apart. */
static const char *key_collation(const tide_table *table, int column)
{
    for (int u = 0; u < table->unique_count; u++)
        for (int i = 0; table->uniques[u].is_key && i < table->uniques[u].term_count; i++)
            if (table->uniques[u].terms[i].column == column)
                return table->uniques[u].terms[i].collation;
    return "BINARY";
}

/* The key in its own order; n counts its columns. */
static tide_template_list list_key(lists *l, const tide_table *table)
{
    tide_template_item *items = make_items(l, table->key_count);
    for (int i = 0; items && i < table->key_count; i++) {
        items[i] = make_column(table, table->key[i]);
        items[i].n = i + 1;
        items[i].sql = key_collation(table, table->key[i]);
    }
    return (tide_template_list){
        .hole = "key", .items = items, .count = items ? table->key_count : 0};
}

static int count_masks(const tide_table *table)
{
    return (table->column_count + TIDE_TABLE_MASK_BITS - 1) / TIDE_TABLE_MASK_BITS;
}

bool tide_table_is_narrow(const tide_table *table)
{
    return table->column_count <= TIDE_TABLE_NARROW_MAX;
}

/* The mask of an update that has changed nothing: the bit of the key. */
static const char *print_unchanged(lists *l, const tide_table *table, int mask)
{
    char text[32];
    const int bit = table->key[0] - mask * TIDE_TABLE_MASK_BITS;
    const int64_t value = bit >= 0 && bit < TIDE_TABLE_MASK_BITS ? INT64_C(1) << bit : 0;
    const int len = snprintf(text, sizeof text, "%" PRId64, value);
    const char *copy = tide_arena_copy(&l->arena, text, (size_t)len + 1);
    l->is_full = l->is_full || !copy;
    return copy;
}

/* A mask per 60 columns; its changes are those that are not of the key. */
static tide_template_list list_masks(lists *l, const tide_table *table, bool with_empty)
{
    const int count = count_masks(table);
    tide_template_item *items = make_items(l, count);
    int used = 0;
    for (int m = 0; items && m < count; m++) {
        const int first = m * TIDE_TABLE_MASK_BITS;
        const int left = table->column_count - first;
        const int wide = left < TIDE_TABLE_MASK_BITS ? left : TIDE_TABLE_MASK_BITS;
        tide_template_item *changes = make_items(l, wide);
        tide_template_list *inner = tide_arena_alloc(&l->arena, sizeof *inner);
        if (!changes || !inner) {
            l->is_full = true;
            break;
        }
        *inner = (tide_template_list){.hole = "changes", .items = changes};
        for (int i = 0; i < wide; i++) {
            if (table->columns[first + i].is_key)
                continue;
            changes[inner->count] = make_column(table, first + i);
            changes[inner->count++].bit = i;
        }
        if (inner->count > 0 || with_empty)
            items[used++] = (tide_template_item){.n = m + 1,
                                                 .p = 3 + m,
                                                 .sql = print_unchanged(l, table, m),
                                                 .lists = inner,
                                                 .list_count = 1};
    }
    return (tide_template_list){
        .hole = with_empty ? "masks" : "changing", .items = items, .count = used};
}

bool tide_table_unique_is_rowid(const tide_table_unique *unique)
{
    return unique->term_count == 1 && unique->terms[0].column == -3;
}

/* A default that means the same in a trigger: a number, a text or a blob. */
static bool is_literal(const char *text)
{
    return text &&
           (strchr("0123456789+-.'", *text) ||
            (strchr("xX", *text) && text[0] != '\0' && text[1] == '\'')) &&
           *text != '\0';
}

/* given: NULL is not allowed, and what a REPLACE puts in its place is known. */
static tide_template_item make_plain(lists *l, const tide_table *table, const tide_table_term *term)
{
    const tide_table_column *column = &table->columns[term->column];
    tide_template_item made = {.name = column->name,
                               .p = TIDE_TABLE_COLUMN_PARAM + term->column,
                               .sql = term->collation,
                               .flags = "plain"};
    if (!column->is_not_null || !is_literal(column->fallback))
        return made;
    tide_template_item *fallback = make_items(l, 1);
    tide_template_list *inner = tide_arena_alloc(&l->arena, sizeof *inner);
    if (!fallback || !inner) {
        l->is_full = true;
        return made;
    }
    fallback->sql = column->fallback;
    *inner = (tide_template_list){.hole = "fallback", .items = fallback, .count = 1};
    made.flags = "plain given";
    made.lists = inner;
    made.list_count = 1;
    return made;
}

static tide_template_item make_term(lists *l, const tide_table *table, const tide_table_term *term)
{
    if (term->column >= 0)
        return make_plain(l, table, term);
    if (term->column == -1)
        return (tide_template_item){.sql = term->sql, .flags = "made"};
    if (term->column == -2)
        return (tide_template_item){.name = term->name, .sql = term->collation, .flags = "plain"};
    return (tide_template_item){.name = term->name, .flags = "rowid"};
}

/* Can a REPLACE by this unique key remove a row with another key? By the key itself where SQLite finds equal what are two keys: by a collation, or 1 and
 * 1.0 in a column without a type. */
static bool has_doubles(const tide_table *table, const tide_table_unique *unique)
{
    for (int i = 0; unique->is_key && i < unique->term_count; i++) {
        const tide_table_term *term = &unique->terms[i];
        if (term->column < 0 || table->columns[term->column].affinity == TIDE_AFFINITY_NONE ||
            (term->collation && strcasecmp(term->collation, "BINARY") != 0))
            return true;
    }
    return !unique->is_key;
}

/* Of stored columns or the rowid alone, and of all rows. */
static bool is_simple(const tide_table_unique *unique)
{
    bool is_plain = !unique->where;
    for (int i = 0; i < unique->term_count; i++)
        is_plain = is_plain && (unique->terms[i].column >= 0 || unique->terms[i].column == -3);
    return is_plain;
}

typedef enum unique_use {
    FOR_RIVALS, /* all but the rowid, which we do not write; each has a parameter of its own, and one per term */
    FOR_DOUBLES, /* of triggers: the simple ones */
    FOR_APART,   /* of triggers: the others */
} unique_use;

static bool is_used(const tide_table *table, const tide_table_unique *unique, unique_use use)
{
    if (use == FOR_RIVALS)
        return !tide_table_unique_is_rowid(unique);
    return has_doubles(table, unique) && is_simple(unique) == (use == FOR_DOUBLES);
}

static tide_template_list list_uniques(lists *l, const tide_table *table, const char *hole,
                                       unique_use use)
{
    tide_template_item *items = make_items(l, table->unique_count);
    int used = 0;
    int param = TIDE_TABLE_COLUMN_PARAM;
    for (int u = 0; items && u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        if (!is_used(table, unique, use))
            continue;
        tide_template_item *terms = make_items(l, unique->term_count);
        tide_template_list *inner = tide_arena_alloc(&l->arena, sizeof *inner);
        if (!terms || !inner) {
            l->is_full = true;
            break;
        }
        const int first = param;
        for (int i = 0; i < unique->term_count; i++) {
            terms[i] = make_term(l, table, &unique->terms[i]);
            terms[i].p = ++param;
        }
        param++;
        *inner = (tide_template_list){.hole = "terms", .items = terms, .count = unique->term_count};
        items[used++] = (tide_template_item){.p = first,
                                             .sql = unique->where,
                                             .flags = unique->where ? "partial" : "whole",
                                             .lists = inner,
                                             .list_count = 1};
    }
    return (tide_template_list){.hole = hole, .items = items, .count = used};
}

/* The columns whose change can make an update collide; none: any may. */
static tide_template_list list_watched(lists *l, const tide_table *table, const char **flags)
{
    tide_template_item *items = make_items(l, table->column_count);
    bool is_hidden = false;
    bool is_plain = true;
    int used = 0;
    for (int u = 0; u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        if (!has_doubles(table, unique))
            continue;
        is_plain = is_plain && !unique->where;
        for (int i = 0; i < unique->term_count; i++) {
            const int column = unique->terms[i].column;
            is_hidden = is_hidden || column == -3;
            is_plain = is_plain && (column >= 0 || column == -3);
            if (items && column >= 0 && used < table->column_count)
                items[used++] = make_column(table, column);
        }
    }
    if (is_plain && used == 0 && is_hidden)
        *flags = "unwatched"; /* the rowid alone */
    else if (!is_plain || used == 0)
        *flags = "any";
    else
        *flags = is_hidden ? "watched hidden" : "watched";
    return (tide_template_list){.hole = "watched", .items = items, .count = is_plain ? used : 0};
}

/* What the rowid is called in this table. */
static const char *name_rowid(const tide_table *table)
{
    for (int u = 0; u < table->unique_count; u++)
        if (tide_table_unique_is_rowid(&table->uniques[u]))
            return table->uniques[u].terms[0].name;
    return "rowid";
}

bool tide_table_has_doubles(const tide_table *table)
{
    for (int u = 0; u < table->unique_count; u++)
        if (has_doubles(table, &table->uniques[u]))
            return true;
    return false;
}

static const char *quote(lists *l, const char *name)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    const char *copy = tide_template_quote(&text, name) < TIDE_OK
                           ? NULL
                           : tide_arena_copy(&l->arena, tide_buffer_text(&text), text.len + 1);
    l->is_full = l->is_full || !copy;
    return copy ? copy : "";
}

/* name: this table's column, or with is_parent the parent's; sql: the parent's, quoted. */
static tide_template_list list_pairs(lists *l, const tide_table *table, const tide_table_fill *fill)
{
    if (table->foreign_count == 0)
        return (tide_template_list){.hole = "pairs"};
    const tide_table_foreign *foreign = &table->foreign[fill->foreign];
    tide_template_item *items = make_items(l, foreign->count);
    for (int i = 0; items && i < foreign->count; i++) {
        const int column = foreign->column[i] >= 0 ? foreign->column[i] : 0;
        items[i] = make_column(table, column);
        items[i].sql = quote(l, foreign->parent_name[i]);
        if (fill->is_parent)
            items[i].name = foreign->parent_name[i];
        else
            items[i].p = TIDE_TABLE_COLUMN_PARAM + i;
    }
    return (tide_template_list){
        .hole = "pairs", .items = items, .count = items ? foreign->count : 0};
}

tide_status tide_table_text(tide_buffer *out, const tide_table *table,
                            const tide_template *template, const tide_table_fill *fill,
                            tide_error *err)
{
    static const tide_table_fill nothing = {0};
    if (!fill)
        fill = &nothing;
    TIDE_CLEANUP(lists_done) lists l = {0};
    tide_arena_init(&l.arena, TIDE_TABLE_TEXT_MAX);
    const char *watched = "";
    const tide_template_list all[] = {
        list_columns(&l, table, "columns", NULL, table->column_count),
        list_columns(&l, table, "keycolumns", table->key, table->key_count),
        list_columns(&l, table, "some", fill->some, fill->some_count),
        list_key(&l, table),
        list_masks(&l, table, true),
        list_masks(&l, table, false),
        list_uniques(&l, table, "uniques", FOR_RIVALS),
        list_uniques(&l, table, "doubles", FOR_DOUBLES),
        list_uniques(&l, table, "apart", FOR_APART),
        list_watched(&l, table, &watched),
        list_pairs(&l, table, fill),
    };
    if (l.is_full)
        return tide_no_memory(err);
    char flags[64];
    const bool is_doubled = all[7].count > 0; /* doubles */
    (void)snprintf(flags, sizeof flags, "%s%s%s%s", watched,
                   tide_table_is_narrow(table) ? " narrow" : "", is_doubled ? " doubled" : "",
                   tide_table_is_key_nullable(table) ? " nullable" : "");
    const tide_template_value values[] = {
        {.hole = "table", .name = table->name},
        {.hole = "id", .number = table->id},
        {.hole = "rowid", .name = name_rowid(table)},
        {.hole = "view", .name = fill->view ? fill->view : ""},
        {.hole = "node", .name = fill->node ? fill->node : ""},
        {.hole = "renamed", .name = fill->renamed ? fill->renamed : ""},
        {.hole = "parent",
         .name = table->foreign_count > 0 ? table->foreign[fill->foreign].parent : ""},
    };
    const tide_template_context context = {.values = values,
                                           .value_count = sizeof values / sizeof *values,
                                           .lists = all,
                                           .list_count = sizeof all / sizeof *all,
                                           .flags = flags};
    return tide_template_fill(out, template, &context, err);
}
