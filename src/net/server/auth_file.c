#include "net/server/auth_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

enum { COLUMN_COUNT = 3 };

tide_status tide_auth_role_find(tide_call_role *out, tide_view name)
{
    static const struct {
        const char *name;
        tide_call_role role;
    } roles[] = {{"ingest", TIDE_ROLE_INGEST},
                 {"read", TIDE_ROLE_READ},
                 {"write", TIDE_ROLE_WRITE},
                 {"admin", TIDE_ROLE_ADMIN}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (!tide_view_equal(name, tide_view_of(roles[i].name)))
            continue;
        *out = roles[i].role;
        return TIDE_OK;
    }
    return TIDE_NONE;
}

/* ---- one line ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static tide_view cut_line(tide_view *rest)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    tide_view line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    const size_t step = line.len + (end ? 1 : 0);
    rest->ptr += step;
    rest->len -= step;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

/* How many words a line has; of them the first COLUMN_COUNT. */
static int split_columns(tide_view line, tide_view words[COLUMN_COUNT])
{
    int count = 0;
    size_t at = 0;
    for (;;) {
        while (at < line.len && is_blank(line.ptr[at]))
            at++;
        if (at == line.len)
            return count;
        const size_t begin = at;
        while (at < line.len && !is_blank(line.ptr[at]))
            at++;
        if (count < COLUMN_COUNT)
            words[count] = tide_view_bytes(line.ptr + begin, at - begin);
        count++;
    }
}

static bool is_visible(tide_view text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
            return false;
    return true;
}

static tide_status read_digest(uint8_t out[TIDE_SHA256_LEN], tide_view text, tide_error *err)
{
    static const char prefix[] = "sha256:";
    const size_t prefix_len = sizeof prefix - 1;
    const bool has_prefix = text.len >= prefix_len && memcmp(text.ptr, prefix, prefix_len) == 0;
    if (has_prefix)
        text = tide_view_bytes(text.ptr + prefix_len, text.len - prefix_len);
    if (tide_hex_decode(out, TIDE_SHA256_LEN, text) == TIDE_OK)
        return TIDE_OK;
    if (has_prefix)
        return tide_fail(err, TIDE_E_INVALID, "sha256: wants 64 hexadecimal digits behind it");
    if (text.len < TIDE_AUTH_SECRET_MIN || text.len > TIDE_AUTH_SECRET_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "a token has %d to %d characters, this one has %zu; a SHA-256 has 64 "
                         "hexadecimal digits",
                         TIDE_AUTH_SECRET_MIN, TIDE_AUTH_SECRET_MAX, text.len);
    return tide_sha256_of(text, out, err);
}

static tide_status read_row(tide_auth_row *row, const tide_view words[COLUMN_COUNT],
                            tide_error *err)
{
    if (words[0].len > TIDE_AUTH_NAME_MAX || !is_visible(words[0]))
        return tide_fail(err, TIDE_E_INVALID, "a name is visible ASCII of up to %d bytes",
                         TIDE_AUTH_NAME_MAX);
    memcpy(row->name, words[0].ptr, words[0].len);
    row->name[words[0].len] = '\0';
    if (tide_auth_role_find(&row->role, words[1]) != TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID,
                         "the role of '%s' is none of ingest, read, write, admin", row->name);
    if (!is_visible(words[2]))
        return tide_fail(err, TIDE_E_INVALID, "the token of '%s' is not visible ASCII", row->name);
    return read_digest(row->digest, words[2], err);
}

/* ---- the file ---- */

static tide_status add_row(tide_auth_rows *rows, const tide_auth_row *row, tide_error *err)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->items[i].name, row->name) == 0)
            return tide_fail(err, TIDE_E_INVALID, "'%s' stands there twice", row->name);
        if (memcmp(rows->items[i].digest, row->digest, sizeof row->digest) == 0)
            return tide_fail(err, TIDE_E_INVALID, "'%s' and '%s' have the same token",
                             rows->items[i].name, row->name);
    }
    if (rows->count == TIDE_AUTH_FILE_ROWS)
        return tide_fail(err, TIDE_E_INVALID, "more than %d tokens", TIDE_AUTH_FILE_ROWS);
    TIDE_TRY(tide_list_room(&rows->items, (int64_t)rows->count, sizeof *rows->items, TIDE_LIST_MAX,
                            err));
    rows->items[rows->count++] = *row;
    return TIDE_OK;
}

static tide_status take_line(tide_auth_rows *rows, tide_view line, tide_error *err)
{
    tide_view words[COLUMN_COUNT] = {{NULL, 0}};
    tide_auth_row row = {.role = TIDE_ROLE_NONE};
    const int count = split_columns(line, words);
    if (count == 0 || words[0].ptr[0] == '#')
        return TIDE_OK;
    if (count != COLUMN_COUNT)
        return tide_fail(err, TIDE_E_INVALID, "want NAME ROLE TOKEN, found %d word%s", count,
                         count == 1 ? "" : "s");
    TIDE_TRY(read_row(&row, words, err));
    return add_row(rows, &row, err);
}

tide_status tide_auth_rows_parse(tide_auth_rows *out, tide_view text, const char *name,
                                 tide_error *err)
{
    *out = (tide_auth_rows){.items = NULL};
    if (text.len > TIDE_AUTH_FILE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s: more than %d bytes", name, TIDE_AUTH_FILE_MAX);
    for (int number = 1; text.len > 0; number++) {
        const tide_status status = take_line(out, cut_line(&text), err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s:%d", name, number);
    }
    return TIDE_OK;
}

void tide_auth_rows_done(tide_auth_rows *rows)
{
    free(rows->items);
    *rows = (tide_auth_rows){.items = NULL};
}
