/* cmd_idempotency.c - tidemark idempotency run|show|ls|delete|clean. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/error.h>
#include <tidemark/idempotency.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "base/text/utf8.h"
#include "cli/frame/cli.h"
#include "cli/frame/input.h"
#include "cli/idempotency/idempotency_lock.h"
#include "cli/work/work_output.h"

/* ---- run ---- */

/* tidemark idempotency run --key K -- CMD ARG...
 *
 *     begin ---- NEW, TAKEOVER ----> the command runs ----> exit code and stdout are stored, and are ours
 *       |                                     |-----------> ended by a signal, or exit 75: the lock is given back
 *       |                                     |-----------> cannot be started (126, 127): the lock is given back
 *       |                                     |-----------> the lock cannot be kept: it is stopped; the key is left
 *       |------- REPLAY -------------> the stored stdout and exit code
 *       |------- MISMATCH (4), IN_PROGRESS (6), outcome unknown (7)
 *
 * If we die (kill -9):
 *     before begin has committed              nothing happened
 *     after it, before the command starts     the key stays locked until the lock runs out; then TAKEOVER
 *     while the command runs                  the kernel kills it with us (child.h); then as above
 *     after its end, before it is stored      as above: the outcome is unknown (--policy)
 *     after it is stored                      REPLAY
 * Ctrl-C and SIGTERM before the command starts end us as always. While it runs they are passed on, and what counts is
 * how the command takes them. */

/* ---- the stored response ---- */

/* What `idempotency run` stores as a command's answer, and back.
 *
 *     {"exit_code":0,"stdout":"text\n"}                    text: UTF-8 without NUL
 *     {"exit_code":2,"stdout_base64":"AAECAw=="}           everything else
 *     {"exit_code":0,"stdout_len":987654321}               it printed more than can be kept
 *
 * What is decoded is byte for byte what was encoded.
 *
 * Threads: pure. Limits: TIDE_IDEMPOTENCY_RESPONSE_MAX bytes of the JSON. */
typedef struct response {
    int exit_code;
    bool is_out_over; /* the output was too large to keep */
    uint64_t out_len;
    tide_buffer out; /* decoded; initialised by decode_response */
} response;

/* ---- encode ---- */

static tide_status append_output(tide_buffer *json, tide_view out)
{
    if (tide_utf8_valid(out)) {
        const size_t before = json->len;
        TIDE_TRY(tide_buffer_append_text(json, ",\"stdout\":"));
        const tide_status status = tide_json_append_string(json, out);
        if (status != TIDE_E_LIMIT)
            return status;
        tide_buffer_truncate(json, before); /* escapes may make it six times as long */
    }
    TIDE_TRY(tide_buffer_append_text(json, ",\"stdout_base64\":\""));
    TIDE_TRY(tide_base64_encode(json, out, true));
    return tide_buffer_append_text(json, "\"");
}

static tide_status append_answer(tide_buffer *json, int exit_code, tide_view out, bool is_out_over,
                                 uint64_t out_len)
{
    TIDE_TRY(tide_buffer_printf(json, "{\"exit_code\":%d", exit_code));
    if (is_out_over)
        TIDE_TRY(tide_buffer_printf(json, ",\"stdout_len\":%llu", (unsigned long long)out_len));
    else
        TIDE_TRY(append_output(json, out));
    return tide_buffer_append_text(json, "}");
}

/* Into an empty buffer that may hold TIDE_IDEMPOTENCY_RESPONSE_MAX bytes. Where out does not fit in, or is_out_over says
 * that it is not there, its length alone is kept. TIDE_E_NOMEM. */
static tide_status encode_response(tide_buffer *json, int exit_code, tide_view out,
                                   bool is_out_over, uint64_t out_len, tide_error *err)
{
    tide_status status = append_answer(json, exit_code, out, is_out_over, out_len);
    if (status == TIDE_E_LIMIT) {
        tide_buffer_clear(json);
        status = append_answer(json, exit_code, out, true, out_len);
    }
    return tide_buffer_check(status, err);
}

