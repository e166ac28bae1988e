#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/replica/world.h"

/* The columns that are a table's key, in its order; the one that takes texts which are written once. */
typedef struct layout {
    const char *key[2];
    const char *token;
} layout;

static const layout layouts[WORLD_TABLES] = {
    {{"id", NULL}, "city"}, {{"k", NULL}, "body"}, {{"a", "b"}, "c"},
    {{"id", NULL}, "x"},    {{"k", NULL}, "t"},    {{"name", NULL}, "t"},
};

/* ---- values ---- */

static tide_sql_value get_value(sqlite3_stmt *row, int column)
{
    tide_sql_value value = {.kind = TIDE_SQL_VALUE_NULL};
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        value.kind = TIDE_SQL_VALUE_I64;
        value.i64 = sqlite3_column_int64(row, column);
        break;
    case SQLITE_FLOAT:
        value.kind = TIDE_SQL_VALUE_F64;
        value.f64 = sqlite3_column_double(row, column);
        break;
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
        value.kind = sqlite3_column_type(row, column) == SQLITE_TEXT ? TIDE_SQL_VALUE_TEXT
                                                                     : TIDE_SQL_VALUE_BLOB;
        const void *bytes = sqlite3_column_blob(row, column);
        value.bytes = tide_view_bytes(bytes, (size_t)sqlite3_column_bytes(row, column));
        break;
    }
    default:
        break;
    }
    return value;
}

static void describe(char *out, size_t size, const tide_sql_value *value)
{
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        (void)snprintf(out, size, "NULL");
        break;
    case TIDE_SQL_VALUE_I64:
        (void)snprintf(out, size, "%lld", (long long)value->i64);
        break;
    case TIDE_SQL_VALUE_F64:
        (void)snprintf(out, size, "%.17g", value->f64);
        break;
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        (void)snprintf(out, size, "%s'%.*s'", value->kind == TIDE_SQL_VALUE_BLOB ? "x" : "",
                       (int)(value->bytes.len < 12 ? value->bytes.len : 12),
                       value->bytes.len > 0 ? value->bytes.ptr : "");
        break;
    case TIDE_SQL_VALUE_BOOL: /* these two are no values of SQLite */
    case TIDE_SQL_VALUE_TIME:
        (void)snprintf(out, size, "?");
        break;
    }
}

static bool is_token(const tide_sql_value *value)
{
    return value->kind == TIDE_SQL_VALUE_TEXT && value->bytes.len > 2 &&
           value->bytes.ptr[0] == 'w' && value->bytes.ptr[value->bytes.len - 1] == '.';
}

/* ---- cells ---- */

static void add_cell(shown *to, int table, tide_view key, const char *key_text, const char *column,
                     const tide_sql_value *value)
{
    tide_buffer bytes;
    tide_buffer_init(&bytes, 1 << 20);
    char text[32];
    if (value->kind == TIDE_SQL_VALUE_NULL && strcmp(column, "extra") == 0)
        return; /* nobody wrote it: the column was added */
    if (to->count == to->capacity) {
        to->capacity = to->capacity > 0 ? 2 * to->capacity : 64;
        to->cells = realloc(to->cells, (size_t)to->capacity * sizeof *to->cells);
        assert_non_null(to->cells);
    }
    shown_cell *cell = &to->cells[to->count++];
    assert_ok(tide_buffer_append_byte(&bytes, (uint8_t)table));
    assert_ok(tide_buffer_append_view(&bytes, key));
    assert_ok(tide_buffer_append(&bytes, column, strlen(column) + 1));
    assert_ok(tide_sql_value_encode(&bytes, value));
    describe(text, sizeof text, value);
    *cell = (shown_cell){
        .id = tide_digest128_of(tide_buffer_view(&bytes)),
        .table = table,
        .is_token = strcmp(column, layouts[table].token) == 0 && is_token(value),
    };
    (void)snprintf(cell->text, sizeof cell->text, "%s %s %s = %s", world_tables[table], key_text,
                   column, text);
    tide_buffer_done(&bytes);
}

static int compare_cells(const void *a, const void *b)
{
    return memcmp(&((const shown_cell *)a)->id, &((const shown_cell *)b)->id,
                  sizeof(tide_digest128));
}

