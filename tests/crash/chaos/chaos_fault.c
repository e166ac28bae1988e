#include "crash/chaos/chaos_fault.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/clock/fair_clock.h"

enum { COUNT_OF_STORES = 6 };

/* ---- what happened, for who looks into a failure ---- */

static void tell(const chaos_faults *f, const char *what, const chaos_node *node, int rule,
                 int64_t until_ms)
{
    const chaos_machine *machine = node ? &node->machine : NULL;
    const bool has_rule = machine && rule >= 0;
    if (!f->log)
        return;
    (void)fprintf(f->log, "%" PRId64 " %s %s for %" PRId64 " ms%s%s%s%s\n",
                  wall_clock_ms() - f->began_ms, what, node ? node->name : "server",
                  until_ms - wall_clock_ms(), has_rule ? " in: " : "",
                  has_rule ? machine->in[rule] : "", has_rule ? " out: " : "",
                  has_rule ? machine->out[rule] : "");
    (void)fflush(f->log);
}

/* ---- choices ---- */

static int64_t draw_ms(chaos_faults *f, uint64_t least, uint64_t most)
{
    return wall_clock_ms() + (int64_t)(least + prng_below(&f->chance, most - least + 1));
}

static chaos_node *draw_agent(chaos_faults *f)
{
    return &f->fleet->nodes[prng_below(&f->chance, CHAOS_AGENTS)];
}

static chaos_node *draw_colony(chaos_faults *f)
{
    return &f->fleet->nodes[CHAOS_AGENTS + prng_below(&f->chance, CHAOS_COLONIES)];
}

static bool has_fault(const chaos_faults *f, const chaos_node *node)
{
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (f->active[i].kind != CHAOS_NONE && f->active[i].node == node)
            return true;
    return false;
}

/* One colony at a time is left in peace, so that things go on. */
static bool may_break(const chaos_faults *f, const chaos_node *node)
{
    int well = 0;
    if (!node->is_colony)
        return true;
    for (int i = CHAOS_AGENTS; i < CHAOS_NODES; i++)
        well += &f->fleet->nodes[i] != node && !has_fault(f, &f->fleet->nodes[i]);
    return well > 0;
}

static chaos_node *draw_node(chaos_faults *f)
{
    chaos_node *node = prng_chance(&f->chance, 1, 4) ? draw_colony(f) : draw_agent(f);
    return may_break(f, node) ? node : draw_agent(f);
}

static chaos_fault *find_room(chaos_faults *f)
{
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (f->active[i].kind == CHAOS_NONE)
            return &f->active[i];
    return NULL;
}

static bool has_process_fault(const chaos_faults *f, const chaos_node *node)
{
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (f->active[i].node == node &&
            (f->active[i].kind == CHAOS_FREEZE || f->active[i].kind == CHAOS_KILL))
            return true;
    return false;
}

static bool has_server_fault(const chaos_faults *f)
{
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (f->active[i].kind == CHAOS_SERVER_FREEZE || f->active[i].kind == CHAOS_SERVER_KILL)
            return true;
    return false;
}

/* ---- the network ---- */

/* The rule's number, or -1. */
static int break_network(chaos_faults *f, chaos_node *node)
{
    const char *other = node->is_colony ? CHAOS_NET_PREFIX "1" : draw_colony(f)->machine.address;
    switch (prng_below(&f->chance, 7)) {
    case 0: /* from everybody: also from who writes into it */
        return chaos_net_cut(&node->machine, CHAOS_NET_ALL, true, true);
    case 1: /* from one colony; a colony from the server */
    case 2:
        return chaos_net_cut(&node->machine, other, true, true);
    case 3: /* it hears and is not heard, or the other way round */
        return chaos_net_cut(&node->machine, CHAOS_NET_ALL, false, true);
    case 4:
        return chaos_net_cut(&node->machine, node->is_colony ? other : CHAOS_COLONY_RANGE, true,
                             false);
    case 5:
        return chaos_net_reset(&node->machine, node->is_colony ? CHAOS_NET_ALL : other);
    default:
        return chaos_net_lose(&node->machine, 5 + (int)prng_below(&f->chance, 30));
    }
}

static tide_status begin_network(chaos_faults *f, chaos_fault *fault, tide_error *err)
{
    chaos_node *node = draw_node(f);
    const int rule = break_network(f, node);
    if (rule < 0)
        return TIDE_OK;
    *fault = (chaos_fault){
        .kind = CHAOS_NETWORK, .node = node, .rule = rule, .until_ms = draw_ms(f, 200, 6000)};
    return chaos_net_apply(&f->fleet->net, &node->machine, err);
}

/* ---- processes ---- */

