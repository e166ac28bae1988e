/* query_pipe.h - read what a pipe has, and look again for a moment before sleeping.
 *
 * To sleep and to be woken costs more than a short query. So the end that expects bytes soon looks
 * a few times without sleeping, where the machine has a processor for each end. Looking in vain
 * takes the processor from others, and from the other end on a busy machine: each time doubles the
 * number of reads until the next try, and a success begins anew.
 *
 * Threads: a tide_query_spin belongs to one thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tide_query_spin {
    int misses; /* in a row */
    int skip;   /* reads until the next try */
} tide_query_spin;

/* As read(2) of a descriptor that does not block. -1 with EAGAIN: nothing came.
 * spin NULL: look once. */
ssize_t tide_query_pipe_read(int fd, void *at, size_t len, tide_query_spin *spin);
