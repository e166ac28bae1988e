/* annotate.h - what is accepted as an annotation. */
#pragma once

#include <tidemark/journal.h>

/* TIDE_E_INVALID: an unknown severity, an empty or too long note, no UTF-8. */
TIDE_MUST_CHECK tide_status tide_annotation_check(const char *severity, const char *note,
                                                  tide_error *err);
