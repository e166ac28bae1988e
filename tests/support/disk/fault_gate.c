#include "support/disk/fault_gate.h"

#include <sqlite3.h>

static int get_code(const fault_gate *gate, fault_vfs_call call)
{
    static const int codes[] = {
#define CALL_CODE(name, code) [FAULT_VFS_##name] = (code),
        FAULT_VFS_CALL_TABLE(CALL_CODE)
#undef CALL_CODE
    };
    return gate->fault.code ? gate->fault.code : codes[call];
}

static bool is_counted(fault_vfs_call on, fault_vfs_call call)
{
    return on == FAULT_VFS_ANY || on == call;
}

fault_verdict fault_gate_judge(fault_gate *gate, fault_vfs_call call)
{
    fault_verdict v = {.code = SQLITE_IOERR, .is_cutting = false, .is_fault = false};
    if (gate->is_cut)
        return v;
    gate->counters.calls[FAULT_VFS_ANY]++;
    gate->counters.calls[call]++;

    if (gate->cut_left > 0 && is_counted(gate->cut_on, call) && --gate->cut_left == 0) {
        gate->is_cut = true;
        v.is_cutting = true;
        return v;
    }
    const fault_vfs_fault *f = &gate->fault;
    if (f->nth > 0 && is_counted(f->on, call)) {
        gate->fault_seen++;
        if (gate->fault_seen == f->nth || (f->is_sticky && gate->fault_seen > f->nth)) {
            gate->fault_hits++;
            v.code = get_code(gate, call);
            v.is_fault = true;
            return v;
        }
    }
    v.code = SQLITE_OK;
    return v;
}
