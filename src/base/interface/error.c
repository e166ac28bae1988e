/* error.c - filling a tide_error, cutting what does not fit. */
#include <tidemark/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char ELLIPSIS[] = "...";

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0U) == 0x80U;
}

/* Make room for the ellipsis in a full text. A UTF-8 character that would be split goes as a whole;
 * bytes that are no UTF-8 cost at most three more. */
static void mark_cut(char *text, size_t size)
{
    size_t at = size - sizeof ELLIPSIS;
    for (int i = 0; i < 3 && at > 0 && is_continuation(text[at]); i++)
        at--;
    memcpy(text + at, ELLIPSIS, sizeof ELLIPSIS);
}

/* Formats into a buffer of its own: an argument may point into the text that is being replaced. */
static void format_text(char out[TIDE_ERROR_TEXT_MAX], const char *format, va_list args)
    TIDE_PRINTF(2, 0);

static void format_text(char out[TIDE_ERROR_TEXT_MAX], const char *format, va_list args)
{
    out[0] = '\0';
    const int len = format ? vsnprintf(out, TIDE_ERROR_TEXT_MAX, format, args) : 0;
    if (len < 0)
        memcpy(out, "?", sizeof "?"); /* the C library could not format it (a bad wide character) */
    else if (len >= TIDE_ERROR_TEXT_MAX)
        mark_cut(out, TIDE_ERROR_TEXT_MAX);
}

/* A failure that exists: neither success nor a number outside the table leaves a failing path. */
static tide_status failure_of(tide_status status)
{
    return status != TIDE_OK && tide_status_get(status)->status == status ? status : TIDE_E_FAILED;
}

static tide_status fail(tide_error *err, tide_status given, bool is_advised, const char *format,
                        va_list args) TIDE_PRINTF(4, 0);

static tide_status fail(tide_error *err, tide_status given, bool is_advised, const char *format,
                        va_list args)
{
    const tide_status status = failure_of(given);
    if (!err)
        return status;

    const int saved_errno = errno; /* callers still look at it after reporting */
    char text[TIDE_ERROR_TEXT_MAX];
    format_text(text, format, args);
    err->status = status;
    err->is_advised = is_advised;
    memcpy(err->text, text, strlen(text) + 1);
    errno = saved_errno;
    return status;
}

tide_status tide_fail(tide_error *err, tide_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const tide_status failure = fail(err, status, false, format, args);
    va_end(args);
    return failure;
}

tide_status tide_no_memory(tide_error *err)
{
    return tide_fail(err, TIDE_E_NOMEM, "no memory");
}

tide_status tide_fail_advised(tide_error *err, tide_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const tide_status failure = fail(err, status, true, format, args);
    va_end(args);
    return failure;
}

tide_status tide_fail_context(tide_error *err, tide_status given, const char *format, ...)
{
    const tide_status status = failure_of(given);
    if (!err)
        return status;

    const int saved_errno = errno;
    char context[TIDE_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    format_text(context, format, args);
    va_end(args);

    /* A callee that returns a bare status leaves no words: the table's are better than none. */
    char detail[TIDE_ERROR_TEXT_MAX];
    const char *words = err->text[0] != '\0' ? err->text : tide_status_get(status)->text;
    memcpy(detail, words, strlen(words) + 1);

    err->status = status;
    const int len = snprintf(err->text, sizeof err->text, "%s: %s", context, detail);
    if (len >= (int)sizeof err->text)
        mark_cut(err->text, sizeof err->text);
    errno = saved_errno;
    return status;
}
