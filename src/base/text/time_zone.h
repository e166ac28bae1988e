/* time_zone.h - local time of a named zone, from the machine's TZif files (RFC 9636).
 *
 *     TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = NULL;
 *     TIDE_TRY(tide_time_zone_load(&zone, "Europe/Berlin", err));
 *     local_s = utc_s + tide_time_zone_offset(zone, utc_s);
 *
 * The files are read directly: the process's TZ and the C library's state are not touched. Behind
 * the last transition of a file its rule counts (CET-1CEST,M3.5.0,M10.5.0/3).
 *
 * Local times are not unique. tide_time_zone_find maps one to the moment at which it occurs:
 *
 *     once       that moment
 *     twice      (clocks were set back) the first one
 *     never      (clocks were set ahead) the moment at which they were
 *
 * Threads: a loaded zone does not change. Limits: TIDE_TIME_ZONE_NAME_MAX; files up to 256 KiB. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/cleanup.h"

enum { TIDE_TIME_ZONE_NAME_MAX = 64 };

typedef struct tide_time_zone tide_time_zone;

/* TIDE_E_INVALID: no name of a zone. TIDE_E_NOT_FOUND: this machine does not know it; the text
 * names the package. TIDE_E_DAMAGED: its file is no TZif file. "UTC" needs no file. */
TIDE_MUST_CHECK tide_status tide_time_zone_load(tide_time_zone **out, const char *name,
                                                tide_error *err);
void tide_time_zone_free(tide_time_zone *zone); /* takes NULL */
TIDE_CLEANUP_FN(tide_time_zone_freep, tide_time_zone, tide_time_zone_free)

/* Seconds east of UTC at a moment (seconds since 1970). */
int64_t tide_time_zone_offset(const tide_time_zone *zone, int64_t utc_s);

/* The moment of a local time, both in seconds since 1970. */
int64_t tide_time_zone_find(const tide_time_zone *zone, int64_t local_s);

/* ---- for tests ---- */

/* A zone from the bytes of a TZif file. */
TIDE_MUST_CHECK tide_status tide_time_zone_parse(tide_time_zone **out, tide_view file,
                                                 tide_error *err);
