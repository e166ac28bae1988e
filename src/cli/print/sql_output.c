#include "cli/print/sql_output.h"

#include "base/text/base64.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOB_SHOWN = 32, /* bytes of a BLOB that a table shows */
};

void tide_cli_sql_output_init(tide_cli_sql_output *sql, tide_cli_output *out,
                              tide_cli_sql_form form)
{
    *sql = (tide_cli_sql_output){.out = out, .form = form};
    tide_buffer_init(&sql->text, TIDE_CLI_LINE_MAX);
}

static void end_names(tide_cli_sql_output *sql)
{
    for (int i = 0; sql->names && i < sql->column_count; i++)
        free(sql->names[i]);
    free(sql->names);
    sql->names = NULL;
    sql->column_count = 0;
}

void tide_cli_sql_output_done(tide_cli_sql_output *sql)
{
    if (sql->is_table_open)
        TIDE_IGNORE(tide_cli_table_done(&sql->table, NULL));
    sql->is_table_open = false;
    end_names(sql);
    tide_buffer_done(&sql->text);
}

/* ---- names ---- */

static bool has_name(const tide_cli_sql_output *sql, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (sql->names[i] && strcmp(sql->names[i], name) == 0)
            return true;
    return false;
}

/* A JSON object has each member once. NULL: no memory. */
static char *name_column(const tide_cli_sql_output *sql, int column, const char *given)
{
    char *name = strdup(given);
    for (int i = 2; name && sql->form == TIDE_CLI_SQL_JSON && has_name(sql, column, name); i++) {
        free(name);
        if (asprintf(&name, "%s_%d", given, i) < 0)
            name = NULL;
    }
    return name;
}

static tide_status name_columns(tide_cli_sql_output *sql, const char *const *names, int count,
                                tide_error *err)
{
    sql->names = calloc((size_t)count + 1, sizeof *sql->names);
    for (; sql->names && sql->column_count < count; sql->column_count++) {
        const int at = sql->column_count;
        sql->names[at] = name_column(sql, at, names[at]);
        if (!sql->names[at])
            break;
    }
    return sql->names && sql->column_count == count ? TIDE_OK : tide_no_memory(err);
}

/* ---- values ---- */

/* The value's base64, in sql->text. */
static tide_status encode_blob(tide_cli_sql_output *sql, tide_view bytes, int column,
                               tide_error *err)
{
    tide_buffer_clear(&sql->text);
    const tide_status status = tide_base64_encode(&sql->text, bytes, true);
    return status < TIDE_OK
               ? tide_fail(err, status, "column %s does not fit into a line", sql->names[column])
               : TIDE_OK;
}

static tide_status append_double(tide_buffer *out, double number)
{
    if (isnan(number))
        return tide_buffer_append_text(out, "NaN");
    if (isinf(number))
        return tide_buffer_append_text(out, number > 0 ? "Infinity" : "-Infinity");
    return tide_json_append_double(out, number);
}

/* What a value is called in a table or in CSV; a number in sql->text. Without a pointer: NULL. BLOBs are the caller's. */
static tide_view text_of(tide_cli_sql_output *sql, const tide_sql_value *cell)
{
    tide_status status = TIDE_OK;
    tide_buffer_clear(&sql->text);
    switch (cell->kind) {
    case TIDE_SQL_VALUE_NULL:
    case TIDE_SQL_VALUE_TIME: /* a query's times are texts */
        return tide_view_bytes(NULL, 0);
    case TIDE_SQL_VALUE_BOOL:
        return tide_view_of(cell->i64 ? "true" : "false");
    case TIDE_SQL_VALUE_I64:
        status = tide_buffer_printf(&sql->text, "%" PRId64, cell->i64);
        break;
    case TIDE_SQL_VALUE_F64:
        status = append_double(&sql->text, cell->f64);
        break;
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        return cell->bytes;
    }
    return status == TIDE_OK ? tide_buffer_view(&sql->text) : tide_view_of("?");
}

/* ---- JSON ---- */

