#include "store/duckdb/duckdb_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program_path.h"

/* One library per process: two of them would each believe to be alone with a file. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static tide_duckdb_api loaded_api;
static bool is_loaded;

static const char *const symbol_names[] = {
#define TIDE_DUCKDB_NAME(result, name, parameters) "duckdb_" #name,
    TIDE_DUCKDB_FUNCTIONS(TIDE_DUCKDB_NAME)
#undef TIDE_DUCKDB_NAME
};

enum { SYMBOL_COUNT = sizeof symbol_names / sizeof symbol_names[0] };

/* The table of functions is filled as an array of pointers. */
_Static_assert(sizeof(tide_duckdb_api) == SYMBOL_COUNT * sizeof(void *),
               "one pointer per symbol, nothing between them");

static tide_status load_symbols(void *library, const char *path, tide_error *err)
{
    void *symbols[SYMBOL_COUNT];
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        symbols[i] = dlsym(library, symbol_names[i]);
        if (!symbols[i])
            return tide_fail(err, TIDE_E_UNAVAILABLE,
                             "%s has no %s: it is no DuckDB library, or too old a one (1.4 or "
                             "later is needed)",
                             path, symbol_names[i]);
    }
    memcpy(&loaded_api, symbols, sizeof loaded_api);
    return TIDE_OK;
}

static tide_status load_from(const char *path, tide_error *err)
{
    /* Stays loaded until the process ends: DuckDB keeps threads and static objects. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return tide_fail(err, TIDE_E_UNAVAILABLE, "cannot load DuckDB: %s", why ? why : path);
    }
    const tide_status status = load_symbols(library, path, err);
    if (status < TIDE_OK)
        (void)dlclose(library);
    return status;
}

/* Is there a file in a place relative to the program? */
static bool is_beside(char out[PATH_MAX], const char *place)
{
    char program[PATH_MAX];
    if (!tide_program_command(program))
        return false;
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    const int written = snprintf(out, PATH_MAX, "%s/%s", program, place);
    return written > 0 && written < PATH_MAX && access(out, R_OK) == 0;
}

static tide_status search(tide_error *err)
{
    static const char *const places[] = {
        "libduckdb.so",
        "deps/duckdb/libduckdb.so",
        "../lib/tidemark/libduckdb.so",
        "../lib/libduckdb.so",
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[PATH_MAX];
        if (is_beside(path, places[i]))
            return load_from(path, err);
    }
    if (load_from("libduckdb.so", err) == TIDE_OK)
        return TIDE_OK;
    return tide_fail_advised(
        err, TIDE_E_UNAVAILABLE,
        "cannot find libduckdb.so beside the program or among the system's libraries; "
        "install the package tidemark-libduckdb, run make duckdb in a source tree, "
        "put DuckDB's C library into lib/ of an unpacked tarball, or name it in "
        "TIDEMARK_DUCKDB");
}

static tide_status load(const char *path, tide_error *err)
{
    const char *named = path && *path ? path : getenv("TIDEMARK_DUCKDB");
    if (named && *named)
        return load_from(named, err);
    return search(err);
}

tide_status tide_duckdb_load(const tide_duckdb_api **out, const char *path, tide_error *err)
{
    (void)pthread_mutex_lock(&load_lock);
    const tide_status status = is_loaded ? TIDE_OK : load(path, err);
    is_loaded = is_loaded || status == TIDE_OK;
    (void)pthread_mutex_unlock(&load_lock);
    TIDE_TRY(status);
    *out = &loaded_api;
    return TIDE_OK;
}

tide_status tide_duckdb_find(const char **version, const char *library, tide_error *err)
{
    const tide_duckdb_api *api = NULL;
    TIDE_TRY(tide_duckdb_load(&api, library, err));
    *version = api->library_version();
    return TIDE_OK;
}
