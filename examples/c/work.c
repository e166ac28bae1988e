/* work.c - a worker whose items survive it.
 *
 *     work STORE add ITEM PAGES
 *     work STORE run EFFECTS_FILE [--name NAME] [--lease-ms N] [--items N]
 *
 *     cc work.c $(pkg-config --cflags --libs tidemark jansson) -o work
 *     ./work work.db add invoice-7 20 && ./work work.db run effects.txt
 *
 * Stop it, kill it or freeze it at any point and start another: it goes on behind the last page. The runtime (worker.h) claims, renews
 * leases, sweeps, and repeats what may have been stored or not. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <tidemark/tidemark.h>

#define TASK "invoices"
#define TYPE "invoice"

enum { PAGE_MS = 50, TEXT_SIZE = 256 };

typedef struct options {
    const char *name;
    int64_t lease_us;
    int64_t items; /* <= 0: until it is told to stop */
    const char *effects;
} options;

/* ---- adding ---- */

static tide_status add(tide_store *store, const char *item, const char *pages, tide_error *err)
{
    char input[TEXT_SIZE];
    char task_id[TIDE_WORK_ID_MAX + 1];
    tide_work_added added;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = TASK,
                                .title = "invoices of the month"};
    const tide_status status = tide_task_create(store, &task, task_id, err);
    if (status < TIDE_OK && status != TIDE_E_EXISTS) /* somebody was first: fine */
        return status;
    (void)snprintf(input, sizeof input, "{\"pages\":%ld}", strtol(pages, NULL, 10));
    /* An id of our own makes this repeatable: an item that is there already is not added twice. */
    const tide_work_spec new_item = {TIDE_WORK_SPEC_INIT, .work_item_id = item, .task_id = TASK,
                                     .work_type = TYPE,   .input = input,       .max_retries = -1};
    TIDE_TRY(tide_work_add(store, &new_item, 1, &added, err));
    puts(added.is_existing ? "was there" : "added");
    return TIDE_OK;
}

/* ---- working ---- */

static long read_number(tide_view text, const char *member)
{
    json_t *value = json_loadb(text.ptr, text.len, 0, NULL);
    const long number = (long)json_integer_value(json_object_get(value, member));
    json_decref(value);
    return number;
}

static tide_status take_page(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    *(long *)arg = read_number(checkpoint->snapshot, "page");
    return TIDE_OK;
}

static tide_status write_page(tide_job *job, long page, tide_error *err)
{
    char id[TEXT_SIZE];
    char state[TEXT_SIZE];
    tide_checkpoint_numbers numbers;
    (void)snprintf(id, sizeof id, "%s-page-%ld", tide_job_item(job)->work_item_id, page);
    (void)snprintf(state, sizeof state, "{\"page\":%ld}", page);
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT,
        .checkpoint_id = id, /* there once, however often it is written */
        .type = "manual_checkpoint",
        .snapshot = tide_view_of(state),
    };
    TIDE_TRY(tide_job_checkpoint(job, &checkpoint, &numbers, err));
    printf("page %ld\n", page);
    return TIDE_OK;
}

/* What the outside world sees: a mail, a payment. */
static tide_status act(const options *o, const char *item, long pages, tide_error *err)
{
    FILE *file = fopen(o->effects, "a");
    if (!file || fprintf(file, "%s %ld pages\n", item, pages) < 0 || fclose(file) != 0)
        return tide_fail(err, TIDE_E_IO, "%s cannot be written", o->effects);
    return TIDE_OK;
}

/* Acts under an idempotency key; key and item end in one commit. */
static tide_status finish(const options *o, tide_job *job, long pages, tide_error *err)
{
    const char *item = tide_job_item(job)->work_item_id;
    char request[TEXT_SIZE];
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    char output[TEXT_SIZE];
    tide_idempotency_state key = {0};
    (void)snprintf(request, sizeof request, "%ld", pages);
    (void)snprintf(output, sizeof output, "{\"sent\":\"%s\"}", item);
    TIDE_TRY(tide_idempotency_hash(hash, tide_view_of(request), err));
    TIDE_TRY(tide_idempotency_name(name, TYPE, item, err));
    const tide_idempotency_request wanted = {
        TIDE_IDEMPOTENCY_REQUEST_INIT, .scope = TYPE,     .key = item,
        .request_hash = hash,          .holder = o->name, .lock_us = o->lease_us};
    TIDE_TRY(tide_idempotency_begin(tide_job_store(job), &wanted, &key, err));
    const tide_idempotency_outcome outcome = key.outcome;
    const int64_t token = key.token;
    tide_idempotency_state_done(&key); /* a replayed answer is not needed here */

    tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = output};
    switch (outcome) {
    case TIDE_IDEMPOTENCY_NEW:
    case TIDE_IDEMPOTENCY_TAKEOVER: /* somebody began and did not end: those who do the deed should know the key */
        TIDE_TRY(act(o, item, pages, err));
        result.idempotency_name = name;
        result.idempotency_token = token;
        result.response = tide_view_of(output);
        break;
    case TIDE_IDEMPOTENCY_REPLAY:
        break;
    case TIDE_IDEMPOTENCY_IN_PROGRESS: /* another is at it: look again when its lock is over */
        printf("%s later\n", item);
        return tide_job_release(job, o->lease_us, err);
    case TIDE_IDEMPOTENCY_MISMATCH:
        return tide_job_fail(job, "the key was used for another request", true, -1, err);
    }
    TIDE_TRY(tide_job_finish(job, &result, err));
    printf("%s finished\n", item);
    return TIDE_OK;
}

