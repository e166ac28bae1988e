/* hand_lake.h - a lake_case on the metabase that the cases of a program share (hand.h): empty, without files, with a handle of its own. */
#pragma once

#include "lake/lake_fixture.h"
#include "lake/maintenance/hand.h"

lake_case hand_lake(void **state);
void hand_lake_done(lake_case *l); /* the history is sound */
