#include "crash/chaos/chaos_net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { COMMAND_MS = 30000, ARGS = 24 };

/* One command, words separated by blanks; input may be NULL. */
static tide_status run(const char *command, const char *input, tide_error *err)
{
    char words[512];
    const char *argv[ARGS];
    int count = 0;
    char *rest = words;
    (void)snprintf(words, sizeof words, "%s", command);
    for (char *word = strsep(&rest, " "); word && count + 1 < ARGS; word = strsep(&rest, " "))
        argv[count++] = word;
    argv[count] = NULL;
    proc child;
    TIDE_TRY(proc_start(&child, &(proc_options){.argv = argv, .in = input ? PROC_PIPE : PROC_NULL},
                        err));
    if (input) {
        (void)!write(child.in_fd, input, strlen(input));
        (void)close(child.in_fd);
        child.in_fd = -1;
    }
    const tide_status status = proc_wait(&child, COMMAND_MS, err);
    const int code = child.exit_code;
    proc_done(&child);
    TIDE_TRY(status);
    return code == 0 ? TIDE_OK : tide_fail(err, TIDE_E_FAILED, "'%s' ended with %d", command, code);
}

static tide_status open_own(int *fd, tide_error *err)
{
    if (unshare(CLONE_NEWNET) != 0)
        return tide_fail(err, TIDE_E_DENIED,
                         "no network namespace: %s (this test needs root and CAP_SYS_ADMIN)",
                         strerror(errno));
    *fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return tide_fail(err, TIDE_E_IO, "/proc/thread-self/ns/net: %s", strerror(errno));
    return TIDE_OK;
}

static tide_status enter(int fd, tide_error *err)
{
    if (setns(fd, CLONE_NEWNET) != 0)
        return tide_fail(err, TIDE_E_DENIED, "setns: %s", strerror(errno));
    return TIDE_OK;
}

tide_status chaos_net_open(chaos_net *net, tide_error *err)
{
    TIDE_TRY(open_own(&net->hub_fd, err));
    return run("ip -batch -",
               "link set lo up\n"
               "link add switch type bridge forward_delay 0\n"
               "addr add " CHAOS_NET_PREFIX "1/24 dev switch\n"
               "link set switch up\n",
               err);
}

static tide_status wire(const chaos_net *net, const chaos_machine *machine, int host,
                        tide_error *err)
{
    char commands[512];
    (void)snprintf(commands, sizeof commands,
                   "link set lo up\n"
                   "link add eth0 type veth peer name port%d netns /proc/%d/fd/%d\n"
                   "addr add %s/24 dev eth0\n"
                   "link set eth0 up\n",
                   host, (int)getpid(), net->hub_fd, machine->address);
    return run("ip -batch -", commands, err);
}

tide_status chaos_net_add(const chaos_net *net, chaos_machine *machine, int host, tide_error *err)
{
    char command[128];
    *machine = (chaos_machine){.fd = -1};
    (void)snprintf(machine->address, sizeof machine->address, CHAOS_NET_PREFIX "%d", host);
    TIDE_TRY(open_own(&machine->fd, err));
    const tide_status status = wire(net, machine, host, err);
    TIDE_TRY(enter(net->hub_fd, status < TIDE_OK ? NULL : err));
    TIDE_TRY(status);
    (void)snprintf(command, sizeof command, "ip link set port%d master switch up", host);
    return run(command, NULL, err);
}

tide_status chaos_net_start(const chaos_net *net, const chaos_machine *machine, proc *child,
                            const proc_options *options, tide_error *err)
{
    TIDE_TRY(enter(machine->fd, err));
    const tide_status status = proc_start(child, options, err);
    TIDE_TRY(enter(net->hub_fd, status < TIDE_OK ? NULL : err));
    return status;
}

/* ---- the firewall ---- */

static size_t add_chain(char *text, size_t size, size_t len, const char *hook,
                        const char rules[CHAOS_NET_RULES][CHAOS_NET_RULE])
{
    len +=
        (size_t)snprintf(text + len, size - len,
                         "chain %s { type filter hook %s priority 0; policy accept;\n", hook, hook);
    for (int i = 0; i < CHAOS_NET_RULES; i++)
        if (rules[i][0])
            len += (size_t)snprintf(text + len, size - len, "%s\n", rules[i]);
    return len + (size_t)snprintf(text + len, size - len, "}\n");
}

tide_status chaos_net_apply(const chaos_net *net, const chaos_machine *machine, tide_error *err)
{
    char text[2 * CHAOS_NET_RULES * CHAOS_NET_RULE + 512];
    size_t len = (size_t)snprintf(text, sizeof text, "flush ruleset\ntable inet chaos {\n");
    len = add_chain(text, sizeof text, len, "input", machine->in);
    len = add_chain(text, sizeof text, len, "output", machine->out);
    (void)snprintf(text + len, sizeof text - len, "}\n");
    TIDE_TRY(enter(machine->fd, err));
    const tide_status status = run("nft -f -", text, err);
    TIDE_TRY(enter(net->hub_fd, status < TIDE_OK ? NULL : err));
    return status;
}

static int find_room(const chaos_machine *machine)
{
    for (int i = 0; i < CHAOS_NET_RULES; i++)
        if (!machine->in[i][0] && !machine->out[i][0])
            return i;
    return -1;
}

int chaos_net_cut(chaos_machine *machine, const char *others, bool is_in, bool is_out)
{
    const int rule = find_room(machine);
    if (rule >= 0 && is_in)
        (void)snprintf(machine->in[rule], CHAOS_NET_RULE, "ip saddr %s drop", others);
    if (rule >= 0 && is_out)
        (void)snprintf(machine->out[rule], CHAOS_NET_RULE, "ip daddr %s drop", others);
    return rule;
}

int chaos_net_reset(chaos_machine *machine, const char *others)
{
    const int rule = find_room(machine);
    if (rule >= 0)
        (void)snprintf(machine->in[rule], CHAOS_NET_RULE,
                       "ip saddr %s meta l4proto tcp reject with tcp reset", others);
    return rule;
}

int chaos_net_lose(chaos_machine *machine, int percent)
{
    const int rule = find_room(machine);
    if (rule >= 0)
        (void)snprintf(machine->in[rule], CHAOS_NET_RULE,
                       "iifname eth0 numgen random mod 100 < %d drop", percent);
    return rule;
}

void chaos_net_heal(chaos_machine *machine, int rule)
{
    if (rule < 0)
        return;
    machine->in[rule][0] = '\0';
    machine->out[rule][0] = '\0';
}
