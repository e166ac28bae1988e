#include "store/postgres/pq_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

#define DEFAULT_NAME "libpq.so.5"

tide_pq_api tide_pq;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static const char *const symbol_names[] = {
#define TIDE_PQ_NAME(name) "PQ" #name,
    TIDE_PQ_SYMBOLS(TIDE_PQ_NAME)
#undef TIDE_PQ_NAME
};

enum { SYMBOL_COUNT = sizeof symbol_names / sizeof symbol_names[0] };

/* The table of functions is filled as an array of pointers. */
_Static_assert(sizeof(tide_pq_api) == SYMBOL_COUNT * sizeof(void *),
               "one pointer per symbol, nothing between them");

static tide_status take_symbols(void *library, const char *name, tide_error *err)
{
    void *symbols[SYMBOL_COUNT];
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        symbols[i] = dlsym(library, symbol_names[i]);
        if (!symbols[i])
            return tide_fail_advised(
                err, TIDE_E_UNAVAILABLE,
                "cannot use %s: it has no function %s; install libpq 14 or later", name,
                symbol_names[i]);
    }
    memcpy(&tide_pq, symbols, sizeof tide_pq);
    return TIDE_OK;
}

static tide_status load(tide_error *err)
{
    const char *named = getenv("TIDEMARK_LIBPQ");
    const char *name = named && *named ? named : DEFAULT_NAME;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return tide_fail_advised(
            err, TIDE_E_UNAVAILABLE,
            "cannot open the PostgreSQL client library: %s; install libpq 14 or later "
            "(Debian: libpq5), name its file in TIDEMARK_LIBPQ, or use a SQLite store",
            why ? why : name);
    }
    const tide_status status = take_symbols(library, name, err);
    if (status < TIDE_OK)
        (void)dlclose(library);
    return status;
}

tide_status tide_pq_load(tide_error *err)
{
    TIDE_HOLD(&load_lock);
    const tide_status status = is_loaded ? TIDE_OK : load(err);
    is_loaded = is_loaded || status == TIDE_OK;
    return status;
}
