/* lease_end.h - end a lease without its token, for operators. */
#pragma once

#include <tidemark/lease.h>

/* Whatever its token, which rises: the holder is refused from now on. Fine if it is not held. */
TIDE_MUST_CHECK tide_status tide_lease_end(tide_tx *tx, const char *name, tide_error *err);