/* ---- decode ---- */

static tide_status fail_foreign(tide_error *err)
{
    return tide_fail(err, TIDE_E_MISMATCH,
                     "the key has an answer that is not that of a command run here");
}

static tide_status decode_output(response *answer, const tide_json_node *object, tide_error *err)
{
    const tide_json_node *text = tide_json_node_find(object, "stdout");
    const tide_json_node *base64 = tide_json_node_find(object, "stdout_base64");
    const tide_json_node *len = tide_json_node_find(object, "stdout_len");
    if (tide_json_node_is(text, TIDE_JSON_TYPE_TEXT)) {
        if (tide_buffer_append_view(&answer->out, text->text) < TIDE_OK)
            return tide_no_memory(err);
    } else if (tide_json_node_is(base64, TIDE_JSON_TYPE_TEXT)) {
        const tide_status status = tide_base64_decode(&answer->out, base64->text);
        if (status < TIDE_OK)
            return status == TIDE_E_NOMEM ? tide_no_memory(err) : fail_foreign(err);
    } else if (tide_json_node_is(len, TIDE_JSON_TYPE_INTEGER)) {
        answer->is_out_over = true;
        answer->out_len = (uint64_t)tide_json_node_integer(len);
        return TIDE_OK;
    } else {
        return fail_foreign(err);
    }
    answer->out_len = answer->out.len;
    return TIDE_OK;
}

static tide_status decode_response(response *answer, tide_view json, tide_error *err)
{
    *answer = (response){.exit_code = 0};
    tide_buffer_init(&answer->out, TIDE_IDEMPOTENCY_RESPONSE_MAX);
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *object = NULL;
    if (json.ptr)
        TIDE_IGNORE(tide_json_tree_read(&object, json, NULL)); /* what is not JSON has no member */
    const tide_json_node *exit_code = tide_json_node_find(object, "exit_code");
    if (!tide_json_node_is(exit_code, TIDE_JSON_TYPE_INTEGER) ||
        tide_json_node_integer(exit_code) < 0 || tide_json_node_integer(exit_code) > 255)
        return fail_foreign(err);
    answer->exit_code = (int)tide_json_node_integer(exit_code);
    return decode_output(answer, object, err);
}

/* TIDE_E_MISMATCH: not written by encode_response. Ends with response_done, also after a failure. */
static void response_done(response *answer)
{
    tide_buffer_done(&answer->out);
}

enum {
    EXIT_LATER = 75,       /* EX_TEMPFAIL of <sysexits.h>: no answer, try again */
    EXIT_CANNOT_RUN = 126, /* as shells have it */
    EXIT_NO_COMMAND = 127,
    EXIT_SIGNAL = 128, /* and the signal's number */
};

#define STORE_AGAIN_US INT64_C(200000)   /* after a failure to store the answer */
#define STORE_TRIES_US INT64_C(10000000) /* for at least so long */

/* One run, from begin to end. */
typedef struct run {
    tide_cli *cli;
    tide_store *store;
    tide_env *env;
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    char holder[TIDE_CLI_WORKER_SIZE];
    bool is_stdin_read; /* then it is fed to the command */
    tide_buffer input;
    int64_t lock_us;
    int64_t begun_us; /* boot clock */
    tide_idempotency_state state;
    tide_cli_lock lock;
    tide_child_result result;
} run;

/* ---- what is asked for ---- */

/* A terminal is no request, and neither is a stdin that is not there. */
static bool has_request_in_stdin(void)
{
    return fcntl(STDIN_FILENO, F_GETFD) >= 0 && !isatty(STDIN_FILENO);
}

/* How many words, the words, each with its NUL, and stdin: no two requests look the same. */
static tide_status join_request(tide_buffer *out, char *const *command, tide_view input)
{
    int count = 0;
    while (command[count])
        count++;
    TIDE_TRY(tide_buffer_printf(out, "command of %d words", count));
    TIDE_TRY(tide_buffer_append_byte(out, 0));
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_buffer_append(out, command[i], strlen(command[i]) + 1));
    return tide_buffer_append_view(out, input);
}

