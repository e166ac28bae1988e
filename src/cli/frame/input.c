#include "cli/frame/input.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"

enum { CHUNK_SIZE = 64 << 10 };

static bool is_stdin_taken;

static tide_status claim_stdin(const char *what, tide_error *err)
{
    if (is_stdin_taken)
        return tide_fail(err, TIDE_E_INVALID, "%s: stdin is read already; only one value can be -",
                         what);
    is_stdin_taken = true;
    return TIDE_OK;
}

static void close_file(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static tide_status open_file(FILE **out, const char *path, const char *what, tide_error *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file) {
        const tide_status status = errno == ENOENT || errno == ENOTDIR ? TIDE_E_INVALID
                                   : errno == EACCES                   ? TIDE_E_DENIED
                                                                       : TIDE_E_IO;
        return tide_fail(err, status, "%s: cannot open %s: %s", what, path, strerror(errno));
    }
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        (void)fclose(file);
        return tide_fail(err, TIDE_E_INVALID, "%s: %s is a directory", what, path);
    }
    *out = file;
    return TIDE_OK;
}

static tide_status fail_too_long(const char *what, size_t max, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "%s is longer than %zu bytes", what, max);
}

static tide_status read_all(tide_buffer *out, FILE *file, const char *what, tide_error *err)
{
    char chunk[CHUNK_SIZE];
    size_t len;
    while ((len = fread(chunk, 1, sizeof chunk, file)) > 0) {
        const tide_status status = tide_buffer_append(out, chunk, len);
        if (status == TIDE_E_LIMIT)
            return fail_too_long(what, out->max, err);
        TIDE_TRY(tide_buffer_check(status, err));
    }
    return ferror(file) ? tide_fail(err, TIDE_E_IO, "%s: cannot read: %s", what, strerror(errno))
                        : TIDE_OK;
}

tide_status tide_cli_input_read(tide_buffer *out, const char *value, const char *what,
                                tide_error *err)
{
    const bool is_stdin = strcmp(value, "-") == 0;
    if (!is_stdin && value[0] != '@') {
        const tide_status status = tide_buffer_append_text(out, value);
        if (status == TIDE_E_LIMIT)
            return fail_too_long(what, out->max, err);
        return tide_buffer_check(status, err);
    }
    if (is_stdin) {
        TIDE_TRY(claim_stdin(what, err));
        return read_all(out, stdin, what, err);
    }
    TIDE_CLEANUP(close_file) FILE *file = NULL;
    TIDE_TRY(open_file(&file, value + 1, what, err));
    return read_all(out, file, what, err);
}

/* ---- JSON ---- */

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

tide_status tide_cli_input_json(tide_buffer *out, const char *value, const char *what,
                                tide_error *err)
{
    TIDE_TRY(tide_cli_input_read(out, value, what, err));
    const tide_status status = tide_json_check(tide_buffer_view(out), err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "%s is not JSON", what);
    size_t end = out->len;
    size_t start = 0;
    while (is_space(out->ptr[end - 1]))
        end--;
    while (is_space(out->ptr[start]))
        start++;
    tide_buffer_truncate(out, end);
    if (start > 0) {
        memmove(out->ptr, out->ptr + start, end - start);
        tide_buffer_truncate(out, end - start);
    }
    return TIDE_OK;
}

/* ---- JSON lines ---- */

tide_status tide_cli_lines_init(tide_cli_lines *lines, const char *source, size_t line_max,
                                tide_error *err)
{
    const bool is_stdin = strcmp(source, "-") == 0;
    const char *path = source[0] == '@' ? source + 1 : source;
    *lines = (tide_cli_lines){.name = is_stdin ? "stdin" : path};
    tide_buffer_init(&lines->line, line_max);
    if (!is_stdin)
        return open_file(&lines->file, path, "JSON lines", err);
    TIDE_TRY(claim_stdin("JSON lines", err));
    lines->file = stdin;
    return TIDE_OK;
}

