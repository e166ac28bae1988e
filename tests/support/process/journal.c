#include "support/process/journal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/clock/fair_clock.h"
#include "support/prng.h"

enum { REAP_TIMEOUT_MS = 30000 };

typedef struct reader {
    proc child;
    bool was_killed;
    char line[KILL_LOOP_LINE_MAX];
    size_t line_len;
} reader;

typedef struct cycle {
    const kill_loop *loop;
    ack_journal *journal;
    kill_loop_result *result;
    uint32_t number;
    reader readers[KILL_LOOP_CHILDREN_MAX];
    uint32_t started;
    uint64_t acks;
} cycle;

void ack_journal_init(ack_journal *journal)
{
    *journal = (ack_journal){0};
}

void ack_journal_done(ack_journal *journal)
{
    for (size_t i = 0; i < journal->len; i++)
        free((char *)journal->acks[i].text);
    free(journal->acks);
    *journal = (ack_journal){0};
}

void ack_journal_add(ack_journal *journal, uint32_t cycle_number, uint32_t child, const char *text)
{
    if (journal->len == journal->capacity) {
        journal->capacity = journal->capacity == 0 ? 256 : 2 * journal->capacity;
        journal->acks = reallocarray(journal->acks, journal->capacity, sizeof(ack));
        assert(journal->acks != NULL);
    }
    char *copy = strdup(text);
    assert(copy != NULL);
    journal->acks[journal->len++] = (ack){.cycle = cycle_number, .child = child, .text = copy};
}

tide_status ack_numbers(const ack *line, int64_t *out, size_t len, tide_error *err)
{
    const char *at = line->text;
    for (size_t i = 0; i < len; i++) {
        char *end = NULL;
        errno = 0;
        const long long value = strtoll(at, &end, 10);
        if (end == at || errno != 0)
            return tide_fail(err, TIDE_E_INVALID, "'%s': want %zu numbers", line->text, len);
        out[i] = value;
        at = end;
    }
    if (at[strspn(at, " ")] != '\0')
        return tide_fail(err, TIDE_E_INVALID, "'%s': want %zu numbers", line->text, len);
    return TIDE_OK;
}

static void take_line(cycle *c, uint32_t index)
{
    reader *r = &c->readers[index];
    r->line[r->line_len] = '\0';
    if (strncmp(r->line, "ack ", 4) == 0) {
        ack_journal_add(c->journal, c->number, index, r->line + 4);
        c->acks++;
    } else {
        fprintf(stderr, "child %u: %s\n", index, r->line);
    }
    r->line_len = 0;
}

static void close_pipe(reader *r)
{
    close(r->child.out_fd);
    r->child.out_fd = -1;
}

/* Read what the pipe has now; closes it at its end. */
static tide_status read_child(cycle *c, uint32_t index, tide_error *err)
{
    reader *r = &c->readers[index];
    char chunk[4096];
    const ssize_t got = read(r->child.out_fd, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR)
        return TIDE_OK;
    if (got <= 0) {
        close_pipe(r);
        return TIDE_OK;
    }
    for (ssize_t i = 0; i < got; i++) {
        if (chunk[i] == '\n') {
            take_line(c, index);
            continue;
        }
        if (r->line_len == KILL_LOOP_LINE_MAX - 1)
            return tide_fail(err, TIDE_E_LIMIT, "child %u prints a line of more than %d bytes",
                             index, KILL_LOOP_LINE_MAX - 1);
        r->line[r->line_len++] = chunk[i];
    }
    return TIDE_OK;
}

/* Wait for lines for at most timeout_us and read them. *got_any: a pipe had data, or ended. */
static tide_status read_some(cycle *c, int64_t timeout_us, bool *got_any, tide_error *err)
{
    struct pollfd pipes[KILL_LOOP_CHILDREN_MAX];
    for (uint32_t i = 0; i < c->started; i++) /* poll passes over a negative descriptor */
        pipes[i] = (struct pollfd){.fd = c->readers[i].child.out_fd, .events = POLLIN};
    const struct timespec timeout = {.tv_sec = timeout_us / 1000000,
                                     .tv_nsec = timeout_us % 1000000 * 1000};
    const int ready = ppoll(pipes, c->started, &timeout, NULL);
    *got_any = ready != 0;
    for (uint32_t i = 0; ready > 0 && i < c->started; i++)
        if (pipes[i].revents != 0)
            TIDE_TRY(read_child(c, i, err));
    return TIDE_OK;
}

static uint32_t count_running(const cycle *c)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < c->started; i++)
        running += c->readers[i].child.out_fd >= 0;
    return running;
}

static tide_status read_or_give_up(cycle *c, tide_error *err)
{
    const int64_t silence_ms = c->loop->silence_ms > 0 ? c->loop->silence_ms : KILL_LOOP_SILENCE_MS;
    const int64_t until_ms = fair_clock_ms() + silence_ms;
    bool got_any = false;
    do {
        TIDE_TRY(read_some(c, FAIR_SLICE_MS * 1000, &got_any, err));
    } while (!got_any && fair_clock_ms() < until_ms);
    if (!got_any)
        return tide_fail(err, TIDE_E_TIMEOUT, "%u children printed nothing for %" PRId64 " ms",
                         count_running(c), silence_ms);
    return TIDE_OK;
}

