#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"

static const char *const LEVEL_NAMES[] = {
    [TIDE_LOG_ERROR] = "error",
    [TIDE_LOG_WARN] = "warn",
    [TIDE_LOG_INFO] = "info",
    [TIDE_LOG_DEBUG] = "debug",
};

static const char *const FORMAT_NAMES[] = {
    [TIDE_LOG_LOGFMT] = "logfmt",
    [TIDE_LOG_JSON] = "json",
};

static const char ELLIPSIS[] = "...";
static const char CUT_LOGFMT[] = " cut=true";
static const char CUT_JSON[] = ",\"cut\":true";

/* Kept free at the end of every line for the mark that fields are missing, the brace and the line
 * break. */
enum { TAIL_LEN = 16 };

void tide_log_init(tide_log *log, FILE *file, tide_env *env, tide_log_format format,
                   tide_log_level level)
{
    log->file = file;
    log->env = env;
    log->format = format;
    log->level = level;
    atomic_init(&log->lost, 0);
}

bool tide_log_is_on(const tide_log *log, tide_log_level level)
{
    return level <= log->level;
}

/* A text without anything that could be taken for the end of the value. */
static bool is_plain(tide_view text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char byte = (unsigned char)text.ptr[i];
        if (byte <= ' ' || byte == '"' || byte == '=' || byte == '\\' || byte == 0x7F)
            return false;
    }
    return text.len > 0 && tide_utf8_valid(text);
}

/* Logfmt quotes as JSON does, which every reader of it understands. */
static tide_status append_text(tide_buffer *line, tide_log_format format, tide_view text)
{
    char cut[TIDE_LOG_VALUE_MAX];
    if (text.len > sizeof cut) {
        const tide_view head = tide_utf8_cut(text, sizeof cut - strlen(ELLIPSIS));
        memcpy(cut, head.ptr, head.len);
        memcpy(cut + head.len, ELLIPSIS, strlen(ELLIPSIS));
        text = tide_view_bytes(cut, head.len + strlen(ELLIPSIS));
    }
    if (format == TIDE_LOG_LOGFMT && is_plain(text))
        return tide_buffer_append_view(line, text);
    return tide_json_append_string(line, text);
}

static tide_status append_key_byte(tide_buffer *line, char byte)
{
    const bool is_safe = is_plain(tide_view_bytes(&byte, 1));
    return tide_buffer_append_byte(line, is_safe ? (uint8_t)byte : '_');
}

static tide_status append_key(tide_buffer *line, tide_log_format format, const char *key)
{
    if (format == TIDE_LOG_JSON) {
        TIDE_TRY(tide_buffer_append_byte(line, ','));
        TIDE_TRY(tide_json_append_string(line, tide_view_of(key)));
        return tide_buffer_append_byte(line, ':');
    }
    TIDE_TRY(tide_buffer_append_byte(line, ' '));
    for (; *key != '\0'; key++)
        TIDE_TRY(append_key_byte(line, *key));
    return tide_buffer_append_byte(line, '=');
}

static tide_status append_field(tide_buffer *line, tide_log_format format,
                                const tide_log_field *field)
{
    TIDE_TRY(append_key(line, format, field->key));
    switch (field->kind) {
    case TIDE_LOG_KIND_INT:
        return tide_buffer_printf(line, "%" PRId64, field->integer);
    case TIDE_LOG_KIND_DOUBLE:
        return tide_json_append_double(line, field->real);
    case TIDE_LOG_KIND_BOOL:
        return tide_buffer_append_text(line, field->truth ? "true" : "false");
    case TIDE_LOG_KIND_TEXT:
    default:
        return append_text(line, format, field->text);
    }
}

/* RFC 3339, in the form that log readers know; a clock outside the calendar shows as the epoch. */
static void format_time(tide_env *env, char out[TIDE_TIME_TEXT_SIZE + 1])
{
    if (tide_time_format(env->wall_us(env), out) != TIDE_OK && tide_time_format(0, out) != TIDE_OK)
        return;
    out[10] = 'T';
    memcpy(out + TIDE_TIME_TEXT_SIZE - 1, "Z", sizeof "Z");
}

