/* vtab_text.c - statements of the catalogue, prepared on a connection that is not ours. See vtab_parts.h.
 *
 * Every table of vtab.sql is written `main.<table>`. For another schema its quoted name takes the place of `main`. That is the one place
 * where a statement's text is made from parts: schemas cannot be bound. */
#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/vtab_parts.h"

enum { TEXT_MAX = 16384 };

static const char MAIN[] = "main.";

/* "name", with its quotes doubled. */
static tide_status append_name(tide_buffer *out, const char *name)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    for (; *name; name++) {
        if (*name == '"')
            TIDE_TRY(tide_buffer_append_byte(out, '"'));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*name));
    }
    return tide_buffer_append_text(out, "\".");
}

static tide_status append_for_schema(tide_buffer *out, const char *text, const char *schema)
{
    const char *at = NULL;
    while ((at = strstr(text, MAIN)) != NULL) {
        TIDE_TRY(tide_buffer_append(out, text, (size_t)(at - text)));
        TIDE_TRY(append_name(out, schema));
        text = at + sizeof MAIN - 1;
    }
    return tide_buffer_append_text(out, text);
}

int tide_vtab_prepare(sqlite3_stmt **out, sqlite3 *db, const tide_sql *sql, const char *schema)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    if (append_for_schema(&text, sql->engine[TIDE_ENGINE_SQLITE].text, schema) < TIDE_OK)
        return SQLITE_NOMEM;
    return sqlite3_prepare_v2(db, tide_buffer_text(&text), -1, out, NULL);
}

tide_status tide_vtab_replace(tide_buffer *out, const tide_sql *sql, const char *word,
                              const char *other)
{
    const char *text = sql->engine[TIDE_ENGINE_SQLITE].text;
    const char *at = strstr(text, word);
    assert(at);
    TIDE_TRY(tide_buffer_append(out, text, (size_t)(at - text)));
    TIDE_TRY(tide_buffer_append_text(out, other));
    return tide_buffer_append_text(out, at + strlen(word));
}

int tide_vtab_param(const tide_sql *sql, const char *name)
{
    const tide_sql_text *text = &sql->engine[TIDE_ENGINE_SQLITE];
    int place = 0;
    while (place < text->param_count && strcmp(text->params[place], name) != 0)
        place++;
    assert(place < text->param_count);
    return place + 1;
}

void tide_vtab_finalizep(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
}
