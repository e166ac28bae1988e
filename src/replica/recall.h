/* recall.h - what a row that is gone was like, by the events that made it.
 *
 * A scan finds rows gone that nobody saw go (capture was lost meanwhile). A concurrent write may bring such a row back, on every node as it was: its
 * image is put together from the log, each column from the event whose stamp its clock names. What was collected already stays unknown.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

/* Fill in values of the row that are not known. */
TIDE_MUST_CHECK tide_status tide_recall(tide_desk *desk, tide_desk_row *row, tide_error *err);
