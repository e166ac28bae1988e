/* demo_report.h - the program that the demonstration's workers run for each item.
 *
 * `tidemark work run` starts it: four steps of half a second, a checkpoint after each, the output
 * on stdout. After a crash it continues behind the step of the last checkpoint. One run in eight
 * fails after its second step. It needs no shell and no tools, so the demonstration runs where
 * there is nothing but this program.
 *
 * Threads: none. */
#pragma once

#include <stdio.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

enum { TIDE_DEMO_REPORT_STEPS = 4 };

/* TIDE_OK: the report is made, and its output is written to out. TIDE_E_FAILED: this run fails on
 * purpose. TIDE_E_INVALID: not started by `tidemark work run`. TIDE_E_IO: the worker is gone. */
TIDE_MUST_CHECK tide_status tide_demo_report(FILE *out, tide_env *env, tide_error *err);
