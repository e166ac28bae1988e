/* check.h - one look for a monitoring system: a line, figures, and the exit code that Nagios and its relatives know.
 *
 *     TIDEMARK LAG WARNING - web-2 is 75.2 s behind; 12 agents | lag=75.2s;60;300;0 behind=310;;;0
 *
 *     0 OK   1 WARNING   2 CRITICAL   3 UNKNOWN: it could not be found out, whatever the reason
 *
 * A check finds out and calls tide_check_raise and tide_check_figure; whatever it fails with becomes UNKNOWN.
 *
 * Threads: one. */
#pragma once

#include "cli/frame/cli.h"

enum { TIDE_CHECK_FIGURES_MAX = 8, TIDE_CHECK_TEXT_MAX = 512, TIDE_CHECK_LEVEL_MAX = 32 };

typedef enum tide_check_state {
    TIDE_CHECK_OK,
    TIDE_CHECK_WARNING,
    TIDE_CHECK_CRITICAL,
    TIDE_CHECK_UNKNOWN,
} tide_check_state;

typedef struct tide_check_figure {
    const char *label;
    const char *unit; /* "s", "B", "%", "" */
    double value;
    char warning[TIDE_CHECK_LEVEL_MAX]; /* "": none; "30:" alerts below 30 */
    char critical[TIDE_CHECK_LEVEL_MAX];
} tide_check_figure;

typedef struct tide_check {
    tide_cli *cli;
    tide_env *env;
    tide_check_state state;
    char text[TIDE_CHECK_TEXT_MAX];
    tide_check_figure figures[TIDE_CHECK_FIGURES_MAX];
    int figure_count;
} tide_check;

typedef tide_status tide_check_fn(tide_check *check, tide_error *err);

/* The state gets worse, never better. */
void tide_check_raise(tide_check *check, tide_check_state state);
/* The line's words. */
void tide_check_say(tide_check *check, const char *format, ...) TIDE_PRINTF(2, 3);
/* Alerts at warning and critical and above; negative: no such level. */
void tide_check_rising(tide_check *check, const char *label, const char *unit, double value,
                       double warning, double critical);
/* Alerts below them. */
void tide_check_falling(tide_check *check, const char *label, const char *unit, double value,
                        double warning, double critical);
/* Only to be known. */
void tide_check_figure_only(tide_check *check, const char *label, const char *unit, double value);

/* What --warning and --critical say, as durations in microseconds. TIDE_E_INVALID: they are none, or the wrong way round
 * (is_falling: critical is the lower one). */
TIDE_MUST_CHECK tide_status tide_check_durations(const tide_cli *cli, bool is_falling,
                                                 int64_t *warning_us, int64_t *critical_us,
                                                 tide_error *err);
TIDE_MUST_CHECK tide_status tide_check_numbers(const tide_cli *cli, int64_t *warning,
                                               int64_t *critical, tide_error *err);

/* ---- the checks ---- */

tide_check_fn tide_check_lag;   /* check_fleet.c */
tide_check_fn tide_check_gaps;  /* check_fleet.c */
tide_check_fn tide_check_books; /* check_fleet.c */
tide_check_fn tide_check_disk;  /* check_disk.c */
tide_check_fn tide_check_cert;  /* check_cert.c */
tide_check_fn tide_check_ready; /* check_ready.c */
