#include "runtime/options_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text/utf8.h"

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static tide_view trim(tide_view text)
{
    while (text.len > 0 && is_blank(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

/* ---- one line ---- */

static tide_status check_text(tide_view line, tide_error *err)
{
    if (!tide_utf8_valid(line))
        return tide_fail(err, TIDE_E_INVALID, "not valid UTF-8");
    for (size_t i = 0; i < line.len; i++) {
        const unsigned char byte = (unsigned char)line.ptr[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f)
            return tide_fail(err, TIDE_E_INVALID, "a control character (0x%02x) at column %zu",
                             byte, i + 1);
    }
    return TIDE_OK;
}

static tide_status check_name(tide_view name, tide_error *err)
{
    if (name.len == 0)
        return tide_fail(err, TIDE_E_INVALID, "no name before '='");
    bool is_good = name.len <= TIDE_OPTIONS_NAME_MAX;
    for (size_t i = 0; is_good && i < name.len; i++) {
        const char byte = name.ptr[i];
        is_good = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-';
    }
    if (!is_good)
        return tide_fail(err, TIDE_E_INVALID, "'%.*s' is not the name of an option",
                         name.len < 80 ? (int)name.len : 80, name.ptr);
    return TIDE_OK;
}

static tide_status parse_quotes(tide_view *value, tide_error *err)
{
    if (value->len == 0 || value->ptr[0] != '"')
        return TIDE_OK;
    if (value->len < 2 || value->ptr[value->len - 1] != '"')
        return tide_fail(err, TIDE_E_INVALID,
                         "the value begins with '\"' and does not end with it");
    *value = tide_view_bytes(value->ptr + 1, value->len - 2);
    if (value->len > 0 && memchr(value->ptr, '"', value->len))
        return tide_fail(err, TIDE_E_INVALID, "a value in '\"' cannot hold another");
    return TIDE_OK;
}

/* TIDE_NONE: nothing is set on this line. */
static tide_status split_line(tide_view line, tide_view *name, tide_view *value, tide_error *err)
{
    TIDE_TRY(check_text(line, err));
    line = trim(line);
    if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';')
        return TIDE_NONE;
    const char *equals = memchr(line.ptr, '=', line.len);
    if (!equals)
        return tide_fail(err, TIDE_E_INVALID, "want NAME = VALUE");
    *name = trim(tide_view_bytes(line.ptr, (size_t)(equals - line.ptr)));
    *value = trim(tide_view_bytes(equals + 1, line.len - (size_t)(equals - line.ptr) - 1));
    TIDE_TRY(check_name(*name, err));
    const bool is_bare = value->len == 0;
    TIDE_TRY(parse_quotes(value, err));
    if (is_bare)
        return tide_fail(err, TIDE_E_INVALID, "no value behind '='; write \"\" for an empty one");
    if (value->len > TIDE_OPTIONS_VALUE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a value has at most %d bytes, this one has %zu",
                         TIDE_OPTIONS_VALUE_MAX, value->len);
    return TIDE_OK;
}

/* ---- the file ---- */

/* The line up to its break; the text behind it stays. */
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

/* Name and value are ended inside the text: what stands behind each is a blank, '=', a quote or a
 * break, and has been read already. */
static tide_status add_setting(tide_options_file *file, tide_view name, tide_view value, int line,
                               tide_error *err)
{
    if (file->count == TIDE_OPTIONS_FILE_LINES)
        return tide_fail(err, TIDE_E_INVALID, "more than %d settings", TIDE_OPTIONS_FILE_LINES);
    TIDE_TRY(
        tide_list_room(&file->settings, file->count, sizeof *file->settings, TIDE_LIST_MAX, err));
    file->text[(size_t)(name.ptr - file->text) + name.len] = '\0';
    file->text[(size_t)(value.ptr - file->text) + value.len] = '\0';
    file->settings[file->count++] =
        (tide_setting){.name = name.ptr, .value = value.ptr, .line = line};
    return TIDE_OK;
}

static tide_status parse_line(tide_options_file *file, tide_view line, int number, tide_error *err)
{
    tide_view name = {NULL, 0};
    tide_view value = {NULL, 0};
    const tide_status status = split_line(line, &name, &value, err);
    return status == TIDE_OK ? add_setting(file, name, value, number, err) : status;
}

static tide_status parse_text(tide_options_file *file, size_t len, tide_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* some editors begin a text with it */
    tide_view rest = {file->text, len};
    if (len >= 3 && memcmp(rest.ptr, mark, 3) == 0)
        rest = tide_view_bytes(rest.ptr + 3, len - 3);
    for (int number = 1; rest.len > 0; number++) {
        const tide_view line = cut_line(&rest);
        const tide_status status = parse_line(file, line, number, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s:%d", file->path, number);
    }
    return TIDE_OK;
}

tide_status tide_options_file_parse(tide_options_file *out, tide_view text, const char *path,
                                    tide_error *err)
{
    *out = (tide_options_file){.count = 0};
    if (text.len > TIDE_OPTIONS_FILE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s: more than %d bytes", path,
                         TIDE_OPTIONS_FILE_MAX);
    out->path = strdup(path);
    out->text = malloc(text.len + 1);
    TIDE_NEED_MEMORY(out->path && out->text, err);
    if (text.len > 0)
        memcpy(out->text, text.ptr, text.len);
    out->text[text.len] = '\0';
    return parse_text(out, text.len, err);
}

tide_status tide_options_file_read(tide_options_file *out, const char *path, tide_error *err)
{
    *out = (tide_options_file){.count = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_OPTIONS_FILE_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    return tide_options_file_parse(out, tide_buffer_view(&text), path, err);
}

void tide_options_file_done(tide_options_file *file)
{
    free(file->path);
    free(file->text);
    free(file->settings);
    *file = (tide_options_file){.count = 0};
}

tide_status tide_options_file_fail(const tide_options_file *file, const tide_setting *setting,
                                   tide_status status, tide_error *err)
{
    return tide_fail_context(err, status, "%s:%d", file->path, setting->line);
}