/* Its pipe has ended: see how it ended itself. */
static tide_status end_child(cycle *c, uint32_t index, tide_error *err)
{
    reader *r = &c->readers[index];
    TIDE_TRY(proc_wait(&r->child, REAP_TIMEOUT_MS, err));
    const bool died_by_us = r->was_killed && r->child.signal == SIGKILL;
    if (!died_by_us && r->child.exit_code != 0)
        return tide_fail(err, TIDE_E_FAILED, "child %u ended by itself: exit code %d, signal %d",
                         index, r->child.exit_code, r->child.signal);
    c->result->kills += died_by_us;
    c->result->finished += !died_by_us;
    return TIDE_OK;
}

static tide_status kill_child(cycle *c, uint32_t index, tide_error *err)
{
    c->readers[index].was_killed = true;
    return proc_kill(&c->readers[index].child, SIGKILL, err);
}

/* Read on until the children have printed so many lines more, or none is left; then for a moment
 * of jitter. */
static tide_status read_until_due(cycle *c, prng *random, tide_error *err)
{
    const kill_loop *loop = c->loop;
    const uint64_t due = c->acks + loop->acks_min +
                         prng_below(random, (uint64_t)loop->acks_max - loop->acks_min + 1);
    const uint64_t jitter_us =
        loop->jitter_us > 0 ? prng_below(random, (uint64_t)loop->jitter_us) : 0;
    while (c->acks < due && count_running(c) > 0)
        TIDE_TRY(read_or_give_up(c, err));

    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + (int64_t)jitter_us;
    for (int64_t left_us = (int64_t)jitter_us; left_us > 0 && count_running(c) > 0;) {
        bool got_any = false;
        TIDE_TRY(read_some(c, left_us, &got_any, err));
        clock_gettime(CLOCK_MONOTONIC, &now);
        left_us = end_us - ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    }
    return TIDE_OK;
}

static uint32_t pick_running(const cycle *c, prng *random)
{
    const uint32_t running = count_running(c);
    const uint32_t spared = c->loop->is_first_last && running > 1 ? 1 : 0;
    uint64_t skip = prng_below(random, running - spared);
    for (uint32_t i = spared;; i++) {
        assert(i < c->started);
        if (c->readers[i].child.out_fd >= 0 && skip-- == 0)
            return i;
    }
}

static tide_status kill_all(cycle *c, tide_error *err)
{
    for (uint32_t i = 0; i < c->started; i++)
        if (c->readers[i].child.out_fd >= 0)
            TIDE_TRY(kill_child(c, i, err));
    return TIDE_OK;
}

static tide_status run_cycle(cycle *c, prng *random, tide_error *err)
{
    const kill_loop *loop = c->loop;
    const bool is_all_at_once = prng_chance(random, loop->all_at_once_percent, 100);
    for (uint32_t i = 0; i < loop->children; i++) {
        c->started++;
        TIDE_TRY(loop->start(&c->readers[i].child, c->number, i, loop->arg, err));
        assert(c->readers[i].child.out_fd >= 0);
    }
    while (count_running(c) > 0) {
        TIDE_TRY(read_until_due(c, random, err));
        if (count_running(c) == 0)
            break;
        if (is_all_at_once) {
            TIDE_TRY(kill_all(c, err));
            while (count_running(c) > 0)
                TIDE_TRY(read_or_give_up(c, err));
            break;
        }
        const uint32_t victim = pick_running(c, random);
        TIDE_TRY(kill_child(c, victim, err));
        while (c->readers[victim].child.out_fd >= 0) /* what it had still printed counts */
            TIDE_TRY(read_or_give_up(c, err));
    }
    for (uint32_t i = 0; i < c->started; i++)
        TIDE_TRY(end_child(c, i, err));
    return TIDE_OK;
}

static void cycle_freep(cycle **c)
{
    for (uint32_t i = 0; *c != NULL && i < (*c)->started; i++)
        proc_done(&(*c)->readers[i].child);
    free(*c);
}

static tide_status run_and_check(const kill_loop *loop, ack_journal *journal,
                                 kill_loop_result *result, uint32_t number, prng *random,
                                 tide_error *err)
{
    TIDE_CLEANUP(cycle_freep) cycle *c = calloc(1, sizeof(*c));
    assert(c != NULL);
    c->loop = loop;
    c->journal = journal;
    c->result = result;
    c->number = number;
    for (uint32_t i = 0; i < KILL_LOOP_CHILDREN_MAX; i++)
        c->readers[i].child = (proc){.in_fd = -1, .out_fd = -1, .err_fd = -1};
    TIDE_TRY(run_cycle(c, random, err));
    return loop->check != NULL ? loop->check(journal, number, loop->arg, err) : TIDE_OK;
}

tide_status kill_loop_run(const kill_loop *loop, ack_journal *journal, kill_loop_result *result,
                          tide_error *err)
{
    assert(loop->children >= 1 && loop->children <= KILL_LOOP_CHILDREN_MAX);
    assert(loop->acks_min <= loop->acks_max && loop->start != NULL);
    *result = (kill_loop_result){0};
    prng random;
    prng_init(&random, loop->seed);
    for (uint32_t number = 0; number < loop->cycles; number++) {
        const tide_status status = run_and_check(loop, journal, result, number, &random, err);
        if (status != TIDE_OK)
            return tide_fail_context(err, status, "seed %" PRIu64 ", cycle %u", loop->seed, number);
    }
    return TIDE_OK;
}