/* TIDE_E_INTERRUPTED: another goes on, and no attempt is spent. */
static tide_status say_stop(const tide_job *job)
{
    if (tide_job_stop_get(job) == TIDE_JOB_WORKER_ENDS)
        puts("released");
    else /* another may be at it by now: what we would say is refused, and nothing is to be put right */
        printf("%s lease lost\n", tide_job_item(job)->work_item_id);
    return TIDE_E_INTERRUPTED;
}

static tide_status work_on(void *arg, tide_job *job, tide_error *err)
{
    const tide_work_claimed *item = tide_job_item(job);
    const long pages = read_number(tide_view_of(item->input), "pages");
    const struct timespec page_time = {.tv_nsec = PAGE_MS * 1000000L};
    long page = 0;
    TIDE_TRY(tide_job_last_checkpoint(job, take_page, &page, err)); /* TIDE_NONE: from the start */
    printf("%s attempt %" PRId64 " behind page %ld\n", item->work_item_id, item->attempt, page);
    while (page < pages) {
        if (tide_job_is_stopping(job))
            return say_stop(job);
        (void)nanosleep(&page_time, NULL); /* the work itself */
        const tide_status status = write_page(job, ++page, err);
        if (status == TIDE_E_LEASE_LOST)
            return say_stop(job);
        TIDE_TRY(status);
    }
    return finish(arg, job, pages, err);
}

static tide_worker *worker;

static void stop(int signal)
{
    (void)signal;
    tide_worker_stop(worker);
}

static tide_status run(tide_store *store, options *o, tide_error *err)
{
    static const char *const types[] = {TYPE};
    const struct sigaction on_stop = {.sa_handler = stop};
    const tide_worker_options wanted = {
        TIDE_WORKER_OPTIONS_INIT,
        .worker = o->name,
        .types = types,
        .type_count = 1,
        .lease_us = o->lease_us,
        .sweep_us = 500000,
        .drain_us = -1, /* stop at a page's end: it is soon */
        .item_max = o->items > 0 ? o->items : 0,
        .run = work_on,
        .run_arg = o,
    };
    TIDE_TRY(tide_worker_open(&worker, store, &wanted, err));
    (void)sigaction(SIGTERM, &on_stop, NULL);
    (void)sigaction(SIGINT, &on_stop, NULL);
    const tide_status status = tide_worker_run(worker, err);
    (void)signal(SIGTERM, SIG_DFL); /* nobody stops what is closed */
    (void)signal(SIGINT, SIG_DFL);
    tide_worker_closep(&worker);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"name", required_argument, NULL, 'n'},
                                          {"lease-ms", required_argument, NULL, 'l'},
                                          {"items", required_argument, NULL, 'i'},
                                          {0}};
    options o = {.name = "worker", .lease_us = 30000000};
    tide_error err = {0};
    tide_store *store = NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (option == 'n')
            o.name = optarg;
        else if (option == 'l')
            o.lease_us = strtoll(optarg, NULL, 10) * 1000;
        else if (option == 'i')
            o.items = strtoll(optarg, NULL, 10);
        else
            return TIDE_EXIT_USAGE;
    }
    argv += optind;
    argc -= optind;
    const bool is_add = argc == 4 && strcmp(argv[1], "add") == 0;
    if (!is_add && (argc != 3 || strcmp(argv[1], "run") != 0)) {
        (void)fputs("work STORE add ITEM PAGES | work STORE run EFFECTS_FILE\n", stderr);
        return TIDE_EXIT_USAGE;
    }
    o.effects = argv[2];
    tide_status status = tide_store_open(&store, argv[0], NULL, &err);
    if (status == TIDE_OK)
        status = is_add ? add(store, argv[2], argv[3], &err) : run(store, &o, &err);
    tide_store_close(store);
    if (status < TIDE_OK)
        (void)fprintf(stderr, "%s: %s\n", err.text, tide_status_get(status)->next);
    return (int)tide_status_get(status)->exit_code;
}
