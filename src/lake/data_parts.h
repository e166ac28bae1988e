/* data_parts.h - what the files of data.h share: the handle, statements from templates, places on the disk, scans. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "lake/data.h"
#include "lake/query_sandbox.h"
#include "store/sql_template.h"

enum {
    TIDE_LAKE_TEXT_MAX = 256 << 20,  /* of one statement: lists of files are long */
    TIDE_LAKE_ARENA_MAX = 512 << 20, /* of what one call remembers */
};
#define TIDE_LAKE_FILE_BYTES_DEFAULT (INT64_C(128) << 20)

struct tide_lake_data {
    char *data_dir; /* absolute, with a slash at its end */
    char *library;  /* NULL: looked for */
    int threads;
    int64_t memory_max;
    int64_t file_bytes;
    tide_env *env;
    tide_duck_cancel *cancel;
    char *synced_dir;                  /* of a table: known to be there after a crash; NULL: none */
    const tide_lake_runner *runner;    /* of texts of callers; NULL: they run in this process */
    struct tide_lake_seen_files *seen; /* whose digests were compared */
    struct tide_lake_seen_files *own_seen; /* NULL: it is shared */
    tide_duckdb *db; /* with files: our own statements alone run here; NULL: reads_only */
    tide_duck *duck;
    struct tide_lake_box *box; /* of the last text of a caller (query_sandbox.c); NULL: none */
};

/* ---- statements (data.c) ---- */

/* Fill a template and prepare it. */
TIDE_MUST_CHECK tide_status tide_lake_made(tide_duck_query **out, tide_duck *duck,
                                           const tide_template *template,
                                           const tide_template_context *context, tide_error *err);
/* And run it to its end. */
TIDE_MUST_CHECK tide_status tide_lake_run_made(tide_duck *duck, const tide_template *template,
                                               const tide_template_context *context,
                                               tide_error *err);
/* The filled text alone, in the arena. */
TIDE_MUST_CHECK tide_status tide_lake_fill(const char **out, tide_arena *arena,
                                           const tide_template *template,
                                           const tide_template_context *context, tide_error *err);
/* A list of one piece, for holes that take no name. */
#define TIDE_LAKE_PIECE(hole_, text_)                                                              \
    {                                                                                              \
        .hole = (hole_), .items = (const tide_template_item[]){{.sql = (text_)}}, .count = 1       \
    }

/* An instance of DuckDB for somebody else's text: it may read these files (whole paths) and nothing else. */
TIDE_MUST_CHECK tide_status tide_lake_open_box(tide_lake_data *data, tide_duckdb **out,
                                               tide_duck **duck, tide_error *err);
void tide_lake_box_free(struct tide_lake_box *s); /* takes NULL */
TIDE_CLEANUP_FN(tide_lake_box_freep, struct tide_lake_box, tide_lake_box_free)
TIDE_MUST_CHECK tide_status tide_lake_seal_box(tide_duck *duck, const char *const *paths, int count,
                                               tide_error *err);
/* Why a question over these files failed: where one of them is gone, DuckDB speaks of what it may not read. TIDE_E_IO with its name then, else the status as it is. */
tide_status tide_lake_blame_files(const char *const *paths, int count, tide_status status,
                                  tide_error *err);

/* Whether a table's columns have types that DuckDB keeps in Parquet as they are: TIDE_E_UNSUPPORTED names the one that has not. types: one
 * text of 256 bytes per column, free with free(). */
TIDE_MUST_CHECK tide_status tide_lake_column_types(const tide_lake_table_seen *table,
                                                   char (**types)[256], tide_error *err);
/* A name that no column of the table has. */
void tide_lake_free_name(char out[64], const tide_lake_table_seen *table, const char *stem);

/* ---- the disk (data_disk.c) ---- */

/* Both in the arena; NULL: no memory. */
TIDE_MUST_CHECK char *tide_lake_join(tide_arena *arena, const char *dir, const char *name);
TIDE_MUST_CHECK char *tide_lake_whole_path(tide_arena *arena, const tide_lake_data *data,
                                           const char *path);
/* A directory of our own below the table's, which is made if it is missing. path has room for PATH_MAX bytes. */
TIDE_MUST_CHECK tide_status tide_lake_stage_make(tide_lake_data *data,
                                                 const tide_lake_object *table, char *path,
                                                 tide_error *err);
