#include "sync_count.h"

#include <stdatomic.h>

static _Atomic int64_t calls;

/* Names given by the linker's --wrap. */
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    (void)atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __real_fdatasync(fd);
}

int64_t sync_count(void)
{
    return atomic_load(&calls);
}
