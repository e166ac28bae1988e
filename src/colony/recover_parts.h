/* recover_parts.h - what the files of recovery share; nobody else includes it. */
#pragma once

#include "colony/recover.h"

#define TIDE_RECOVER_TASK "gap-recovery"
#define TIDE_RECOVER_GIVE_UP_US INT64_C(86400000000)
/* How long a foreign agent may still have the numbers of a void that is only presumed: it does not tell its retention. */
#define TIDE_RECOVER_PRESUMED_US INT64_C(3600000000)

/* With the defaults filled in. */
void tide_recover_defaults(tide_recover_options *out, const tide_recover_options *given);

/* Is this gap to be asked for at all: open, or void by presumption and still to be had? */
/* And now? Otherwise *next_us is lowered to the time until then. */
bool tide_recover_is_due(const tide_recover_options *options, const tide_gap *gap, int64_t now_us,
                         int64_t *next_us);