void tide_cli_lines_done(tide_cli_lines *lines)
{
    if (lines->file != stdin)
        close_file(&lines->file);
    lines->file = NULL;
    tide_json_tree_free(lines->object);
    lines->object = NULL;
    tide_buffer_done(&lines->line);
}

tide_status tide_cli_lines_context(const tide_cli_lines *lines, tide_status status, tide_error *err)
{
    return tide_fail_context(err, status, "%s, line %" PRId64, lines->name, lines->number);
}

/* One line without its break. TIDE_NONE: there is none left. */
static tide_status read_line(tide_cli_lines *lines, tide_error *err)
{
    tide_buffer_clear(&lines->line);
    lines->number++;
    int byte;
    while ((byte = getc(lines->file)) != EOF && byte != '\n') {
        const tide_status status = tide_buffer_append_byte(&lines->line, (uint8_t)byte);
        if (status == TIDE_E_LIMIT)
            return tide_cli_lines_fail(lines, err, TIDE_E_INVALID, "longer than %zu bytes",
                                       lines->line.max);
        TIDE_TRY(tide_buffer_check(status, err));
    }
    if (ferror(lines->file))
        return tide_cli_lines_fail(lines, err, TIDE_E_IO, "cannot read: %s", strerror(errno));
    return byte == EOF && lines->line.len == 0 ? TIDE_NONE : TIDE_OK;
}

static bool is_blank(tide_view line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!is_space(line.ptr[i]))
            return false;
    return true;
}

static tide_status parse_line(tide_cli_lines *lines, tide_error *err)
{
    const tide_status status =
        tide_json_tree_read(&lines->object, tide_buffer_view(&lines->line), err);
    if (status < TIDE_OK)
        return tide_cli_lines_context(lines, tide_fail_context(err, status, "not JSON"), err);
    if (!tide_json_node_is(lines->object, TIDE_JSON_TYPE_OBJECT))
        return tide_cli_lines_fail(lines, err, TIDE_E_INVALID, "not a JSON object");
    return TIDE_OK;
}

tide_status tide_cli_lines_next(tide_cli_lines *lines, const tide_json_node **object,
                                tide_error *err)
{
    tide_json_tree_free(lines->object);
    lines->object = NULL;
    do {
        TIDE_TRY_FOUND(read_line(lines, err));
    } while (is_blank(tide_buffer_view(&lines->line)));
    TIDE_TRY(parse_line(lines, err));
    *object = lines->object;
    return TIDE_OK;
}

static bool is_key(const tide_json_token *token, const char *key)
{
    const tide_view inside = tide_view_bytes(token->text.ptr + 1, token->text.len - 2);
    if (!token->has_escape)
        return tide_view_equal(inside, tide_view_of(key));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(token->text.len);
    return tide_json_unescape(&text, token->text) == TIDE_OK &&
           tide_view_equal(tide_buffer_view(&text), tide_view_of(key));
}

tide_view tide_cli_lines_member(const tide_cli_lines *lines, const char *key)
{
    return tide_cli_json_member(tide_buffer_view(&lines->line), key);
}

tide_view tide_cli_json_member(tide_view object, const char *key)
{
    tide_view found = {NULL, 0};
    tide_json_scan scan;
    tide_json_token token = {.kind = TIDE_JSON_LITERAL};
    size_t start = 0;
    bool is_wanted = false; /* the member under way is the one */
    tide_json_scan_init(&scan, object);
    while (token.kind != TIDE_JSON_END) {
        if (tide_json_scan_next(&scan, &token, NULL) < TIDE_OK)
            return (tide_view){NULL, 0};
        if (token.kind == TIDE_JSON_KEY && scan.depth == 1) {
            is_wanted = is_key(&token, key);
            start = 0;
            continue;
        }
        if (!is_wanted)
            continue;
        if (start == 0)
            start = token.offset;
        if (scan.depth == 1) {
            found = tide_view_bytes(object.ptr + start, token.offset + token.text.len - start);
            is_wanted = false;
        }
    }
    return found;
}