static tide_status hash_request(run *r, tide_error *err)
{
    const char *request = tide_cli_text(r->cli, TIDE_CLI_REQUEST);
    if (request)
        return tide_idempotency_hash(r->hash, tide_view_of(request), err);
    r->is_stdin_read = has_request_in_stdin();
    if (r->is_stdin_read)
        TIDE_TRY(tide_cli_input_read(&r->input, "-", "stdin", err));
    TIDE_BUFFER(joined, 2 * (size_t)TIDE_IDEMPOTENCY_RESPONSE_MAX);
    const tide_status status = join_request(&joined, r->cli->command, tide_buffer_view(&r->input));
    if (status < TIDE_OK)
        return tide_fail(err, status, "the command and its stdin are too long for a request");
    return tide_idempotency_hash(r->hash, tide_buffer_view(&joined), err);
}

static tide_idempotency_policy find_policy(const tide_cli *cli)
{
    static const tide_idempotency_policy policies[] = {
        TIDE_IDEMPOTENCY_RESUME, TIDE_IDEMPOTENCY_RERUN, TIDE_IDEMPOTENCY_FAIL};
    return policies[tide_cli_number(cli, TIDE_CLI_POLICY)];
}

static tide_status begin(run *r, tide_error *err)
{
    const tide_cli *cli = r->cli;
    r->lock_us = tide_cli_number(cli, TIDE_CLI_LOCK);
    const tide_idempotency_request request = {
        TIDE_IDEMPOTENCY_REQUEST_INIT,
        .scope = tide_cli_text(cli, TIDE_CLI_SCOPE),
        .key = tide_cli_text(cli, TIDE_CLI_KEY),
        .request_hash = r->hash,
        .holder = r->holder,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_item_id = tide_cli_text(cli, TIDE_CLI_WORK_ITEM),
        .lock_us = r->lock_us,
        .expiry_us = tide_cli_number(cli, TIDE_CLI_EXPIRY),
        .policy = find_policy(cli),
    };
    r->begun_us = r->env->boot_us(r->env);
    const tide_status status = tide_idempotency_begin(r->store, &request, &r->state, err);
    if (status == TIDE_E_OUTCOME_UNKNOWN)
        (void)snprintf(
            r->cli->hint, sizeof r->cli->hint,
            "find out what happened; then 'tidemark idempotency delete' lets it run again");
    return status;
}

/* {"outcome":"NEW",...} on stderr, where it does not mix with the command's output. */
static tide_status tell_outcome(const run *r, tide_error *err)
{
    const tide_idempotency_state *state = &r->state;
    if (!r->cli->out.is_json)
        return TIDE_OK;
    TIDE_CLEANUP(tide_cli_output_done) tide_cli_output out;
    tide_cli_output_init(&out, stderr, true);
    tide_cli_json_begin(&out);
    tide_cli_json_text(&out, "outcome", tide_idempotency_outcome_name(state->outcome));
    tide_cli_json_text(&out, "key", r->name);
    tide_cli_json_text(&out, "request_hash", r->hash);
    if (state->token != 0)
        tide_cli_json_i64(&out, "token", state->token);
    if (state->outcome == TIDE_IDEMPOTENCY_TAKEOVER)
        tide_cli_json_text(&out, "policy", tide_idempotency_policy_name(state->policy));
    if (state->outcome == TIDE_IDEMPOTENCY_IN_PROGRESS)
        tide_cli_json_text(&out, "holder", state->holder);
    if (state->lock_expires_at_us != 0)
        tide_cli_json_time(&out, "lock_expires_at", state->lock_expires_at_us);
    if (state->outcome == TIDE_IDEMPOTENCY_REPLAY)
        tide_cli_json_moment(&out, "completed_at", state->completed_at_us);
    return tide_cli_json_end(&out, err);
}

/* ---- no command is run ---- */