static tide_status put_json(tide_cli_sql_output *sql, const tide_sql_value *cells, tide_error *err)
{
    tide_cli_output *out = sql->out;
    tide_cli_json_begin(out);
    for (int i = 0; i < sql->column_count; i++) {
        const char *name = sql->names[i];
        switch (cells[i].kind) {
        case TIDE_SQL_VALUE_NULL:
        case TIDE_SQL_VALUE_TIME:
            tide_cli_json_null(out, name);
            break;
        case TIDE_SQL_VALUE_BOOL:
            tide_cli_json_bool(out, name, cells[i].i64 != 0);
            break;
        case TIDE_SQL_VALUE_I64:
            tide_cli_json_i64(out, name, cells[i].i64);
            break;
        case TIDE_SQL_VALUE_F64:
            tide_cli_json_double(out, name, cells[i].f64);
            break;
        case TIDE_SQL_VALUE_TEXT:
            tide_cli_json_view(out, name, cells[i].bytes);
            break;
        case TIDE_SQL_VALUE_BLOB:
            TIDE_TRY(encode_blob(sql, cells[i].bytes, i, err));
            tide_cli_json_view(out, name, tide_view_of(tide_buffer_text(&sql->text)));
            break;
        }
    }
    return tide_cli_json_end(out, err);
}

/* ---- CSV ---- */

/* A spreadsheet computes a field that begins so, also between quotes. */
static bool is_formula(tide_view text)
{
    return text.len > 0 && text.ptr[0] != '\0' && strchr("=+-@\t\r", text.ptr[0]);
}

/* Line breaks and tabs are data; other control characters would be obeyed by a terminal. */
static void put_bytes(FILE *file, tide_view text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char byte = text.ptr[i];
        const bool is_space = byte == '\n' || byte == '\r' || byte == '\t';
        const size_t len =
            is_space ? 0 : tide_cli_control_len(tide_view_bytes(text.ptr + i, text.len - i));
        if (byte == '"')
            (void)fputc('"', file);
        (void)fputc(len > 0 ? '?' : byte, file);
        i += len > 0 ? len - 1 : 0;
    }
}

static void put_quoted(FILE *file, tide_view text)
{
    (void)fputc('"', file);
    put_bytes(file, text);
    (void)fputc('"', file);
}

static bool needs_quotes(tide_view text)
{
    if (text.len == 0 || text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' ')
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (strchr("\",\r\n", text.ptr[i])) /* finds NUL, too */
            return true;
    return false;
}

static void put_field(FILE *file, tide_view text)
{
    if (needs_quotes(text))
        put_quoted(file, text);
    else
        put_bytes(file, text);
}

/* Text of others: a formula gets a quotation mark in front, which spreadsheets take for "this is text". */
static void put_text(FILE *file, tide_view text, tide_buffer *room)
{
    if (is_formula(text)) {
        tide_buffer_clear(room);
        if (tide_buffer_append(room, "'", 1) == TIDE_OK &&
            tide_buffer_append_view(room, text) == TIDE_OK)
            text = tide_buffer_view(room);
    }
    put_field(file, text);
}

static tide_status put_csv(tide_cli_sql_output *sql, const tide_sql_value *cells, tide_error *err)
{
    FILE *file = sql->out->file;
    for (int i = 0; i < sql->column_count; i++) {
        if (i > 0)
            (void)fputc(',', file);
        if (cells[i].kind == TIDE_SQL_VALUE_BLOB) {
            TIDE_TRY(encode_blob(sql, cells[i].bytes, i, err));
            put_field(file, tide_buffer_view(&sql->text));
        } else if (cells[i].kind == TIDE_SQL_VALUE_TEXT) {
            put_text(file, cells[i].bytes, &sql->text);
        } else if (cells[i].kind != TIDE_SQL_VALUE_NULL) {
            put_field(file, text_of(sql, &cells[i]));
        }
    }
    (void)fputc('\n', file);
    return TIDE_OK;
}

static void put_csv_title(tide_cli_sql_output *sql)
{
    FILE *file = sql->out->file;
    if (sql->result_count > 1)
        (void)fputc('\n', file);
    for (int i = 0; i < sql->column_count; i++) {
        if (i > 0)
            (void)fputc(',', file);
        put_text(file, tide_view_of(sql->names[i]), &sql->text);
    }
    (void)fputc('\n', file);
}

/* ---- tables ---- */

