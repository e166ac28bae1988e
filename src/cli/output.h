/* output.h - results on stdout: tables for people, one JSON object per line for programs.
 *
 *     tide_cli_json_begin(&out)                      tide_cli_table table;
 *     tide_json_key(&out.json, "last") ...           tide_cli_table_init(&table, &out, 2, columns);
 *     tide_cli_json_end(&out, err)                   tide_cli_table_cell(&table, "orders") ...
 *                                                    tide_cli_table_done(&table, err)
 *
 * Colour only where a terminal shows it: not when stdout is a pipe, TERM is dumb, or NO_COLOR is set and not
 * empty. What comes from outside (names, messages, paths) is printed without control characters and as valid UTF-8, so
 * that no text can steer the terminal.
 *
 * A table is printed in blocks of TIDE_CLI_TABLE_ROWS rows; columns grow from block to block and never shrink:
 * memory stays bounded however long the list is.
 *
 * Threads: one. */
#ifndef TIDE_CLI_OUTPUT_H
#define TIDE_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"

enum {
    TIDE_CLI_LINE_MAX = 16 << 20, /* bytes of one JSON object */
    TIDE_CLI_TABLE_COLUMNS = 8,
    TIDE_CLI_TABLE_ROWS = 500,
    TIDE_CLI_TIME_SIZE = 32, /* a time as RFC 3339 text, with the terminator */
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

/* A member of the object under way. */
void tide_cli_json_text(tide_cli_output *out, const char *key, const char *text);
void tide_cli_json_i64(tide_cli_output *out, const char *key, int64_t number);
void tide_cli_json_bool(tide_cli_output *out, const char *key, bool value);
void tide_cli_json_time(tide_cli_output *out, const char *key, int64_t us); /* null: no time */

/* 2024-02-29T12:30:00.123456Z, or "" for what is not a time. */
void tide_cli_time_text(char text[TIDE_CLI_TIME_SIZE], int64_t us);

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
    int width[TIDE_CLI_TABLE_COLUMNS];
    tide_arena texts; /* of the cells */
    char **cells;     /* row by row */
    int cell_count;
    bool has_title; /* the titles are printed */
    tide_status failure;
} tide_cli_table;

void tide_cli_table_init(tide_cli_table *table, tide_cli_output *out,
                         const tide_cli_column *columns, int column_count);
void tide_cli_table_cell(tide_cli_table *table, const char *text);
void tide_cli_table_number(tide_cli_table *table, int64_t number);

/* Print what is left and free everything. Always to be called. */
TIDE_MUST_CHECK tide_status tide_cli_table_done(tide_cli_table *table, tide_error *err);

#endif