static tide_status refuse_mismatch(run *r, tide_error *err)
{
    r->cli->is_told = r->cli->out.is_json;
    (void)snprintf(r->cli->hint, sizeof r->cli->hint,
                   "a key belongs to one request: use another key for another request");
    return tide_fail(err, TIDE_E_MISMATCH, "the key %s was used with another request", r->name);
}

static tide_status refuse_busy(run *r, tide_error *err)
{
    const char *holder = r->state.holder[0] ? r->state.holder : "somebody";
    char until[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(until, r->state.lock_expires_at_us);
    r->cli->is_told = r->cli->out.is_json;
    return tide_fail(err, TIDE_E_BUSY, "%s works on the key %s, until %s at most", holder, r->name,
                     until);
}

static tide_status replay(run *r, tide_error *err)
{
    const tide_idempotency_state *state = &r->state;
    TIDE_CLEANUP(response_done) response answer;
    const tide_view stored = {.ptr = state->response, .len = state->response_len};
    const tide_status status = decode_response(&answer, stored, err);
    if (status == TIDE_E_MISMATCH)
        (void)snprintf(r->cli->hint, sizeof r->cli->hint, "'tidemark idempotency show' prints it");
    TIDE_TRY(status);
    if (answer.is_out_over)
        return tide_fail(err, TIDE_E_LIMIT,
                         "the command ran and ended with %d; its output of %" PRIu64
                         " bytes was too long to be kept",
                         answer.exit_code, answer.out_len);
    (void)fwrite(answer.out.ptr, 1, answer.out.len, r->cli->out.file);
    r->cli->exit_code = answer.exit_code;
    return TIDE_OK;
}

/* ---- a command is run ---- */

static tide_status run_child(run *r, tide_error *err)
{
    char key[TIDE_IDEMPOTENCY_KEY_MAX + 64];
    char outcome[64];
    char token[64];
    (void)snprintf(key, sizeof key, "TIDEMARK_IDEMPOTENCY_KEY=%s", r->name);
    (void)snprintf(outcome, sizeof outcome, "TIDEMARK_IDEMPOTENCY_OUTCOME=%s",
                   tide_idempotency_outcome_name(r->state.outcome));
    (void)snprintf(token, sizeof token, "TIDEMARK_IDEMPOTENCY_TOKEN=%" PRId64, r->state.token);
    tide_child_watch watches[] = {
        {.fd = r->lock.event_fd, .fn = tide_cli_lock_hear, .arg = &r->lock},
        {.fd = -1, .fn = tide_cli_signals_pass, .arg = &r->lock},
    };
    const tide_child_spec spec = {
        .argv = r->cli->command,
        .env = (const char *const[]){key, outcome, token, NULL},
        .stdin_kind = r->is_stdin_read ? TIDE_CHILD_STDIN_BYTES : TIDE_CHILD_STDIN_INHERIT,
        .stdin_bytes = tide_buffer_view(&r->input),
        .is_captured = true,
        .stdout_max = TIDE_IDEMPOTENCY_RESPONSE_MAX,
        .tee_fd = STDOUT_FILENO,
        .watches = watches,
        .watch_count = 2,
        .tick = tide_cli_lock_watch,
        .tick_arg = &r->lock,
    };
    TIDE_TRY(tide_cli_signals_catch(&watches[1].fd, err));
    const tide_status status = tide_child_run(&spec, &r->result, err);
    tide_cli_signals_release();
    return status;
}

static void warn(const char *what, const tide_error *err)
{
    tide_cli_print(stderr, "tidemark: idempotency run: %s: %s\n", what, err->text);
}

/* No answer: the next begin runs it again, now and not when the lock is over. */
static void give_back(run *r)
{
    tide_error err = {.status = TIDE_OK};
    if (tide_idempotency_fail(r->store, r->name, r->state.token, false, tide_view_of(NULL), &err) <
        TIDE_OK)
        warn("the key stays locked until its lock is over", &err);
}

static tide_status store_once(run *r, tide_view answer, tide_error *err)
{
    if (r->result.exit_code == 0)
        return tide_idempotency_complete(r->store, r->name, r->state.token, answer, err);
    return tide_idempotency_fail(r->store, r->name, r->state.token, true, answer, err);
}

/* The command has run: its answer is worth some patience. Storing it twice is storing it once. */
static tide_status store_answer(run *r, tide_error *err)
{
    const tide_child_result *result = &r->result;
    TIDE_BUFFER(answer, TIDE_IDEMPOTENCY_RESPONSE_MAX);
    TIDE_TRY(encode_response(&answer, result->exit_code, tide_buffer_view(&result->out),
                             result->is_out_over, result->out_len, err));
    const int64_t until_us = r->env->boot_us(r->env) + STORE_TRIES_US;
    for (;;) {
        const tide_status status = store_once(r, tide_buffer_view(&answer), err);
        const bool is_passing =
            status == TIDE_E_OUTCOME_UNKNOWN || tide_status_get(status)->is_retryable;
        if (!is_passing || (r->env->boot_us(r->env) > until_us && !tide_cli_lock_lasts(&r->lock)))
            return status;
        r->env->sleep_us(r->env, STORE_AGAIN_US);
    }
}

/* A reader that leaves has heard enough. Anything else that kept the output from being written is not what was asked for. */
static tide_status check_tee(const run *r, tide_error *err)
{
    const int reason = r->result.tee_errno;
    if (reason == 0 || reason == EPIPE)
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_PARTIAL,
        "the command ended with %d, and its answer is stored, but its output could not "
        "be written: %s",
        r->result.exit_code, strerror(reason));
}