static void sort(shown *of)
{
    if (of->count > 1)
        qsort(of->cells, (size_t)of->count, sizeof *of->cells, compare_cells);
}

static int find_column(sqlite3_stmt *row, const char *name)
{
    for (int i = 0; i < sqlite3_column_count(row); i++)
        if (strcmp(sqlite3_column_name(row, i), name) == 0)
            return i;
    return -1;
}

static void add_row(shown *to, int table, sqlite3_stmt *row)
{
    tide_buffer key;
    char text[40] = "";
    tide_buffer_init(&key, 1 << 20);
    for (int i = 0; i < 2 && layouts[table].key[i]; i++) {
        const tide_sql_value value = get_value(row, find_column(row, layouts[table].key[i]));
        const size_t len = strlen(text);
        assert_ok(tide_sql_value_encode(&key, &value));
        describe(text + len, sizeof text - len, &value);
    }
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        const char *column = sqlite3_column_name(row, i);
        bool is_key = false;
        for (int k = 0; k < 2 && layouts[table].key[k]; k++)
            is_key = is_key || strcmp(column, layouts[table].key[k]) == 0;
        if (is_key || strcmp(column, "twice") == 0)
            continue;
        const tide_sql_value value = get_value(row, i);
        add_cell(to, table, tide_buffer_view(&key), text, column, &value);
    }
    tide_buffer_done(&key);
}

void shown_take(shown *out, sqlite3 *db)
{
    out->count = 0;
    for (int t = 0; t < WORLD_TABLES; t++) {
        char text[64];
        sqlite3_stmt *row = NULL;
        (void)snprintf(text, sizeof text, "SELECT * FROM %s", world_tables[t]);
        if (sqlite3_prepare_v2(db, text, -1, &row, NULL) != SQLITE_OK)
            continue; /* not there yet */
        while (sqlite3_step(row) == SQLITE_ROW)
            add_row(out, t, row);
        (void)sqlite3_finalize(row);
    }
    sort(out);
}

void shown_done(shown *of)
{
    free(of->cells);
    *of = (shown){.count = 0};
}

const shown_cell *shown_find(const shown *of, const tide_digest128 *id)
{
    const shown_cell wanted = {.id = *id};
    return of->count == 0
               ? NULL
               : bsearch(&wanted, of->cells, (size_t)of->count, sizeof *of->cells, compare_cells);
}

/* ---- what is listed ---- */

static int find_table(const char *name)
{
    for (int t = 0; t < WORLD_TABLES; t++)
        if (strcmp(world_tables[t], name) == 0)
            return t;
    return -1;
}

static void get_column_name(char out[64], sqlite3 *db, const char *table, int64_t column)
{
    char text[256];
    sqlite3_stmt *row = NULL;
    out[0] = '\0';
    (void)snprintf(text, sizeof text,
                   "SELECT c.name FROM tide_replica_columns c JOIN tide_replica_tables t ON t.id = "
                   "c.table_id WHERE t.name = '%s' AND c.position = %lld",
                   table, (long long)column);
    if (sqlite3_prepare_v2(db, text, -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW)
        (void)snprintf(out, 64, "%s", (const char *)sqlite3_column_text(row, 0));
    (void)sqlite3_finalize(row);
}

static tide_view get_bytes(sqlite3_stmt *row, int column)
{
    const void *bytes = sqlite3_column_blob(row, column);
    return tide_view_bytes(bytes, (size_t)sqlite3_column_bytes(row, column));
}

static void describe_key(char *out, size_t size, tide_view key)
{
    tide_reader from = tide_reader_of(key);
    tide_sql_value value;
    size_t len = 0;
    out[0] = '\0';
    while (tide_reader_left(&from) > 0 && tide_sql_value_decode(&value, &from) >= TIDE_OK &&
           len < size) {
        describe(out + len, size - len, &value);
        len = strlen(out);
    }
}

static void add_conflicts(shown *out, sqlite3 *db)
{
    sqlite3_stmt *row = NULL;
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(db,
                                        "SELECT t.name, c.key, c.col, c.value FROM "
                                        "tide_replica_conflicts c JOIN tide_replica_tables t ON "
                                        "t.id = c.table_id WHERE c.col >= 0",
                                        -1, &row, NULL));
    while (sqlite3_step(row) == SQLITE_ROW) {
        char column[64];
        char key_text[40];
        const char *name = (const char *)sqlite3_column_text(row, 0);
        const tide_view key = get_bytes(row, 1);
        tide_reader from = tide_reader_of(get_bytes(row, 3));
        tide_sql_value value;
        get_column_name(column, db, name, sqlite3_column_int64(row, 2));
        describe_key(key_text, sizeof key_text, key);
        assert_ok(tide_sql_value_decode(&value, &from));
        add_cell(out, find_table(name), key, key_text, column, &value);
    }
    (void)sqlite3_finalize(row);
}

