/* demo_json.h - JSON of the demonstration's requests, written as it reads.
 *
 *     tide_demo_json(&body, "{'name':'%s','count':%d}", name, count);
 *
 * Threads: as safe as the buffer. */
#pragma once

#include <tidemark/export.h>

#include "base/buffer.h"

/* Append a format whose single quotes become double ones. Texts are not escaped: they are the
 * demonstration's own. What does not fit is left out, and its request is refused. */
void tide_demo_json(tide_buffer *out, const char *format, ...) TIDE_PRINTF(2, 3);