static void begin_freeze(chaos_faults *f, chaos_fault *fault)
{
    chaos_node *node = draw_node(f);
    if (has_process_fault(f, node))
        return;
    chaos_fleet_freeze(node, true);
    /* A lease is 3 s: some wake up to find that another has taken over. */
    *fault = (chaos_fault){.kind = CHAOS_FREEZE,
                           .node = node,
                           .until_ms = draw_ms(f, 100, node->is_colony ? 7000 : 4000)};
}

static void begin_kill(chaos_faults *f, chaos_fault *fault)
{
    chaos_node *node = draw_node(f);
    if (has_process_fault(f, node))
        return;
    chaos_fleet_kill(node);
    *fault = (chaos_fault){.kind = CHAOS_KILL, .node = node, .until_ms = draw_ms(f, 0, 2500)};
}

/* A clock stays as it is until it is set again: nothing ends. */
static tide_status set_clock(chaos_faults *f, tide_error *err)
{
    static const char *const offsets[] = {"+1h", "-1h", "+0", "+59m", "-3540s"};
    chaos_node *node = &f->fleet->nodes[CHAOS_CLOCKS * prng_below(&f->chance, 6) + 1];
    f->counts[CHAOS_CLOCK]++;
    return chaos_fleet_set_clock(f->fleet, node, offsets[prng_below(&f->chance, 5)], err);
}

/* ---- the server ---- */

static void list_children(chaos_faults *f, pid_t parent)
{
    char path[64];
    char text[16 * CHAOS_FROZEN];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    char *rest = text;
    for (long pid = strtol(rest, &rest, 10); pid > 0 && f->frozen_count < CHAOS_FROZEN;
         pid = strtol(rest, &rest, 10))
        f->frozen[f->frozen_count++] = (pid_t)pid;
}

static void begin_server_freeze(chaos_faults *f, chaos_fault *fault)
{
    if (has_server_fault(f))
        return;
    f->frozen[0] = f->fleet->cluster.server.pid;
    f->frozen_count = 1;
    (void)kill(f->frozen[0], SIGSTOP); /* no further children */
    list_children(f, f->frozen[0]);
    for (int i = 1; i < f->frozen_count; i++)
        (void)kill(f->frozen[i], SIGSTOP);
    *fault = (chaos_fault){.kind = CHAOS_SERVER_FREEZE, .until_ms = draw_ms(f, 100, 2500)};
}

void chaos_fault_thaw(chaos_faults *f)
{
    while (f->frozen_count > 0)
        (void)kill(f->frozen[--f->frozen_count], SIGCONT);
}

static tide_status begin_server_kill(chaos_faults *f, chaos_fault *fault, tide_error *err)
{
    if (has_server_fault(f))
        return TIDE_OK;
    *fault = (chaos_fault){.kind = CHAOS_SERVER_KILL, .until_ms = draw_ms(f, 0, 2000)};
    return pg_cluster_crash(&f->fleet->cluster, err);
}

/* ---- begin, end ---- */

tide_status chaos_fault_begin(chaos_faults *f, tide_error *err)
{
    chaos_fault *fault = find_room(f);
    if (!fault)
        return TIDE_OK;
    const uint64_t die = prng_below(&f->chance, 100);
    tide_status status = TIDE_OK;
    if (die < 50)
        status = begin_network(f, fault, err);
    else if (die < 67)
        begin_freeze(f, fault);
    else if (die < 85)
        begin_kill(f, fault);
    else if (die < 91)
        status = set_clock(f, err);
    else if (die < 97)
        begin_server_freeze(f, fault);
    else
        status = begin_server_kill(f, fault, err);
    static const char *const names[] = {"nothing", "network", "freeze", "kill",
                                        "clock",   "freeze",  "kill"};
    if (fault->kind != CHAOS_NONE)
        tell(f, names[fault->kind], fault->node, fault->kind == CHAOS_NETWORK ? fault->rule : -1,
             fault->until_ms);
    f->counts[fault->kind]++;
    return status;
}

static tide_status end_fault(chaos_faults *f, chaos_fault *fault, tide_error *err)
{
    const chaos_fault over = *fault;
    *fault = (chaos_fault){.kind = CHAOS_NONE};
    switch (over.kind) {
    case CHAOS_NETWORK:
        chaos_net_heal(&over.node->machine, over.rule);
        return chaos_net_apply(&f->fleet->net, &over.node->machine, err);
    case CHAOS_FREEZE:
        chaos_fleet_freeze(over.node, false);
        return TIDE_OK;
    case CHAOS_KILL:
        return chaos_fleet_start(f->fleet, over.node, err);
    case CHAOS_SERVER_FREEZE:
        chaos_fault_thaw(f);
        return TIDE_OK;
    case CHAOS_SERVER_KILL:
        return pg_cluster_restart(&f->fleet->cluster, err);
    case CHAOS_CLOCK:
    case CHAOS_NONE:
        break;
    }
    return TIDE_OK;
}

