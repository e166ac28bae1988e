/* value.h - one value of an option or argument: what its text may be, and what it means.
 *
 * Threads: pure. */
#pragma once

#include "cli/frame/options.h"

/* Does this text fit the option? *number is what it means, where its type is counted (see
 * tide_cli_type); otherwise untouched. what says where the text comes from, for messages.
 * TIDE_E_INVALID: no. */
TIDE_MUST_CHECK tide_status tide_cli_value_check(int64_t *number, const tide_cli_option *option,
                                                 const char *text, const char *what,
                                                 tide_error *err);

/* ", 1 to 100" or "" for help: what the option's range is. */
void tide_cli_value_range(char *out, size_t size, const tide_cli_option *option);
