/* proc_internal.h - what the files of proc share.
 *
 *     proc.c          a running child: signal, wait, reap
 *     proc_start.c    fork and exec
 *     proc_run.c      run to the end, output collected
 *     proc_family.c   processes as /proc shows them; killing a family
 *     proc_find.c     where the program under test is
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

#include "support/process/proc.h"

/* How long poll() may wait before the deadline, a time of proc_now_ms(), is checked again: a slice
 * at most, 0 when it is over. */
int proc_slice_ms(int64_t deadline_ms);

/* Closes what is open, and leaves -1. */
void proc_close_fd(int *fd);
