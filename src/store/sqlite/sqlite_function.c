#include "store/sqlite/sqlite_function.h"

#include "base/cleanup.h"
#include "base/digest.h"

/* Called before sqlite3_value_bytes: that order is SQLite's rule. */
static tide_view blob_of(sqlite3_value *value)
{
    const void *bytes = sqlite3_value_blob(value);
    return (tide_view){.ptr = bytes, .len = (size_t)sqlite3_value_bytes(value)};
}

static tide_status hash_link(uint8_t out[TIDE_SHA256_LEN], sqlite3_value **values, tide_error *err)
{
    const uint64_t number = (uint64_t)sqlite3_value_int64(values[1]);
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(number >> (56 - 8 * i));
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    TIDE_TRY(tide_sha256_add(&sha, blob_of(values[0]), err));
    TIDE_TRY(tide_sha256_add(&sha, (tide_view){.ptr = bytes, .len = sizeof bytes}, err));
    TIDE_TRY(tide_sha256_add(&sha, blob_of(values[2]), err));
    return tide_sha256_finish(&sha, out, err);
}

static void link_checkpoints(sqlite3_context *context, int count, sqlite3_value **values)
{
    for (int i = 0; i < count; i++)
        if (sqlite3_value_type(values[i]) == SQLITE_NULL)
            return;
    uint8_t digest[TIDE_SHA256_LEN];
    tide_error err;
    if (hash_link(digest, values, &err) == TIDE_OK)
        sqlite3_result_blob(context, digest, sizeof digest, SQLITE_TRANSIENT);
    else
        sqlite3_result_error(context, err.text, -1);
}

int tide_sqlite_add_functions(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "tide_link", 3,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
                                      link_checkpoints, NULL, NULL, NULL);
}
