/* known.h - what a process knows of schemas and tables already (known.c); for the files of this folder alone.
 *
 * Threads: any. Limits: TIDE_LAKE_KNOWN_MAX things; the oldest go first. */
#pragma once

#include <stdatomic.h>

#include "lake/lake_parts.h"
#include "lake/state_row.h"

/* A schema or table of a catalog, as it is while the catalog has this schema_version. Not to be changed by who found it. */
typedef struct lake_known {
    int uses; /* the list's own, and of those who found it */
    int64_t catalog_id;
    int64_t version;
    tide_lake_object_row row;
    bool has_columns; /* and the partition */
    tide_lake_column_row *columns;
    int column_count;
    tide_lake_partition partition;
    int64_t partition_owner_id;
} lake_known;

typedef struct lake_known_question {
    int64_t catalog_id;
    int64_t version; /* below 0: of an older base, not known */
    tide_lake_kind kind;
    const char *name; /* NULL: by id */
    int64_t schema_id;
    int64_t id;
} lake_known_question;

/* NULL: not known. Release it. */
lake_known *lake_known_find(tide_lake_known_all *all, const lake_known_question *question);
void lake_known_release(tide_lake_known_all *all, lake_known *known); /* takes NULL */
/* Copied. */
void lake_known_put(tide_lake_known_all *all, const lake_known *what);
void lake_known_done(tide_lake_known_all *all);