void tide_lake_stage_remove(const char *path); /* with all that is in it; takes "" */
tide_status tide_lake_fail_errno(tide_error *err, const char *what, const char *path);
/* Sync a file, take its digest, and give it its name in the table's directory: the last part of its path, which it then is. */
TIDE_MUST_CHECK tide_status tide_lake_place(const tide_lake_data *data,
                                            const tide_lake_object *table, tide_lake_new_file *file,
                                            tide_arena *memory, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_sync_table(const tide_lake_data *data,
                                                 const tide_lake_object *table, tide_error *err);
void tide_lake_unlink(const tide_lake_data *data, const tide_lake_object *table, const char *path);

/* ---- writing (data_copy.c, data_stats.c) ---- */

/* Rows that are to be written: expressions for the table's columns, over a source. */
typedef struct tide_lake_rows {
    const char *source;             /* what stands behind FROM */
    const char *const *expressions; /* one per column of the table */
} tide_lake_rows;

TIDE_MUST_CHECK tide_status tide_lake_written_init(tide_lake_written *out, tide_error *err);
/* Room for one more file, zeroed; NULL: no memory. */
TIDE_MUST_CHECK tide_lake_new_file *tide_lake_written_add(tide_lake_written *out);
/* The current row of COPY ... RETURN_STATS, as one more file; its path is the whole one. */
TIDE_MUST_CHECK tide_status tide_lake_read_copied(tide_duck_query *query,
                                                  const tide_lake_table_seen *table,
                                                  tide_lake_written *out, tide_error *err);
/* Count NULLs where the writer has not. */
TIDE_MUST_CHECK tide_status tide_lake_count_nulls(tide_lake_data *data,
                                                  const tide_lake_table_seen *table,
                                                  tide_lake_new_file *file, tide_arena *arena,
                                                  tide_error *err);

/* ---- scans (data_scan.c) ---- */

typedef struct tide_lake_scan {
    tide_arena arena;
    tide_buffer text;
    const char **paths; /* whole, of everything that is read */
    int path_count;
    int *plain; /* files without deletes: places in `files`, in the order of the scan */
    int *deleted;
    /* of tide_lake_scan_places: the columns that say where a row is from */
    char group[64]; /* 0: of plain, 1: of deleted */
    char file[64];  /* place in those */
    char row[64];
} tide_lake_scan;

/* The text of a table's rows; with places: and where they lie. */
TIDE_MUST_CHECK tide_status tide_lake_scan_make(tide_lake_scan *out, const tide_lake_data *data,
                                                const tide_lake_table_seen *table,
                                                const tide_lake_files *files, bool with_places,
                                                tide_error *err);
void tide_lake_scan_done(tide_lake_scan *scan); /* fits TIDE_CLEANUP on {0} */

/* ---- sources (data_source.c, data_spool.c) ---- */

typedef struct tide_lake_source {
    tide_arena arena;
    tide_lake_format format;
    const char *shown;  /* its name, for words */
    char *spool;        /* a directory with what came from standard input; NULL: none */
    const char *path;   /* whole */
    const char *quoted; /* the path */
    bool has_tabs;      /* between values, instead of commas */
    char (*types)[256]; /* of the table's columns, as DuckDB names them */
    const char **found; /* all names of the source */
    int *column_of;     /* of each of them: place in the table */
    int found_count;
    const char *rows_sql;     /* what stands behind FROM */
    const char *text_sql;     /* the same, values as texts where that is what the file holds */
    const char **expressions; /* per column of the table, over rows_sql */
} tide_lake_source;

/* TIDE_NONE: nothing is in it. */
TIDE_MUST_CHECK tide_status tide_lake_source_open(tide_lake_source *out, tide_lake_data *data,
                                                  const tide_lake_table_seen *table,
                                                  const char *path, tide_lake_format format,
                                                  tide_error *err);
void tide_lake_source_done(tide_lake_source *source); /* fits TIDE_CLEANUP on {0} */
/* Find the file and what it is: path, shown, format, has_tabs. Standard input is copied into a file first. */
TIDE_MUST_CHECK tide_status tide_lake_source_find(tide_lake_source *out, tide_lake_data *data,
                                                  const tide_lake_table_seen *table,
                                                  const char *path, tide_lake_format format,
                                                  tide_error *err);
/* A column of whole numbers that comes as text (CSV, JSON), which is not rounded. */
bool tide_lake_source_is_whole(const tide_lake_source *source, int column);
/* Say in err which row and column it was, if that can be found; otherwise err stays. */

/* ---- queries (query_sandbox.c) ---- */

/* A table or a view as a question sees it. */
typedef struct tide_lake_shown {
    const char *catalog;
    const char *schema;
    const tide_lake_table_seen *table; /* NULL: a view */
    const tide_lake_files *files;
    const char *view_name;
    const char *view_sql;
    bool is_default; /* also without its catalog's name */
} tide_lake_shown;

/* Run a question over these; nothing else is there. Views stand behind the views that they name. */
TIDE_MUST_CHECK tide_status tide_lake_ask_shown(tide_lake_data *data, const tide_lake_shown *shown,
                                                int count, const tide_lake_ask *ask,
                                                tide_error *err);
