#include "cli/print/output.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"

enum { TABLE_BYTES_MAX = 32 << 20 }; /* of the cells printed together */

static bool wants_colour(FILE *file)
{
    const char *refused = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return !(refused && *refused) && terminal && strcmp(terminal, "dumb") != 0 &&
           isatty(fileno(file)) == 1;
}

void tide_cli_output_init(tide_cli_output *out, FILE *file, bool is_json)
{
    *out = (tide_cli_output){.file = file, .is_json = is_json};
    out->is_coloured = !is_json && wants_colour(file);
    tide_buffer_init(&out->line, TIDE_CLI_LINE_MAX);
}

void tide_cli_output_done(tide_cli_output *out)
{
    tide_buffer_done(&out->line);
}

tide_status tide_cli_output_flush(tide_cli_output *out, tide_error *err)
{
    errno = 0;
    if (fflush(out->file) == 0 && !ferror(out->file))
        return TIDE_OK;
    /* Not "try again": what was asked for has been done. */
    return tide_fail(err, TIDE_E_PARTIAL, "done, but the result could not be written: %s",
                     errno ? strerror(errno) : "an earlier write failed");
}

/* ---- JSON ---- */

void tide_cli_json_begin(tide_cli_output *out)
{
    tide_buffer_clear(&out->line);
    tide_json_init(&out->json, &out->line);
    tide_json_object_begin(&out->json);
}

tide_status tide_cli_json_end(tide_cli_output *out, tide_error *err)
{
    tide_json_object_end(&out->json);
    tide_status status = tide_json_finish(&out->json);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&out->line, '\n');
    if (status < TIDE_OK)
        return tide_fail(err, status, "cannot put the result into one line");
    (void)fwrite(out->line.ptr, 1, out->line.len, out->file); /* told by flush */
    return TIDE_OK;
}

static void put_key(tide_cli_output *out, const char *key)
{
    if (key)
        tide_json_key(&out->json, key);
}

void tide_cli_json_text(tide_cli_output *out, const char *key, const char *text)
{
    put_key(out, key);
    tide_json_text(&out->json, text);
}

void tide_cli_json_view(tide_cli_output *out, const char *key, tide_view text)
{
    put_key(out, key);
    if (text.ptr)
        tide_json_view(&out->json, text);
    else
        tide_json_null(&out->json);
}

void tide_cli_json_i64(tide_cli_output *out, const char *key, int64_t number)
{
    put_key(out, key);
    tide_json_i64(&out->json, number);
}

void tide_cli_json_double(tide_cli_output *out, const char *key, double number)
{
    put_key(out, key);
    tide_json_double(&out->json, number);
}

void tide_cli_json_bool(tide_cli_output *out, const char *key, bool value)
{
    put_key(out, key);
    tide_json_bool(&out->json, value);
}

void tide_cli_json_null(tide_cli_output *out, const char *key)
{
    put_key(out, key);
    tide_json_null(&out->json);
}

