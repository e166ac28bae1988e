#include "services/colony/report_log.h"

static void write_gap(tide_log *log, tide_log_level level, const char *message, const tide_gap *gap,
                      const char *reason)
{
    tide_log_write(log, level, message, TIDE_F("agent", gap->agent_id),
                   TIDE_F("data_type", gap->data_type), TIDE_F("session", gap->session_id),
                   TIDE_FI("epoch", gap->epoch), TIDE_FI("start", gap->start_seq),
                   TIDE_FI("end", gap->end_seq),
                   TIDE_FI("records", gap->end_seq - gap->start_seq + 1), TIDE_F("reason", reason),
                   TIDE_FI("attempts", gap->attempts), TIDE_F_END);
}

static void log_gap(tide_log *log, const tide_gap *gap)
{
    switch (gap->status) {
    case TIDE_GAP_DETECTED:
        if (gap->attempts == 0)
            write_gap(log, TIDE_LOG_WARN, "gap detected", gap, gap->reason);
        else
            write_gap(log, TIDE_LOG_WARN, "gap recovery failed, will retry", gap,
                      *gap->evidence ? gap->evidence : gap->reason);
        break;
    case TIDE_GAP_RECOVERING:
        write_gap(log, TIDE_LOG_WARN, "gap recovery failed, will retry", gap,
                  *gap->evidence ? gap->evidence : gap->reason);
        break;
    case TIDE_GAP_RECOVERED:
        write_gap(log, TIDE_LOG_INFO, "gap recovery succeeded", gap, gap->reason);
        break;
    case TIDE_GAP_VOID:
        write_gap(log, TIDE_LOG_INFO, "gap is void: these numbers were never used", gap,
                  gap->reason);
        break;
    case TIDE_GAP_PERMANENT:
        write_gap(log, TIDE_LOG_ERROR, "PERMANENT DATA LOSS", gap, gap->reason);
        break;
    case TIDE_GAP_STATUS_COUNT:
        break;
    }
}

static void log_report(void *arg, const tide_report *report)
{
    tide_log *log = arg;
    const tide_position *closed = report->position;
    switch (report->kind) {
    case TIDE_REPORT_GAP:
        log_gap(log, report->gap);
        break;
    case TIDE_REPORT_GAP_LOST:
        write_gap(log, TIDE_LOG_ERROR, "PERMANENT DATA LOSS", report->gap, report->reason);
        break;
    case TIDE_REPORT_CLOSED:
        tide_log_write(log, TIDE_LOG_WARN, "position closed", TIDE_F("agent", closed->agent_id),
                       TIDE_F("data_type", closed->data_type),
                       TIDE_F("session", closed->session_id), TIDE_FI("epoch", closed->epoch),
                       TIDE_FI("last_seq", closed->last_seq), TIDE_FI("head", closed->head),
                       TIDE_F("reason", closed->closed_reason), TIDE_F_END);
        break;
    case TIDE_REPORT_REFUSED:
        tide_log_write(log, report->is_stuck ? TIDE_LOG_ERROR : TIDE_LOG_WARN,
                       report->is_sink ? "an answer cannot be stored" : "an answer is refused",
                       TIDE_F("agent", report->agent_id), TIDE_F("data_type", report->data_type),
                       TIDE_F("status", tide_status_get(report->status)->name),
                       TIDE_F("reason", report->reason), TIDE_FI("failures", report->number),
                       TIDE_F_END);
        break;
    case TIDE_REPORT_TOO_LARGE:
        tide_log_write(log, TIDE_LOG_WARN, "a record is too large",
                       TIDE_F("agent", report->agent_id), TIDE_F("data_type", report->data_type),
                       TIDE_FI("behind", report->number), TIDE_F_END);
        break;
    case TIDE_REPORT_READER:
        tide_log_write(
            log, TIDE_LOG_WARN,
            "took a new reader name: the agent also serves a copy or a later state of this store",
            TIDE_F("agent", report->agent_id), TIDE_F("reader", report->reason),
            TIDE_FI("seen_token", report->number), TIDE_F_END);
        break;
    }
}

tide_reporter tide_report_logger(tide_log *log)
{
    return (tide_reporter){.fn = log ? log_report : NULL, .arg = log};
}
