/* metrics_process.c - memory, time and descriptors of this process: see metrics.h. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/metrics_parts.h"

static int64_t count_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return 0;
    int64_t count = -1; /* the list itself */
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list))
        count += entry->d_name[0] != '.';
    (void)closedir(list);
    return count;
}

static void look_at_memory(tide_metrics *metrics)
{
    long long virtual_pages = 0;
    long long resident_pages = 0;
    FILE *in = fopen("/proc/self/statm", "re");
    if (!in)
        return;
    if (fscanf(in, "%lld %lld", &virtual_pages, &resident_pages) == 2) {
        const int64_t page_len = sysconf(_SC_PAGESIZE);
        tide_metrics_set(metrics, TIDE_METRIC_VIRTUAL, virtual_pages * page_len);
        tide_metrics_set(metrics, TIDE_METRIC_RESIDENT, resident_pages * page_len);
    }
    (void)fclose(in);
}

void tide_metrics_look_at_process(tide_metrics *metrics)
{
    struct rusage used;
    struct rlimit descriptors;
    look_at_memory(metrics);
    tide_metrics_set(metrics, TIDE_METRIC_OPEN_FDS, count_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_MAX_FDS, (int64_t)descriptors.rlim_cur);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_CPU,
                         (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                             used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}
