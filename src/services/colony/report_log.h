/* report_log.h - a line of the program log for each event of polling and recovery.
 *
 *     .reporter = tide_report_logger(log)
 *
 * Threads: as colony/report.h. */
#ifndef TIDE_SERVICES_COLONY_REPORT_LOG_H
#define TIDE_SERVICES_COLONY_REPORT_LOG_H

#include "base/log.h"
#include "colony/report.h"

/* NULL: silent. The log outlives it. */
tide_reporter tide_report_logger(tide_log *log);

#endif