static tide_status append_head(tide_buffer *line, const tide_log *log, tide_log_level level,
                               const char *message)
{
    char time[TIDE_TIME_TEXT_SIZE + 1] = "";
    format_time(log->env, time);
    if (log->format == TIDE_LOG_JSON)
        TIDE_TRY(tide_buffer_printf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":", time,
                                    LEVEL_NAMES[level]));
    else
        TIDE_TRY(tide_buffer_printf(line, "time=%s level=%s msg=", time, LEVEL_NAMES[level]));
    return append_text(line, log->format, tide_view_of(message));
}

/* A field that does not fit goes as a whole, and those behind it with it. */
static tide_status append_fields(tide_buffer *line, tide_log_format format, va_list fields)
{
    const tide_log_field *field;
    while ((field = va_arg(fields, const tide_log_field *)) != NULL) {
        const size_t before_len = line->len;
        const tide_status status = append_field(line, format, field);
        if (status == TIDE_OK)
            continue;
        tide_buffer_truncate(line, before_len);
        line->max = TIDE_LOG_LINE_MAX;
        return tide_buffer_append_text(line, format == TIDE_LOG_JSON ? CUT_JSON : CUT_LOGFMT);
    }
    line->max = TIDE_LOG_LINE_MAX;
    return TIDE_OK;
}

/* Past stdio where there is a file behind it: stdio may cut a line in two at the end of its
 * buffer. */
static bool write_line(FILE *file, tide_view line)
{
    const int fd = fileno(file);
    if (fd < 0)
        return fwrite(line.ptr, 1, line.len, file) == line.len && fflush(file) == 0;
    (void)fflush(file);
    while (line.len > 0) {
        const ssize_t written = write(fd, line.ptr, line.len);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0)
            line = tide_view_bytes(line.ptr + written, line.len - (size_t)written);
    }
    return true;
}

static tide_status format_line(tide_buffer *line, const tide_log *log, tide_log_level level,
                               const char *message, va_list fields)
{
    TIDE_TRY(append_head(line, log, level, message));
    TIDE_TRY(append_fields(line, log->format, fields));
    return tide_buffer_append_text(line, log->format == TIDE_LOG_JSON ? "}\n" : "\n");
}

void tide_log_write(tide_log *log, tide_log_level level, const char *message, ...)
{
    if (!tide_log_is_on(log, level))
        return;
    const int saved_errno = errno;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer line = tide_buffer_of(TIDE_LOG_LINE_MAX - TAIL_LEN);

    va_list fields;
    va_start(fields, message);
    const tide_status status = format_line(&line, log, level, message, fields);
    va_end(fields);
    if (status != TIDE_OK || !write_line(log->file, tide_buffer_view(&line)))
        atomic_fetch_add(&log->lost, 1);
    errno = saved_errno;
}

static tide_status find_name(const char *const *names, size_t count, const char *text, size_t *at)
{
    for (*at = 0; *at < count; (*at)++) {
        if (strcmp(names[*at], text) == 0)
            return TIDE_OK;
    }
    return TIDE_E_INVALID;
}

tide_status tide_log_level_parse(tide_log_level *level, const char *text)
{
    size_t at;
    TIDE_TRY(find_name(LEVEL_NAMES, sizeof LEVEL_NAMES / sizeof LEVEL_NAMES[0], text, &at));
    *level = (tide_log_level)at;
    return TIDE_OK;
}

tide_status tide_log_format_parse(tide_log_format *format, const char *text)
{
    size_t at;
    TIDE_TRY(find_name(FORMAT_NAMES, sizeof FORMAT_NAMES / sizeof FORMAT_NAMES[0], text, &at));
    *format = (tide_log_format)at;
    return TIDE_OK;
}
