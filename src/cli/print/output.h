/* output.h - results on stdout: tables for people, one JSON object per line for programs.
 *
 *     tide_cli_json_begin(&out)                      tide_cli_table table;
 *     tide_cli_json_i64(&out, "last", 7) ...         tide_cli_table_begin(&table, &out, "NAME,LAST#");
 *     tide_cli_json_end(&out, err)                   tide_cli_table_cell(&table, "orders") ...
 *                                                    tide_cli_table_done(&table, err)
 *
 * Colour only where a terminal shows it: not when stdout is a pipe, TERM is dumb, or NO_COLOR is set and not
 * empty. What comes from outside (names, messages, paths) is printed without control characters and as valid UTF-8, so
 * that no text can steer the terminal.
 *
 * A table is printed in blocks of TIDE_CLI_TABLE_ROWS rows; columns grow from block to block and never shrink:
 * memory stays bounded however long the list is. Cells longer than TIDE_CLI_CELL_MAX are cut.
 *
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/text/json.h"

enum {
    TIDE_CLI_LINE_MAX = 160 << 20, /* bytes of one JSON object; taken only when needed */
    TIDE_CLI_TABLE_COLUMNS = 16,
    TIDE_CLI_TABLE_ROWS = 500,
    TIDE_CLI_TITLES_SIZE = 160,  /* of all titles of a table, with the terminator */
    TIDE_CLI_CELL_MAX = 1000,    /* bytes of a cell that are printed */
    TIDE_CLI_TIME_SIZE = 32,     /* a time as RFC 3339 text, with the terminator */
    TIDE_CLI_DURATION_SIZE = 32, /* a duration as text, with the terminator */
};

typedef enum tide_cli_style {
    TIDE_CLI_PLAIN,
    TIDE_CLI_BOLD,
    TIDE_CLI_GREEN,
    TIDE_CLI_YELLOW,
    TIDE_CLI_RED,
} tide_cli_style;

typedef struct tide_cli_output {
    FILE *file;
    bool is_json;
    bool is_coloured;
    tide_buffer line;
    tide_json json; /* between json_begin and json_end */
} tide_cli_output;

void tide_cli_output_init(tide_cli_output *out, FILE *file, bool is_json);
/* Give the memory back. Fits TIDE_CLEANUP. */
void tide_cli_output_done(tide_cli_output *out);

/* Bring everything to the file. TIDE_E_IO, TIDE_E_FULL: it could not be written, now or earlier. */
TIDE_MUST_CHECK tide_status tide_cli_output_flush(tide_cli_output *out, tide_error *err);

void tide_cli_json_begin(tide_cli_output *out);
TIDE_MUST_CHECK tide_status tide_cli_json_end(tide_cli_output *out, tide_error *err);

/* A member of the object under way; key NULL: an item of the array under way. A text, view or raw value without a
 * pointer is null. */
void tide_cli_json_text(tide_cli_output *out, const char *key, const char *text);
void tide_cli_json_view(tide_cli_output *out, const char *key, tide_view text);
void tide_cli_json_i64(tide_cli_output *out, const char *key, int64_t number);
void tide_cli_json_double(tide_cli_output *out, const char *key, double number);
void tide_cli_json_bool(tide_cli_output *out, const char *key, bool value);
void tide_cli_json_null(tide_cli_output *out, const char *key);
void tide_cli_json_time(tide_cli_output *out, const char *key, int64_t us); /* null: no time */

/* A value that is JSON already, as it is; only line breaks in it become spaces. */
void tide_cli_json_raw(tide_cli_output *out, const char *key, tide_view json);

/* An object or array as a member; what follows goes into it, until its end. */
void tide_cli_json_object_begin(tide_cli_output *out, const char *key);
void tide_cli_json_object_end(tide_cli_output *out);
void tide_cli_json_array_begin(tide_cli_output *out, const char *key);
void tide_cli_json_array_end(tide_cli_output *out);

/* 2024-02-29T12:30:00.123456Z, or "" for what is not a time. */
void tide_cli_time_text(char text[TIDE_CLI_TIME_SIZE], int64_t us);

/* The two largest units, rounded down: 2d 3h, 4m 30s, 1.250s, 80us; with a sign where it is negative. */
void tide_cli_duration_text(char text[TIDE_CLI_DURATION_SIZE], int64_t us);

/* How many bytes of a character at the front of text are never printed as they are: a control character, or one that
 * changes the direction of the text behind it. 0: it may be printed. */
size_t tide_cli_control_len(tide_view text);

/* Cleaned text for people, without and with a style. */
void tide_cli_print(FILE *file, const char *format, ...) TIDE_PRINTF(2, 3);
void tide_cli_print_styled(tide_cli_output *out, tide_cli_style style, const char *text);

typedef struct tide_cli_column {
    const char *title;
    bool is_number; /* to the right */
} tide_cli_column;

typedef struct tide_cli_table {
    tide_cli_output *out;
    const tide_cli_column *columns;
    int column_count;
    tide_cli_column named[TIDE_CLI_TABLE_COLUMNS]; /* of tide_cli_table_begin */
    char titles[TIDE_CLI_TITLES_SIZE];
    int width[TIDE_CLI_TABLE_COLUMNS];
    tide_arena texts; /* of the cells */
    char **cells;     /* row by row */
    int cell_count;
    bool has_title; /* the titles are printed */
    tide_status failure;
} tide_cli_table;

void tide_cli_table_init(tide_cli_table *table, tide_cli_output *out,
                         const tide_cli_column *columns, int column_count);
/* The same with titles as text: "NAME,RUNS#", where # makes a column of numbers. The table must not
 * move. Where the output is JSON no cell follows, and nothing is printed. */
void tide_cli_table_begin(tide_cli_table *table, tide_cli_output *out, const char *titles);
void tide_cli_table_cell(tide_cli_table *table, const char *text); /* NULL: "-" */
void tide_cli_table_view(tide_cli_table *table, tide_view text);   /* without a pointer: "-" */
void tide_cli_table_number(tide_cli_table *table, int64_t number);
void tide_cli_table_time(tide_cli_table *table, int64_t us); /* "-": no time */

/* Print what is left and free everything. Always to be called. A row has a cell for each column. */
TIDE_MUST_CHECK tide_status tide_cli_table_done(tide_cli_table *table, tide_error *err);
/* The same for rows that ended with this status, which is returned where it is a failure. */
TIDE_MUST_CHECK tide_status tide_cli_table_end(tide_cli_table *table, tide_status status,
                                               tide_error *err);
