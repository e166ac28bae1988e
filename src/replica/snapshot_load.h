/* snapshot_load.h - rows of a snapshot into a node that has none: as they are. The maker has resolved them; with the same constraints they stand together
 * here as they stood there, in any order.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/snapshot_parts.h"
