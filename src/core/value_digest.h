/* value_digest.h - digest of a stored value: a changed byte is reported, not served.
 *
 * 64 bits over what the value is (kind), whose it is (the row's name) and its bytes, each behind its length, so that a value that was
 * moved to another row does not match either. It finds accidents; it is no defence against people.
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

TIDE_MUST_CHECK tide_status tide_value_digest(int64_t *out, const char *kind, tide_view name,
                                              tide_view value, tide_error *err);

/* TIDE_E_DAMAGED names the row. */
TIDE_MUST_CHECK tide_status tide_value_digest_check(int64_t stored, const char *kind,
                                                    tide_view name, tide_view value,
                                                    tide_error *err);
