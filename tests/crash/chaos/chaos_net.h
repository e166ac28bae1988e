/* chaos_net.h - machines that are namespaces: each has a network of its own, a cable to one switch, and a firewall.
 *
 *     hub 10.77.0.1 ---- bridge ---- eth0 of each machine, 10.77.0.HOST
 *
 * The test itself moves into the hub: what it starts, connects to or listens on is there, unless it says otherwise. Namespaces
 * have no names; they are descriptors of this process, so nothing of them is left when it ends, however it ends.
 *
 * A firewall has a few rules at a time. Each is a line of nftables, put and taken away by its number.
 *
 * Needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN), ip and nft. Threads: one. */
#pragma once

#include "support/process/proc.h"

#define CHAOS_NET_PREFIX "10.77.0."
#define CHAOS_NET_ALL "10.77.0.0/24"

enum {
    CHAOS_NET_HUB = 1,    /* the hub's own host number */
    CHAOS_NET_RULES = 4,  /* of a firewall at a time */
    CHAOS_NET_RULE = 160, /* bytes of one */
    CHAOS_NET_ADDRESS = 16,
};

typedef struct chaos_machine {
    int fd; /* its namespace */
    char address[CHAOS_NET_ADDRESS];
    char in[CHAOS_NET_RULES]
           [CHAOS_NET_RULE]; /* what to do with what comes, in nftables' words; "": nothing */
    char out[CHAOS_NET_RULES][CHAOS_NET_RULE];
} chaos_machine;

typedef struct chaos_net {
    int hub_fd;
} chaos_net;

/* TIDE_E_DENIED: namespaces are not permitted here. */
TIDE_MUST_CHECK tide_status chaos_net_open(chaos_net *net, tide_error *err);

/* A machine with the address CHAOS_NET_PREFIX host; 2..254, each once. */
TIDE_MUST_CHECK tide_status chaos_net_add(const chaos_net *net, chaos_machine *machine, int host,
                                          tide_error *err);

/* Start a program on a machine. */
TIDE_MUST_CHECK tide_status chaos_net_start(const chaos_net *net, const chaos_machine *machine,
                                            proc *child, const proc_options *options,
                                            tide_error *err);

/* Make the machine's rules those that it has now. */
TIDE_MUST_CHECK tide_status chaos_net_apply(const chaos_net *net, const chaos_machine *machine,
                                            tide_error *err);

/* What happens to packets between this machine and others, an address or a range in nftables' words. Returns the rule's number, or
 * -1 when there is no room. */
int chaos_net_cut(chaos_machine *machine, const char *others, bool is_in, bool is_out);
int chaos_net_reset(chaos_machine *machine, const char *others);
int chaos_net_lose(chaos_machine *machine, int percent);
void chaos_net_heal(chaos_machine *machine, int rule);