void tide_cli_json_time(tide_cli_output *out, const char *key, int64_t us)
{
    char text[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(text, us);
    tide_cli_json_text(out, key, *text ? text : NULL);
}

void tide_cli_json_raw(tide_cli_output *out, const char *key, tide_view json)
{
    static const char place[] = "null";
    tide_cli_json_null(out, key);
    if (out->json.status < TIDE_OK || !json.ptr)
        return;
    /* The writer has put a value where it belongs; ours takes its place. */
    tide_buffer_truncate(&out->line, out->line.len - (sizeof place - 1));
    const size_t start = out->line.len;
    out->json.status = tide_buffer_append_view(&out->line, json);
    /* In JSON a bare line break is white space, never part of a text. */
    for (size_t i = start; i < out->line.len; i++)
        if (out->line.ptr[i] == '\n' || out->line.ptr[i] == '\r')
            out->line.ptr[i] = ' ';
}

void tide_cli_json_object_begin(tide_cli_output *out, const char *key)
{
    put_key(out, key);
    tide_json_object_begin(&out->json);
}

void tide_cli_json_object_end(tide_cli_output *out)
{
    tide_json_object_end(&out->json);
}

void tide_cli_json_array_begin(tide_cli_output *out, const char *key)
{
    put_key(out, key);
    tide_json_array_begin(&out->json);
}

void tide_cli_json_array_end(tide_cli_output *out)
{
    tide_json_array_end(&out->json);
}

/* ---- times ---- */

void tide_cli_time_text(char text[TIDE_CLI_TIME_SIZE], int64_t us)
{
    char plain[TIDE_TIME_TEXT_SIZE];
    if (tide_time_format(us, plain) != TIDE_OK) {
        text[0] = '\0';
        return;
    }
    plain[10] = 'T';
    (void)snprintf(text, TIDE_CLI_TIME_SIZE, "%sZ", plain);
}

void tide_cli_duration_text(char text[TIDE_CLI_DURATION_SIZE], int64_t us)
{
    const char *sign = us < 0 ? "-" : "";
    const uint64_t whole_us = us < 0 ? -(uint64_t)us : (uint64_t)us;
    const uint64_t seconds = whole_us / 1000000;
    const uint64_t minutes = seconds / 60;
    const uint64_t hours = seconds / 3600;
    const size_t size = TIDE_CLI_DURATION_SIZE;
    if (hours >= 24)
        (void)snprintf(text, size, "%s%" PRIu64 "d %" PRIu64 "h", sign, hours / 24, hours % 24);
    else if (hours > 0)
        (void)snprintf(text, size, "%s%" PRIu64 "h %" PRIu64 "m", sign, hours, minutes % 60);
    else if (minutes > 0)
        (void)snprintf(text, size, "%s%" PRIu64 "m %" PRIu64 "s", sign, minutes, seconds % 60);
    else if (seconds > 0)
        (void)snprintf(text, size, "%s%" PRIu64 ".%03" PRIu64 "s", sign, seconds,
                       whole_us / 1000 % 1000);
    else if (whole_us >= 1000)
        (void)snprintf(text, size, "%s%" PRIu64 "ms", sign, whole_us / 1000);
    else
        (void)snprintf(text, size, "%s%" PRIu64 "us", sign, whole_us);
}

/* ---- text for people ---- */

/* Columns of text, counting a character as one: all but the first byte of each are 10xxxxxx. */
static int measure_text(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

size_t tide_cli_control_len(tide_view text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    if (text.len == 0)
        return 0;
    if (at[0] < 0x20 || at[0] == 0x7f)
        return 1;
    /* U+0080 to U+009F are control characters too; terminals obey some of them. */
    if (text.len >= 2 && ((at[0] == 0xc2 && at[1] < 0xa0) || (at[0] == 0xd8 && at[1] == 0x9c)))
        return 2;
    /* U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069 */
    const bool is_bidi =
        text.len >= 3 && at[0] == 0xe2 &&
        ((at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae))) ||
         (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
    return is_bidi ? 3 : 0;
}

static void mask_controls(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t len = tide_cli_control_len(tide_view_bytes(text, left));
        if (len > 0)
            memset(text, '?', len);
        len = len > 0 ? len : 1;
        text += len;
        left -= len;
    }
}

/* Valid UTF-8 without control characters, in new memory; NULL: no memory. */
static char *clean_text(tide_view text)
{
    tide_buffer buffer;
    size_t replaced = 0;
    char *clean = NULL;
    tide_buffer_init(&buffer, TIDE_CLI_LINE_MAX);
    if (tide_utf8_clean(&buffer, text, &replaced) >= TIDE_OK)
        clean = strdup(tide_buffer_text(&buffer));
    tide_buffer_done(&buffer);
    if (clean)
        mask_controls(clean);
    return clean;
}

void tide_cli_print(FILE *file, const char *format, ...)
{
    TIDE_CLEANUP(tide_freep) char *text = NULL;
    va_list args;
    va_start(args, format);
    const int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0) {
        text = NULL;
        return;
    }
    /* Our own line break at the end stays one. */
    const bool has_break = len > 0 && text[len - 1] == '\n';
    if (has_break)
        text[len - 1] = '\0';
    TIDE_CLEANUP(tide_freep) char *clean = clean_text(tide_view_of(text));
    if (clean)
        (void)fputs(clean, file);
    if (has_break)
        (void)fputc('\n', file);
}

void tide_cli_print_styled(tide_cli_output *out, tide_cli_style style, const char *text)
{
    static const char *const codes[] = {
        [TIDE_CLI_PLAIN] = "",          [TIDE_CLI_BOLD] = "\033[1m", [TIDE_CLI_GREEN] = "\033[32m",
        [TIDE_CLI_YELLOW] = "\033[33m", [TIDE_CLI_RED] = "\033[31m",
    };
    const bool is_styled = out->is_coloured && style != TIDE_CLI_PLAIN;
    if (is_styled)
        (void)fputs(codes[style], out->file);
    tide_cli_print(out->file, "%s", text);
    if (is_styled)
        (void)fputs("\033[0m", out->file);
}

/* ---- tables ---- */

static void set_columns(tide_cli_table *table, tide_cli_output *out, const tide_cli_column *columns,
                        int column_count)
{
    assert(column_count > 0 && column_count <= TIDE_CLI_TABLE_COLUMNS);
    table->out = out;
    table->columns = columns;
    table->column_count = column_count;
    tide_arena_init(&table->texts, TABLE_BYTES_MAX);
    for (int i = 0; i < column_count; i++)
        table->width[i] = measure_text(columns[i].title);
}