static void add_aside(shown *out, sqlite3 *db)
{
    sqlite3_stmt *row = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(
                                    db,
                                    "SELECT t.name, k.key, k.image FROM tide_replica_clocks k JOIN "
                                    "tide_replica_tables t ON t.id = k.table_id WHERE k.aside > 0",
                                    -1, &row, NULL));
    while (sqlite3_step(row) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(row, 0);
        const tide_view key = get_bytes(row, 1);
        tide_reader from = tide_reader_of(get_bytes(row, 2));
        char key_text[40];
        describe_key(key_text, sizeof key_text, key);
        while (tide_reader_left(&from) > 0) {
            uint64_t position = 0;
            char column[64];
            tide_sql_value value;
            assert_ok(tide_reader_varint(&from, &position));
            assert_ok(tide_sql_value_decode(&value, &from));
            get_column_name(column, db, name, (int64_t)position);
            add_cell(out, find_table(name), key, key_text, column, &value);
        }
    }
    (void)sqlite3_finalize(row);
}

void shown_take_listed(shown *conflicts, shown *aside, sqlite3 *db)
{
    conflicts->count = 0;
    aside->count = 0;
    add_conflicts(conflicts, db);
    add_aside(aside, db);
    sort(conflicts);
    sort(aside);
}

/* ---- plain looks ---- */

char *look_dump(sqlite3 *db, const char *query)
{
    sqlite3_stmt *row = NULL;
    sqlite3_str *out = sqlite3_str_new(NULL);
    if (sqlite3_prepare_v2(db, query, -1, &row, NULL) != SQLITE_OK)
        sqlite3_str_appendf(out, "%s: %s", query, sqlite3_errmsg(db));
    while (row && sqlite3_step(row) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(row); i++) {
            const int class = sqlite3_column_type(row, i);
            if (class == SQLITE_FLOAT) {
                const double real = sqlite3_column_double(row, i);
                uint64_t bits = 0;
                memcpy(&bits, &real, sizeof bits);
                sqlite3_str_appendf(out, "f%llx|", (unsigned long long)bits);
                continue;
            }
            const unsigned char *bytes = sqlite3_column_blob(row, i);
            const int len = sqlite3_column_bytes(row, i);
            sqlite3_str_appendf(out, "%d:", class);
            for (int k = 0; k < len; k++)
                sqlite3_str_appendf(out, bytes[k] > ' ' && bytes[k] < 127 ? "%c" : "\\%02x",
                                    bytes[k]);
            sqlite3_str_appendchar(out, 1, '|');
        }
        sqlite3_str_appendchar(out, 1, '\n');
    }
    (void)sqlite3_finalize(row);
    char *text = sqlite3_str_finish(out);
    return text ? text : sqlite3_mprintf("");
}

int64_t look_number(sqlite3 *db, const char *query, int64_t missing)
{
    sqlite3_stmt *row = NULL;
    int64_t number = missing;
    if (sqlite3_prepare_v2(db, query, -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW && sqlite3_column_type(row, 0) != SQLITE_NULL)
        number = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    return number;
}

bool look_has_table(sqlite3 *db, const char *table)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '%s'",
                   table);
    return look_number(db, text, 0) > 0;
}

bool look_has_column(sqlite3 *db, const char *table, const char *column)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'", table, column);
    return look_number(db, text, 0) > 0;
}