tide_status chaos_fault_end(chaos_faults *f, int64_t now_ms, tide_error *err)
{
    for (int i = 0; i < CHAOS_FAULTS; i++)
        if (f->active[i].kind != CHAOS_NONE && f->active[i].until_ms <= now_ms)
            TIDE_TRY(end_fault(f, &f->active[i], err));
    return TIDE_OK;
}

/* ---- stores ---- */

static tide_status run_shell(const char *script, const char *directory, tide_error *err)
{
    const char *const argv[] = {"/bin/sh", "-ec", script, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    TIDE_TRY(proc_run(&result, &(proc_options){.argv = argv, .directory = directory}, 30000, err));
    return result.exit_code == 0 ? TIDE_OK
                                 : tide_fail(err, TIDE_E_FAILED, "'%s': %s", script, result.err);
}

typedef struct copied_head {
    char session[64];
    uint64_t head;
} copied_head;

static void keep_head(void *arg, const char *session, const char *stream, uint64_t head)
{
    copied_head *kept = arg;
    (void)snprintf(kept->session, sizeof kept->session, "%s", session);
    if (strcmp(stream, CHAOS_STREAM) == 0)
        kept->head = head;
}

/* The agent is dead and its sender waits; what is done is written to the history. */
static tide_status change_store(chaos_faults *f, int index, const char *script, const char *what,
                                const copied_head *head, tide_error *err)
{
    char directory[TEMPDIR_PATH_MAX];
    chaos_node *node = &f->fleet->nodes[index];
    chaos_fleet_path(f->fleet, node, "", directory);
    tell(f, what, node, -1, wall_clock_ms());
    chaos_fleet_kill(node);
    TIDE_TRY(run_shell(script, directory, err));
    chaos_sender_note(&f->senders[index], what, head->head);
    return chaos_fleet_start(f->fleet, node, err);
}

static const char copy_script[] =
    "rm -rf copy; mkdir copy; cp -p agent.db* copy; cp -rp state copy";
/* Another file under the same name: seen by who looks at the inode. */
static const char put_back_script[] = "rm agent.db*; cp copy/agent.db* .";
/* The same file with the old bytes, and all its surroundings: as if the whole machine had been restored. */
static const char roll_back_script[] =
    "cat copy/agent.db > agent.db; rm -f agent.db-shm; "
    "if [ -e copy/agent.db-wal ]; then cat copy/agent.db-wal > agent.db-wal; "
    "else rm -f agent.db-wal; fi; rm -rf state; cp -rp copy/state state";
static const char remove_script[] = "rm -f agent.db*";

static tide_status copy_store(chaos_faults *f, tide_error *err)
{
    copied_head head = {.session = ""};
    const int index = (int)prng_below(&f->chance, CHAOS_AGENTS);
    if (has_process_fault(f, &f->fleet->nodes[index]))
        return TIDE_OK;
    chaos_sender_pause(&f->senders[index]);
    tide_status status = chaos_sender_streams(&f->senders[index], keep_head, &head, NULL);
    const bool is_heard = status >= TIDE_OK;
    status = TIDE_OK;
    if (is_heard)
        status = change_store(f, index, copy_script, "backup", &head, err);
    chaos_sender_resume(&f->senders[index]);
    if (is_heard) {
        f->copied = index;
        f->head = head.head;
        f->stores++;
    }
    return status;
}

/* Whatever else goes on there, it is killed, and runs afterwards. */
static tide_status replace_store(chaos_faults *f, int index, const char *script, const char *what,
                                 tide_error *err)
{
    if (has_process_fault(f, &f->fleet->nodes[index]))
        return TIDE_OK;
    const copied_head head = {.session = "", .head = f->head};
    chaos_sender_pause(&f->senders[index]);
    const tide_status status = change_store(f, index, script, what, &head, err);
    chaos_sender_resume(&f->senders[index]);
    f->stores++;
    return status;
}

tide_status chaos_fault_store(chaos_faults *f, tide_error *err)
{
    switch (f->stores % COUNT_OF_STORES) {
    case 0:
    case 3:
        return copy_store(f, err);
    case 1:
        return replace_store(f, f->copied, put_back_script, "restore", err);
    case 4:
        return replace_store(f, f->copied, roll_back_script, "rollback", err);
    default:
        return replace_store(f, (int)prng_below(&f->chance, CHAOS_AGENTS), remove_script, "wipe",
                             err);
    }
}