void tide_cli_table_init(tide_cli_table *table, tide_cli_output *out,
                         const tide_cli_column *columns, int column_count)
{
    *table = (tide_cli_table){.out = NULL};
    set_columns(table, out, columns, column_count);
}

void tide_cli_table_begin(tide_cli_table *table, tide_cli_output *out, const char *titles)
{
    *table = (tide_cli_table){.out = NULL};
    assert(strlen(titles) < sizeof table->titles);
    memcpy(table->titles, titles, strlen(titles));
    int count = 0;
    char *rest = table->titles;
    for (char *title; (title = strsep(&rest, ",")) != NULL; count++) {
        assert(count < TIDE_CLI_TABLE_COLUMNS);
        char *mark = strchr(title, '#');
        if (mark)
            *mark = '\0';
        table->named[count] = (tide_cli_column){.title = title, .is_number = mark != NULL};
    }
    set_columns(table, out, table->named, count);
}

static void print_row(tide_cli_table *table, char *const *cells, tide_cli_style style)
{
    for (int i = 0; i < table->column_count; i++) {
        const char *text = cells ? cells[i] : table->columns[i].title;
        const int pad = table->width[i] - measure_text(text);
        const bool is_right = table->columns[i].is_number;
        const bool is_last = i + 1 == table->column_count;
        if (is_right)
            (void)fprintf(table->out->file, "%*s", pad, "");
        tide_cli_print_styled(table->out, style, text);
        if (!is_last)
            (void)fprintf(table->out->file, "%*s", is_right ? 2 : pad + 2, "");
    }
    (void)fputc('\n', table->out->file);
}

static void print_block(tide_cli_table *table)
{
    const int columns = table->column_count;
    for (int i = 0; i < table->cell_count; i++) {
        const int width = measure_text(table->cells[i]);
        if (width > table->width[i % columns])
            table->width[i % columns] = width;
    }
    if (!table->has_title && table->cell_count > 0) {
        table->has_title = true;
        print_row(table, NULL, TIDE_CLI_BOLD);
    }
    for (int i = 0; i + columns <= table->cell_count; i += columns)
        print_row(table, table->cells + i, TIDE_CLI_PLAIN);
    tide_arena_reset(&table->texts);
    table->cell_count = 0;
}

/* Cleaned, and cut where it is longer than anybody reads in a table. NULL: no memory. */
static char *keep_cell(tide_cli_table *table, tide_view text)
{
    const tide_view shown = tide_utf8_cut(text, TIDE_CLI_CELL_MAX);
    TIDE_CLEANUP(tide_freep) char *clean = clean_text(shown);
    TIDE_CLEANUP(tide_freep) char *whole = NULL;
    if (!clean || asprintf(&whole, "%s%s", clean, shown.len < text.len ? "..." : "") < 0) {
        whole = NULL;
        return NULL;
    }
    return tide_arena_text(&table->texts, tide_view_of(whole));
}

void tide_cli_table_view(tide_cli_table *table, tide_view text)
{
    if (table->failure < TIDE_OK)
        return;
    const int capacity = table->column_count * TIDE_CLI_TABLE_ROWS;
    if (!table->cells)
        table->cells = calloc((size_t)capacity, sizeof *table->cells);
    char *kept = table->cells ? keep_cell(table, text.ptr ? text : tide_view_of("-")) : NULL;
    if (!kept) {
        table->failure = TIDE_E_NOMEM;
        return;
    }
    table->cells[table->cell_count++] = kept;
    if (table->cell_count == capacity)
        print_block(table);
}

void tide_cli_table_cell(tide_cli_table *table, const char *text)
{
    tide_cli_table_view(table, tide_view_of(text));
}

void tide_cli_table_time(tide_cli_table *table, int64_t us)
{
    char text[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(text, us);
    tide_cli_table_cell(table, *text ? text : NULL);
}

void tide_cli_table_number(tide_cli_table *table, int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    tide_cli_table_cell(table, text);
}

tide_status tide_cli_table_done(tide_cli_table *table, tide_error *err)
{
    assert(table->failure < TIDE_OK || table->cell_count % table->column_count == 0);
    print_block(table);
    tide_arena_done(&table->texts);
    free(table->cells);
    table->cells = NULL;
    return tide_buffer_check(table->failure, err);
}

tide_status tide_cli_table_end(tide_cli_table *table, tide_status status, tide_error *err)
{
    const tide_status printed = tide_cli_table_done(table, status < TIDE_OK ? NULL : err);
    return status < TIDE_OK ? status : printed;
}
