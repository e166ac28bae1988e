/* metrics_process.c - memory, time and descriptors of this process: see metrics.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/metrics_internal.h"

/* What cannot be read stays unset, and is not shown. */
static void look_at_descriptors(tide_metrics *metrics)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return;
    int64_t count = -1; /* the list itself */
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list))
        count += entry->d_name[0] != '.';
    (void)closedir(list);
    tide_metrics_set(metrics, TIDE_METRIC_OPEN_FDS, count);
}

static void look_at_memory(tide_metrics *metrics)
{
    char line[256] = "";
    FILE *in = fopen("/proc/self/statm", "re");
    if (!in)
        return;
    const bool is_read = fgets(line, sizeof line, in) != NULL;
    (void)fclose(in);
    char *rest = line;
    const int64_t virtual_pages = strtoll(line, &rest, 10);
    const int64_t resident_pages = strtoll(rest, &rest, 10);
    if (!is_read || resident_pages <= 0)
        return;
    const int64_t page_len = sysconf(_SC_PAGESIZE);
    tide_metrics_set(metrics, TIDE_METRIC_VIRTUAL, virtual_pages * page_len);
    tide_metrics_set(metrics, TIDE_METRIC_RESIDENT, resident_pages * page_len);
}

void tide_metrics_look_at_process(tide_metrics *metrics)
{
    struct rusage used;
    struct rlimit descriptors;
    look_at_memory(metrics);
    look_at_descriptors(metrics);
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_MAX_FDS, (int64_t)descriptors.rlim_cur);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_CPU,
                         (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                             used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}
