/* data_fixture.h - a table made by hand, with files on a disk: what tests of lake/data.h stand on.
 *
 * There is no metabase: data_append and data_delete keep the list of files as commits would. Answers are texts: values with | between them, a line per row,
 * NULL as NULL, blobs in hexadecimal. */
#pragma once

#include <limits.h>

#include "base/buffer.h"
#include "lake/data_parts.h"
#include "support/check.h"
#include "support/tempdir.h"

enum { DATA_COLUMNS_MAX = 64, DATA_FILES_MAX = 256 };

typedef struct data_test {
    tempdir dir;
    char data_dir[TEMPDIR_PATH_MAX];
    tide_lake_data *data;
    tide_lake_column columns[DATA_COLUMNS_MAX];
    tide_lake_file_seen all[DATA_FILES_MAX];
    tide_lake_table_seen table;
    tide_lake_files files;
    tide_arena memory;
    tide_buffer answer;
    tide_lake_written last; /* of the newest append, delete or rewrite */
    int64_t next_id;
    int64_t row_max;
    int64_t timeout_us;
    tide_error err;
} data_test;

int data_setup(void **state);
int data_teardown(void **state);
/* Open it anew with files of this size. */
void data_reopen(data_test *t, int64_t file_bytes);

/* The table t: "a BIGINT, b VARCHAR NOT NULL DEFAULT 'x'", with field ids from 1. */
void data_table(data_test *t, const char *columns);
void data_add_column(data_test *t, const char *name, const char *type, const char *initial);
void data_drop_column(data_test *t, const char *name);
void data_partition(data_test *t, const char *column, const char *transform);

/* Write a file into the test's directory; its path, until the next call. */
const char *data_file(data_test *t, const char *name, const char *text);
/* The rows of a SELECT as a Parquet file there. */
const char *data_parquet(data_test *t, const char *name, const char *select);
const char *data_path(data_test *t, const char *name);

tide_status data_try(data_test *t, const char *path); /* the words are in t->err */
void data_append(data_test *t, const char *path);
void data_append_rows(data_test *t, const char *csv);
/* How many rows. */
int64_t data_delete(data_test *t, const char *condition);
tide_status data_try_delete(data_test *t, const char *condition);
void data_compact(data_test *t);

const char *data_ask(data_test *t, const char *text);
tide_status data_try_ask(data_test *t, const char *text);
/* Files below the data directory. */
int data_count_files(data_test *t);

#define assert_answer(t, text, want) assert_string_equal(data_ask((t), (text)), (want))