/* The command has ended: is that an answer? */
static tide_status settle(run *r, tide_error *err)
{
    const tide_child_result *result = &r->result;
    if (result->signal != 0 || result->exit_code == EXIT_LATER) {
        give_back(r);
        r->cli->exit_code = result->signal ? EXIT_SIGNAL + result->signal : EXIT_LATER;
        return TIDE_OK; /* it will run again: what it printed was no answer */
    }
    const tide_status status = store_answer(r, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "the command ended with %d, but that is not stored",
                                 result->exit_code);
    r->cli->exit_code = result->exit_code;
    return check_tee(r, err);
}

static tide_status end_unstarted(run *r, tide_status status, const tide_error *err)
{
    give_back(r);
    warn("nothing was run", err);
    r->cli->exit_code = status == TIDE_E_NOT_FOUND ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
    return TIDE_OK;
}

/* After the lock's thread has ended: its last words are ours. */
static tide_status fail_stopped(run *r, tide_error *err)
{
    if (r->result.reason == TIDE_CLI_LOCK_LOST)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "the key %s is no longer ours: the command was killed", r->name);
    return tide_fail(err, TIDE_E_LEASE_LOST,
                     "the lock of %s could not be renewed, so the command was stopped: %.300s",
                     r->name, r->lock.err.text);
}

static tide_status run_command(run *r, tide_error *err)
{
    const tide_status kept = tide_cli_lock_keep(&r->lock, r->store, r->name, r->state.token,
                                                r->lock_us, r->begun_us, err);
    if (kept < TIDE_OK) {
        give_back(r);
        return kept;
    }
    tide_status status = run_child(r, err);
    const bool is_stopped = r->result.reason != 0;
    if (status < TIDE_OK)
        status = end_unstarted(r, status, err);
    else if (!is_stopped)
        status = settle(r, err);
    tide_cli_lock_end(&r->lock);
    return is_stopped ? fail_stopped(r, err) : status;
}

static void run_done(run *r)
{
    tide_idempotency_state_done(&r->state);
    tide_child_result_done(&r->result);
    tide_buffer_done(&r->input);
    tide_store_close(r->store);
}

