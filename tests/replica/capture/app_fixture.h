/* app_fixture.h - a database of an application in a directory of its own, written by real programs. */
#pragma once

#include "replica/node.h"
#include "support/tempdir.h"

typedef enum app_program {
    APP_SHELL,  /* Debian's sqlite3 */
    APP_PYTHON, /* Python's sqlite3 module */
} app_program;

typedef struct app_fixture {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    char state_dir[TEMPDIR_PATH_MAX];
    tide_node *node;
    tide_error err;
} app_fixture;

int app_setup(void **state);
int app_teardown(void **state);

/* Run SQL through a program; it must succeed. What it printed is memory of the caller. */
char *app_run(app_fixture *t, app_program program, const char *sql);
/* The same, and nothing is wanted back. */
void app_write_sql(app_fixture *t, app_program program, const char *sql);
/* The one value of a query, read by the sqlite3 shell. */
void assert_app(app_fixture *t, const char *sql, const char *expected);

void app_open(app_fixture *t); /* the node; opened again if it was open */
void app_track(app_fixture *t, const char *table);

/* The captured changes of a table, one per line: `create (k) c1=v ...`, values as SQL literals; settled first. */
char *app_log(app_fixture *t, const char *table);
void assert_log(app_fixture *t, const char *table, const char *expected);
/* Forget the captured changes of a table. */
void app_forget(app_fixture *t, const char *table);
