/* report_log.h - a line of the program log for each event of polling and recovery.
 *
 *     .reporter = tide_report_logger(log)
 *
 * Threads: as colony/report.h. */
#pragma once

#include "base/log.h"
#include "colony/report.h"

/* NULL: silent. The log outlives it. */
tide_reporter tide_report_logger(tide_log *log);
