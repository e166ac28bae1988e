/* report.h - events of polling and recovery that an operator wants to know of.
 *
 * The library does not log. It reports to a function of the program; services/colony/report_log.h
 * writes a line of the program log for each.
 *
 * Threads: called on the thread that polls or recovers. What an event points to is borrowed for the
 * call. */
#pragma once

#include "colony/settle.h"

typedef enum tide_report_kind {
    TIDE_REPORT_GAP,       /* gap: found, recovered, void or lost, as its status says */
    TIDE_REPORT_GAP_LOST,  /* gap, reason: lost with its position */
    TIDE_REPORT_CLOSED,    /* position */
    TIDE_REPORT_REFUSED,   /* a response that is not accepted, or (is_sink) not stored */
    TIDE_REPORT_TOO_LARGE, /* a record behind the sequence number `number` is skipped */
    TIDE_REPORT_READER, /* the agent has seen token `number`; reason: the reader's name from now on */
} tide_report_kind;

typedef struct tide_report {
    tide_report_kind kind;
    const tide_gap *gap;
    const tide_position *position;
    const char *agent_id; /* REFUSED, TOO_LARGE, READER */
    const char *data_type;
    const char *reason;
    tide_status status; /* REFUSED */
    int64_t number;     /* REFUSED: failures in a row */
    bool is_sink;
    bool is_stuck; /* does not end by itself */
} tide_report;

typedef struct tide_reporter {
    void (*fn)(void *arg, const tide_report *report); /* NULL: silent */
    void *arg;
} tide_reporter;
