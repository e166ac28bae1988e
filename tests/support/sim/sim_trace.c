#include "support/sim/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "support/program/test_file.h"

void sim_hash(sim *world, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) /* FNV-1a */
        world->trace_hash = (world->trace_hash ^ at[i]) * UINT64_C(0x100000001b3);
}

void sim_trace(sim *world, const char *format, ...)
{
    char *line = world->trace[world->trace_len % SIM_TRACE_KEPT];
    const int head = snprintf(line, SIM_TRACE_LINE_MAX, "%6" PRId64 ".%06" PRId64 "  ",
                              world->now_us / SIM_SECOND_US, world->now_us % SIM_SECOND_US);
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, (size_t)(SIM_TRACE_LINE_MAX - head), format, args);
    va_end(args);
    world->trace_len++;
    sim_hash(world, line, strlen(line) + 1);
}

void sim_print_trace(const sim *world, FILE *out)
{
    const uint64_t skipped =
        world->trace_len > SIM_TRACE_KEPT ? world->trace_len - SIM_TRACE_KEPT : 0;
    if (skipped > 0)
        fprintf(out, "  ... %" PRIu64 " lines before\n", skipped);
    for (uint64_t i = skipped; i < world->trace_len; i++)
        fprintf(out, "  %s\n", world->trace[i % SIM_TRACE_KEPT]);
}

void sim_fail(sim *world, const char *format, ...)
{
    if (world->failure[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure, sizeof(world->failure), format, args);
    va_end(args);
    sim_trace(world, "FAILED %s", world->failure);
}

void sim_report_failure(const sim *world)
{
    if (world->report == NULL)
        return;
    fprintf(world->report, "simulation '%s', seed %" PRIu64 ", event %" PRIu64 ": %s\n",
            world->name, world->seed, world->event_count, world->failure);
    sim_print_trace(world, world->report);
    fprintf(world->report, "  replay: TIDEMARK_SEED=%" PRIu64 " %s\n", world->seed,
            test_file_command());
    fflush(world->report);
}

bool sim_expect(sim *world, bool holds, const char *format, ...)
{
    if (holds || world->failure[0] != '\0')
        return world->failure[0] == '\0';
    char words[SIM_WHY_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    sim_fail(world, "at the end: %s", words);
    sim_report_failure(world);
    return false;
}