static tide_status cli_idempotency_run(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(run_done) run r = {.cli = cli, .env = tide_env_system()};
    tide_buffer_init(&r.input, TIDE_IDEMPOTENCY_RESPONSE_MAX);
    TIDE_TRY(tide_idempotency_name(r.name, tide_cli_text(cli, TIDE_CLI_SCOPE),
                                   tide_cli_text(cli, TIDE_CLI_KEY), err));
    TIDE_TRY(hash_request(&r, err));
    tide_cli_worker_name(cli, TIDE_CLI_WORKER, r.holder);
    TIDE_TRY(tide_cli_open_store(cli, &r.store, TIDE_STORE_CREATE, err));
    TIDE_TRY(begin(&r, err));
    TIDE_TRY(tell_outcome(&r, err));
    switch (r.state.outcome) {
    case TIDE_IDEMPOTENCY_NEW:
    case TIDE_IDEMPOTENCY_TAKEOVER:
        return run_command(&r, err);
    case TIDE_IDEMPOTENCY_REPLAY:
        return replay(&r, err);
    case TIDE_IDEMPOTENCY_IN_PROGRESS:
        return refuse_busy(&r, err);
    case TIDE_IDEMPOTENCY_MISMATCH:
        return refuse_mismatch(&r, err);
    }
    return tide_fail(err, TIDE_E_FAILED, "an outcome that does not exist");
}

static tide_status name_of(const tide_cli *cli, char out[TIDE_IDEMPOTENCY_KEY_MAX + 1],
                           tide_error *err)
{
    return tide_idempotency_name(out, tide_cli_text(cli, TIDE_CLI_SCOPE), cli->args[0], err);
}

/* ---- show, ls ---- */

static tide_status print_json(tide_cli_output *out, const tide_idempotency_key *key,
                              tide_error *err)
{
    WORK(IdempotencyKey) row;
    tide_rpc_key(&row, key);
    return tide_cli_print_message(out, &row.base, err);
}

