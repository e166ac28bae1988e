/* fault_gate.h - where every call on a simulated disk is counted and may be stopped.
 *
 * A gate knows the armed fault, the planned power cut and the counters of one disk. It does
 * nothing to files: its verdict is what the call must return, and what that means.
 *
 * Threads: none; the disk's lock is held. Only the files of fault_vfs use it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/disk/fault_vfs.h"

typedef struct fault_gate {
    fault_vfs_counters counters;
    fault_vfs_fault fault; /* nth 0: none */
    int64_t fault_seen;
    int64_t fault_hits;
    fault_vfs_call cut_on;
    int64_t cut_left; /* 0: no cut planned */
    bool is_cut;
} fault_gate;

typedef struct fault_verdict {
    int code; /* SQLITE_OK: go on */
    bool is_cutting;
    bool is_fault; /* the armed fault, not a disk that was cut before */
} fault_verdict;

fault_verdict fault_gate_judge(fault_gate *gate, fault_vfs_call call);
