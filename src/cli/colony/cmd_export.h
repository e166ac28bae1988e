/* cmd_export.h - what the two ways of `tidemark export` share: into files, and from there into a lake. */
#pragma once

#include <limits.h>

#include "cli/colony/colony_store.h"

/* The daemon that writes the files may stand in another directory than its caller. */
TIDE_MUST_CHECK tide_status tide_cli_absolute(const char *dir, char out[PATH_MAX], tide_error *err);

/* Have the colony write what is new into dir (--data-type alone, where it is given). fn (may be NULL) is given the answer. */
typedef tide_status tide_cli_exported_fn(void *arg, const COLONY(ExportResponse) * answer,
                                         tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_export_files(tide_cli *cli, char *dir,
                                                  tide_cli_exported_fn *fn, void *arg,
                                                  tide_error *err);

/* cmd_export_lake.c: --lake */
TIDE_MUST_CHECK tide_status tide_cli_export_lake(tide_cli *cli, tide_error *err);