static void print_time(tide_cli *cli, const char *what, int64_t us)
{
    char text[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(text, us);
    if (us != 0)
        tide_cli_print(cli->out.file, "%-11s  %s\n", what, text);
}

static void print_text(tide_cli *cli, const char *what, const char *text)
{
    if (text)
        tide_cli_print(cli->out.file, "%-11s  %s\n", what, text);
}

static tide_status show_one(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    tide_cli *cli = arg;
    if (cli->out.is_json)
        return print_json(&cli->out, key, err);
    tide_cli_print(cli->out.file, "%s  (%s%s)\n", key->name, key->status,
                   key->is_locked ? ", locked" : "");
    print_text(cli, "request", key->request_hash);
    print_text(cli, "task", key->task_id);
    print_text(cli, "work item", key->work_item_id);
    print_text(cli, "holder", key->lock_holder);
    if (key->is_locked)
        print_time(cli, "locked until", key->lock_expires_at_us);
    print_text(cli, "takeover", key->policy);
    tide_cli_print(cli->out.file, "%-11s  %" PRId64 "\n", "attempts", key->attempts);
    print_time(cli, "created", key->created_at_us);
    print_time(cli, "completed", key->completed_at_us);
    print_time(cli, "expires", key->expires_at_us);
    if (key->has_response)
        tide_cli_print(cli->out.file, "%-11s  %s\n", "answer", key->response.ptr);
    return TIDE_OK;
}

static tide_status show(tide_cli *cli, tide_error *err)
{
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    TIDE_TRY(name_of(cli, name, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    return tide_cli_found(tide_idempotency_find(store, name, show_one, cli, err), "key", name,
                          store, err);
}

static tide_status list_one(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    tide_cli_table *table = arg;
    if (table->out->is_json)
        return print_json(table->out, key, err);
    tide_cli_table_cell(table, key->name);
    tide_cli_table_cell(table, key->is_locked ? "running" : key->status);
    tide_cli_table_cell(table, key->is_locked ? key->lock_holder : NULL);
    tide_cli_table_number(table, key->attempts);
    tide_cli_table_time(table, key->created_at_us);
    tide_cli_table_time(table, key->expires_at_us);
    return TIDE_OK;
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "KEY,STATUS,HOLDER,ATTEMPTS#,CREATED,EXPIRES");
    const tide_status status = tide_idempotency_list(
        store,
        &(tide_idempotency_filter){
            TIDE_IDEMPOTENCY_FILTER_INIT, .status = tide_cli_text(cli, TIDE_CLI_STATUS),
            .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
            .limit =
                tide_cli_is_given(cli, TIDE_CLI_ALL) ? 0 : tide_cli_number(cli, TIDE_CLI_LIMIT)},
        list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

/* ---- delete, clean ---- */

static tide_status delete_one(tide_cli *cli, tide_error *err)
{
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    TIDE_TRY(name_of(cli, name, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    const tide_status status =
        tide_idempotency_delete(store, name, tide_cli_is_given(cli, TIDE_CLI_FORCE), err);
    if (status == TIDE_E_CONFLICT)
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "wait until it is done; --force deletes it all the same, and then it can "
                       "run twice");
    TIDE_TRY(status);
    return tide_cli_print_done(&cli->out, "idempotency_key", name, "deleted", err);
}

static tide_status clean(tide_cli *cli, tide_error *err)
{
    int64_t keep_us = 0;
    if (tide_cli_is_given(cli, TIDE_CLI_OLDER_THAN)) {
        keep_us = tide_cli_number(cli, TIDE_CLI_OLDER_THAN);
        keep_us = keep_us > 0 ? keep_us : 1; /* 0 would be the default */
    }
    int64_t removed = 0;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_idempotency_clean(store, keep_us, &removed, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%" PRId64 " removed\n", removed);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "removed", removed);
    return tide_cli_json_end(&cli->out, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "run",
     .arguments = "-- CMD...",
     .takes = TIDE_CLI_LIST(KEY, SCOPE, REQUEST, POLICY, LOCK, EXPIRY, TASK, WORK_ITEM),
     .needs = TIDE_CLI_LIST(KEY),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_POLICY, .fallback = "rerun"}, {.id = TIDE_CLI_LOCK, .fallback = "5m"},
         {.id = TIDE_CLI_TASK, .help = "the task it belongs to"},
         {.id = TIDE_CLI_WORK_ITEM, .help = "the work item it belongs to"}),
     .summary = "run a command once; answer from the store for 24 hours, or as --expiry says",
     .details =
         "The command's stdout and exit code are stored and replayed. Without --request the "
         "request "
         "is the\n"
         "command with its words and stdin. Exit 75 (try later), death by a signal and a command "
         "that cannot\n"
         "be started (126, 127) are not answers: the next run tries again. Ends with 4 when the "
         "key "
         "was used\n"
         "with another request, 6 while somebody else runs it, 7 when a run was broken off and "
         "--policy is\n"
         "fail. With --json the outcome (NEW, REPLAY, IN_PROGRESS, MISMATCH, TAKEOVER) is written "
         "to stderr.",
     .run = cli_idempotency_run},
    {.name = "show",
     .arguments = "KEY",
     .takes = TIDE_CLI_LIST(SCOPE),
     .summary = "print a key and its answer; changes nothing",
     .run = show},
    {.name = "ls",
     .takes = TIDE_CLI_LIST(STATUS, TASK, LIMIT, ALL),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_STATUS, .help = "only pending, completed or failed ones"}),
     .summary = "list keys by name",
     .run = list_all},
    {.name = "delete",
     .arguments = "KEY",
     .takes = TIDE_CLI_LIST(SCOPE, FORCE),
     .summary = "forget a key: the next run is the first again",
     .run = delete_one},
    {.name = "clean",
     .takes = TIDE_CLI_LIST(OLDER_THAN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_OLDER_THAN, .help = "completed keys, too, that are older than this"}),
     .summary = "remove expired keys",
     .details = "Completed keys without an expiry of their own go after 7 days. Keys that somebody "
                "works on stay.",
     .run = clean},
    {.name = NULL},
};

const tide_cli_command tide_cli_idempotency = {
    .name = "idempotency",
    .summary = "Do it once, answer it always.",
    .verbs = verbs,
};
