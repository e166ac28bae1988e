#include "cli/cli_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_is_postgres(const cli_fixture *t)
{
    return strncmp(t->url, "postgres", 8) == 0;
}

int cli_setup(void **state)
{
    const bool is_postgres = strcmp(*state, "postgres") == 0;
    const bool is_duckdb = strcmp(*state, "duckdb") == 0;
    cli_fixture *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    assert_ok_err(proc_find("tidemark", t->program, &t->err), &t->err);
    if (is_postgres) {
        char database[PG_CLUSTER_NAME_MAX];
        pg_cluster *cluster = pg_cluster_for_test();
        assert_ok_err(pg_cluster_fresh_database(cluster, NULL, database, &t->err), &t->err);
        pg_cluster_url(cluster, database, t->url);
    } else {
        char path[TEMPDIR_PATH_MAX];
        cli_path(t, is_duckdb ? "store.duckdb" : "store.db", path);
        snprintf(t->url, sizeof t->url, "%s%s", is_duckdb ? "duckdb:" : "", path);
    }
    snprintf(t->state_env, sizeof t->state_env, "TIDEMARK_STATE_DIR=%s/state", t->dir.path);
    snprintf(t->store_env, sizeof t->store_env, "TIDEMARK_STORE=%s", t->url);
    t->env[0] = t->state_env;
    t->env[1] = t->store_env;
    t->env[2] = "NO_COLOR";
    *state = t;
    return 0;
}

int cli_teardown(void **state)
{
    cli_fixture *t = *state;
    for (int i = 0; i < t->result_count; i++)
        proc_result_done(&t->results[i]);
    assert_ok_err(tempdir_remove(&t->dir, &t->err), &t->err);
    free(t);
    return 0;
}

proc_options cli_options(const cli_fixture *t, const char *const *argv)
{
    return (proc_options){.argv = argv, .env = t->env, .directory = t->dir.path, .user = t->user};
}

cli_result cli_run(cli_fixture *t, ...)
{
    const char *argv[CLI_ARGS_MAX + 2] = {t->program};
    va_list words;
    va_start(words, t);
    for (int i = 1; (argv[i] = va_arg(words, const char *)) != NULL; i++)
        assert_true(i <= CLI_ARGS_MAX);
    va_end(words);
    assert_true(t->result_count < CLI_RESULTS_MAX);
    proc_result *result = &t->results[t->result_count++];
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_run(result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    return (cli_result){.exit_code = result->exit_code, .out = result->out, .err = result->err};
}

tide_json_node *cli_json(const cli_result *result)
{
    if (result->exit_code != 0)
        fail_msg("exit code %d: %s", result->exit_code, result->err);
    const size_t len = strlen(result->out);
    assert_true(len > 0 && result->out[len - 1] == '\n');
    assert_ptr_equal(strchr(result->out, '\n'), result->out + len - 1);
    tide_json_node *object = json_read(tide_view_of(result->out));
    assert_true(json_is_object(object));
    return object;
}

void cli_assert_fails(const cli_result *result, int exit_code)
{
    if (result->exit_code != exit_code)
        fail_msg("want exit code %d, got %d: %s%s", exit_code, result->exit_code, result->out,
                 result->err);
    assert_string_equal("", result->out);
    if (strncmp(result->err, "tidemark: ", 10) != 0)
        fail_msg("not an error message: %s", result->err);
}

void cli_path(const cli_fixture *t, const char *name, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(&t->dir, name, out);
}

void cli_write_file(const cli_fixture *t, const char *name, const void *bytes, size_t len)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, name, path);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(0, fchmod(fileno(file), 0600)); /* keys and tokens must be private */
    assert_int_equal(len, fwrite(bytes, 1, len, file));
    assert_int_equal(0, fclose(file));
}

char *cli_read_file(const cli_fixture *t, const char *name, size_t *len)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, name, path);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    struct stat info;
    assert_int_equal(0, fstat(fileno(file), &info));
    char *bytes = calloc(1, (size_t)info.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(info.st_size, fread(bytes, 1, (size_t)info.st_size, file));
    assert_int_equal(0, fclose(file));
    if (len)
        *len = (size_t)info.st_size;
    return bytes;
}

char *cli_list_files(const cli_fixture *t)
{
    struct dirent **names = NULL;
    const int count = scandir(t->dir.path, &names, NULL, alphasort);
    assert_true(count >= 0);
    const size_t size = ((size_t)count + 1) * (NAME_MAX + 2);
    size_t len = 0;
    char *list = calloc(1, size);
    assert_non_null(list);
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
            len += (size_t)snprintf(list + len, size - len, "%s ", names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return list;
}

void cli_sql(const cli_fixture *t, const char *name, const char *sql)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, name, path);
    sqlite3 *db = NULL;
    char *words = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(db, CLI_TIMEOUT_MS)); /* a daemon may write */
    const int result = sqlite3_exec(db, sql, NULL, NULL, &words);
    char said[256];
    (void)snprintf(said, sizeof said, "%s", words ? words : "");
    sqlite3_free(words);
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    if (result != SQLITE_OK)
        fail_msg("%s: %s", sql, said);
}
