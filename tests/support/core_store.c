#include "support/core_store.h"

#include <pthread.h>

#include "store/engine.h"
#include "tidemark_sql.h"

/* The first step, and the end of the list. Every store keeps a pointer to it. */
static tide_migration core_migrations[2];
static pthread_once_t is_made = PTHREAD_ONCE_INIT;

static void make_list(void)
{
    core_migrations[0] = tide_sql_migrations[0];
}

tide_status core_store_open(tide_store **out, const char *url, const tide_store_options *options,
                            tide_error *err)
{
    (void)pthread_once(&is_made, make_list);
    return tide_store_open_with(out, url, options, core_migrations, err);
}
