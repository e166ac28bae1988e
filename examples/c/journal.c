/* journal.c - checkpoints of a task, appended once, compared, and followed.
 *
 *     journal STORE POSITION_FILE TASK [STEP...]
 *
 *     cc journal.c position.c $(pkg-config --cflags --libs tidemark) -o journal
 *     ./journal work.db position draft outline text review */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "position.h"

enum { ID_SIZE = 2 * TIDE_JOURNAL_ID_MAX, STATE_SIZE = 4096, TRIES = 5 };

/* {"done":["outline","text"]}: the state behind a step. Steps are words without quotes. */
static void write_state(char state[STATE_SIZE], char **steps, int count)
{
    int len = snprintf(state, STATE_SIZE, "{\"done\":[");
    for (int i = 0; i < count && len < STATE_SIZE; i++)
        len +=
            snprintf(state + len, (size_t)(STATE_SIZE - len), "%s\"%s\"", i ? "," : "", steps[i]);
    if (len < STATE_SIZE)
        (void)snprintf(state + len, (size_t)(STATE_SIZE - len), "]}");
}

static tide_status append_step(tide_store *store, const char *task, char **steps, int count,
                               tide_error *err)
{
    char id[ID_SIZE];
    char state[STATE_SIZE];
    tide_checkpoint_numbers numbers;
    tide_status status = TIDE_OK;
    (void)snprintf(id, sizeof id, "%s-%s", task, steps[count - 1]);
    write_state(state, steps, count);
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT,
        .checkpoint_id = id, /* once, however often it is appended */
        .task_id = task,
        .type = "manual_checkpoint",
        .snapshot = tide_view_of(state),
        .message = steps[count - 1],
    };
    for (int i = 0; i < TRIES; i++) {
        status = tide_journal_append(store, &checkpoint, &numbers, err);
        if (status != TIDE_E_OUTCOME_UNKNOWN && !tide_status_get(status)->is_retryable)
            break; /* otherwise it may be there or not: its id makes asking again safe */
    }
    TIDE_TRY(status);
    printf("%s: %" PRId64 " of %s%s\n", steps[count - 1], numbers.sequence_number, task,
           numbers.is_existing ? " (was there)" : "");
    return TIDE_OK;
}

static tide_status say_difference(void *arg, const tide_difference *d, tide_error *err)
{
    static const char *const words[] = {"added", "removed", "changed"};
    (void)arg;
    (void)err;
    printf("%s %s %.*s\n", words[d->kind], d->path, (int)d->after.len, d->after.ptr);
    return TIDE_OK;
}

static tide_status compare(tide_store *store, const char *task, const char *from, const char *to,
                           tide_error *err)
{
    char a[ID_SIZE];
    char b[ID_SIZE];
    (void)snprintf(a, sizeof a, "%s-%s", task, from);
    (void)snprintf(b, sizeof b, "%s-%s", task, to);
    return tide_journal_diff(store, a, b, say_difference, NULL, err);
}

/* ---- following ---- */

static tide_status say_event(void *arg, const tide_journal_event *event, tide_error *err)
{
    (void)arg;
    (void)err;
    if (event->kind == TIDE_JOURNAL_CREATED)
        printf("%" PRId64 " %s %s\n", event->checkpoint->global_sequence,
               event->checkpoint->task_id,
               event->checkpoint->message ? event->checkpoint->message : "");
    else
        printf("something happened to %" PRId64 "..%" PRId64 "\n", event->first_global,
               event->last_global);
    return TIDE_OK;
}

/* A reader that has seen n has seen everything below n: two numbers are the whole position. Who wants to wait for more watches
 * TIDE_JOURNAL_TOPIC (watch.h) and comes again. */
static tide_status follow(tide_store *store, const char *path, tide_error *err)
{
    int64_t numbers[2];
    tide_status status;
    position_load(path, numbers, 2);
    tide_journal_position position = {.global_sequence = numbers[0], .event_id = numbers[1]};
    do {
        status = tide_journal_tail(
            store, &position,
            &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 100}, say_event,
            NULL, err);
        TIDE_TRY(status);
        numbers[0] = position.global_sequence;
        numbers[1] = position.event_id;
        TIDE_TRY(position_save(path, numbers, 2, err));
    } while (status == TIDE_OK);
    return TIDE_OK;
}

static tide_status run(tide_store *store, const char *path, const char *task, char **steps,
                       int count, tide_error *err)
{
    char task_id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new wanted = {TIDE_TASK_NEW_INIT, .task_id = task, .title = task};
    const tide_status status = tide_task_create(store, &wanted, task_id, err);
    if (status < TIDE_OK && status != TIDE_E_EXISTS)
        return status;
    for (int i = 1; i <= count; i++)
        TIDE_TRY(append_step(store, task, steps, i, err));
    if (count > 1)
        TIDE_TRY(compare(store, task, steps[0], steps[count - 1], err));
    return follow(store, path, err);
}

int main(int argc, char **argv)
{
    tide_error err = {0};
    tide_store *store = NULL;
    if (argc < 4) {
        (void)fputs("journal STORE POSITION_FILE TASK [STEP...]\n", stderr);
        return TIDE_EXIT_USAGE;
    }
    tide_status status = tide_store_open(&store, argv[1], NULL, &err);
    if (status == TIDE_OK)
        status = run(store, argv[2], argv[3], argv + 4, argc - 4, &err);
    tide_store_close(store);
    if (status < TIDE_OK)
        (void)fprintf(stderr, "%s: %s\n", err.text, tide_status_get(status)->next);
    return (int)tide_status_get(status)->exit_code;
}
