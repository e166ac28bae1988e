#include <tidemark/token.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_token token;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "ci", .role = TIDE_TOKEN_WRITE};
    (void)db;
    (void)dir;
    DO(tide_token_create(store, &wanted, text, &token, err));
    DO(tide_token_check(store, tide_view_of(text), &token, err));
    WANT(strcmp(token.name, "ci") == 0 && token.role == TIDE_TOKEN_WRITE);
    DO(tide_token_revoke(store, "ci", err));
    WANT(tide_token_check(store, tide_view_of(text), &token, NULL) == TIDE_E_UNAUTHENTICATED);
    return TIDE_OK;
}