/* For people: bytes as x'..', cut where nobody reads on. Without a pointer: NULL. */
static tide_view shown_of(tide_cli_sql_output *sql, const tide_sql_value *cell)
{
    if (cell->kind != TIDE_SQL_VALUE_BLOB)
        return text_of(sql, cell);
    const tide_view bytes = cell->bytes;
    const size_t shown = bytes.len < BLOB_SHOWN ? bytes.len : (size_t)BLOB_SHOWN;
    tide_buffer_clear(&sql->text);
    tide_status status = tide_buffer_append_text(&sql->text, "x'");
    for (size_t i = 0; i < shown && status == TIDE_OK; i++)
        status = tide_buffer_printf(&sql->text, "%02x", (unsigned char)bytes.ptr[i]);
    if (status == TIDE_OK)
        status = shown < bytes.len ? tide_buffer_printf(&sql->text, "...' (%zu bytes)", bytes.len)
                                   : tide_buffer_append_text(&sql->text, "'");
    return status == TIDE_OK ? tide_buffer_view(&sql->text) : tide_view_of("?");
}

/* Numbers stand to the right: what the first row says counts. */
static void begin_table(tide_cli_sql_output *sql, const tide_sql_value *cells)
{
    if (sql->result_count > 1)
        (void)fputc('\n', sql->out->file);
    for (int i = 0; i < sql->column_count; i++)
        sql->columns[i] = (tide_cli_column){.title = sql->names[i],
                                            .is_number = cells[i].kind == TIDE_SQL_VALUE_I64 ||
                                                         cells[i].kind == TIDE_SQL_VALUE_F64};
    tide_cli_table_init(&sql->table, sql->out, sql->columns, sql->column_count);
    sql->is_table_open = true;
}

static void put_lines(tide_cli_sql_output *sql, const tide_sql_value *cells)
{
    int width = 0;
    for (int i = 0; i < sql->column_count; i++)
        width = (int)strlen(sql->names[i]) > width ? (int)strlen(sql->names[i]) : width;
    if (sql->row_count > 0 || sql->result_count > 1)
        (void)fputc('\n', sql->out->file);
    for (int i = 0; i < sql->column_count; i++) {
        const tide_view text = shown_of(sql, &cells[i]);
        const int len = (int)(text.len < TIDE_CLI_CELL_MAX ? text.len : TIDE_CLI_CELL_MAX);
        tide_cli_print(sql->out->file, "%-*s  %.*s\n", width, sql->names[i], text.ptr ? len : 1,
                       text.ptr ? text.ptr : "-");
    }
}

static void put_cells(tide_cli_sql_output *sql, const tide_sql_value *cells)
{
    if (!sql->is_table_open)
        begin_table(sql, cells);
    for (int i = 0; i < sql->column_count; i++)
        tide_cli_table_view(&sql->table, shown_of(sql, &cells[i]));
}

/* ---- a result ---- */

tide_status tide_cli_sql_output_begin(tide_cli_sql_output *sql, const char *const *names, int count,
                                      tide_error *err)
{
    sql->row_count = 0;
    TIDE_TRY(name_columns(sql, names, count, err));
    if (sql->column_count == 0)
        return TIDE_OK;
    sql->result_count++;
    if (sql->form == TIDE_CLI_SQL_CSV)
        put_csv_title(sql);
    return TIDE_OK;
}

tide_status tide_cli_sql_output_row(tide_cli_sql_output *sql, const tide_sql_value *cells,
                                    tide_error *err)
{
    tide_status status = TIDE_OK;
    if (sql->form == TIDE_CLI_SQL_JSON)
        status = put_json(sql, cells, err);
    else if (sql->form == TIDE_CLI_SQL_CSV)
        status = put_csv(sql, cells, err);
    else if (sql->column_count > TIDE_CLI_TABLE_COLUMNS)
        put_lines(sql, cells);
    else
        put_cells(sql, cells);
    sql->row_count++;
    return status;
}

static tide_status tell_changed(tide_cli_sql_output *sql, int64_t changed, tide_error *err)
{
    if (sql->form == TIDE_CLI_SQL_TABLE)
        tide_cli_print(sql->out->file, "%" PRId64 " %s changed\n", changed,
                       changed == 1 ? "row" : "rows");
    if (sql->form != TIDE_CLI_SQL_JSON)
        return TIDE_OK;
    tide_cli_json_begin(sql->out);
    tide_cli_json_i64(sql->out, "changed", changed);
    return tide_cli_json_end(sql->out, err);
}

tide_status tide_cli_sql_output_end(tide_cli_sql_output *sql, int64_t changed, tide_error *err)
{
    const bool has_columns = sql->column_count > 0;
    tide_status status = TIDE_OK;
    if (sql->is_table_open)
        status = tide_cli_table_done(&sql->table, err);
    sql->is_table_open = false;
    end_names(sql);
    return status < TIDE_OK || has_columns ? status : tell_changed(sql, changed, err);
}
