/* hand_lake.h - a lake_case on the metabase that the cases of a program share (hand.h): empty, without files, with a handle of its own. */
#ifndef TIDEMARK_TESTS_LAKE_HAND_LAKE_H
#define TIDEMARK_TESTS_LAKE_HAND_LAKE_H

#include "hand.h"
#include "lake_fixture.h"

lake_case hand_lake(void **state);
void hand_lake_done(lake_case *l); /* the history is sound */

#endif
