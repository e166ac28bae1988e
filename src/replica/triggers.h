/* triggers.h - triggers of the application beside what peers wrote (store/foreign/foreign_triggers.h).
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/node.h"

/* Before rows of peers are written: copies of the triggers that may run for them. */
TIDE_MUST_CHECK tide_status tide_triggers_copy(tide_foreign_tx *tx, tide_error *err);

/* TIDE_E_UNSUPPORTED: writes of tracked tables fire a trigger that can neither run here nor be left
 * out; err has the reason. */
TIDE_MUST_CHECK tide_status tide_triggers_check(tide_foreign_tx *tx, tide_error *err);
