#include "demo/demo_json.h"

#include <stdarg.h>
#include <stdio.h>

#include <tidemark/error.h>

enum { FORMAT_MAX = 1024, TEXT_MAX = 8192 };

void tide_demo_json(tide_buffer *out, const char *format, ...)
{
    char quoted[FORMAT_MAX];
    char text[TEXT_MAX];
    size_t len = 0;
    for (; format[len] && len + 1 < sizeof quoted; len++)
        quoted[len] = format[len] == '\'' ? '"' : format[len];
    quoted[len] = '\0';
    va_list args;
    va_start(args, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int written = vsnprintf(text, sizeof text, quoted, args);
#pragma GCC diagnostic pop
    va_end(args);
    if (written >= 0 && (size_t)written < sizeof text)
        TIDE_IGNORE(tide_buffer_append_text(out, text));
}
