/* work_child_end.c - a command has ended: what becomes of its item. */
#include "cli/work/work_child_run.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"

#define LATER_US INT64_C(10000000) /* until an item that said "not now" is tried again */

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static tide_view trim(tide_view text)
{
    while (text.len > 0 && is_space(text.ptr[text.len - 1]))
        text.len--;
    while (text.len > 0 && is_space(text.ptr[0]))
        text = tide_view_bytes(text.ptr + 1, text.len - 1);
    return text;
}

/* The output message, else stdout: as JSON if it is JSON, else as a text in an object. Nothing printed: no output. */
static tide_status make_output(const tide_work_run *r, tide_buffer *out, tide_error *err)
{
    if (r->messages.has_output)
        return tide_buffer_append_view(out, tide_buffer_view(&r->messages.output));
    if (r->result.is_out_over)
        return tide_fail(err, TIDE_E_LIMIT, "the command printed more than %d bytes",
                         TIDE_WORK_DATA_MAX);
    const tide_view printed = tide_buffer_view(&r->result.out);
    if (printed.len == 0)
        return TIDE_OK;
    if (tide_json_check(printed, NULL) == TIDE_OK)
        return tide_buffer_append_view(out, trim(printed));
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "stdout");
    tide_json_view(&json, printed);
    tide_json_object_end(&json);
    const tide_status status = tide_json_finish(&json);
    return status < TIDE_OK ? tide_fail(err, status, "the command printed too much") : TIDE_OK;
}

static tide_status write_executed(const tide_work_run *r, tide_view output, tide_buffer *out)
{
    tide_json json;
    tide_buffer_clear(out);
    TIDE_TRY(tide_buffer_append_text(out, "{\"result\":"));
    TIDE_TRY(output.len > 0 ? tide_buffer_append_view(out, output)
                            : tide_buffer_append_text(out, "null"));
    TIDE_TRY(tide_buffer_append_text(out, ",\"run\":"));
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_work_put_command(&json, r->children->argv);
    tide_json_key(&json, "exit_code");
    tide_json_i64(&json, r->result.exit_code);
    tide_json_key(&json, "duration_ms");
    tide_json_i64(&json, r->took_us / 1000);
    tide_json_object_end(&json);
    TIDE_TRY(tide_json_finish(&json));
    return tide_buffer_append_byte(out, '}');
}

/* An output that is nested as deeply as is allowed cannot be wrapped: it stands in the item alone. */
static tide_status make_executed(const tide_work_run *r, tide_view output, tide_buffer *out)
{
    TIDE_TRY(write_executed(r, output, out));
    if (tide_json_check(tide_buffer_view(out), NULL) == TIDE_OK)
        return TIDE_OK;
    return write_executed(r, (tide_view){NULL, 0}, out);
}

static void note_failure(tide_work_run *r, const char *words)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(1 << 20);
    tide_json json;
    tide_json_init(&json, &text);
    tide_json_object_begin(&json);
    tide_json_key(&json, "error");
    tide_json_text(&json, words);
    tide_json_key(&json, "attempt");
    tide_json_i64(&json, r->item->attempt);
    tide_work_put_command(&json, r->children->argv);
    tide_json_object_end(&json);
    if (tide_json_finish(&json) < TIDE_OK)
        return;
    tide_error err;
    tide_checkpoint_numbers numbers;
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "error_boundary",
                                            .snapshot = tide_buffer_view(&text)};
    TIDE_IGNORE(tide_job_checkpoint(r->job, &checkpoint, &numbers, &err));
}

/* One end only: the key goes back when the item does not end completed. */
static tide_status fail_item(tide_work_run *r, const char *words, bool is_final, tide_error *err)
{
    note_failure(r, words);
    tide_work_give_key_back(r);
    return tide_job_fail(r->job, words, is_final, -1, err);
}

static tide_status finish_item(tide_work_run *r, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer output = tide_buffer_of(TIDE_WORK_DATA_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer executed = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    tide_error why = {0};
    if (make_output(r, &output, &why) < TIDE_OK)
        return fail_item(r, why.text, true, err);
    TIDE_TRY(make_executed(r, tide_buffer_view(&output), &executed));
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_buffer_view(&executed)};
    tide_work_result result = {
        TIDE_WORK_RESULT_INIT,
        .output = output.len > 0 ? tide_buffer_text(&output) : NULL,
        .checkpoint = &checkpoint,
        .idempotency_name = r->key,
        .idempotency_token = r->state.token,
        .response = output.len > 0 ? tide_buffer_view(&output) : (tide_view){NULL, 0},
    };
    const tide_status status = tide_job_finish(r->job, &result, err);
    if (status < TIDE_OK)
        tide_work_give_key_back(r);
    return status;
}

/* The end of stderr as text: no NUL, and no half of a character where it was cut. */
static tide_view clean_tail(tide_work_messages *messages)
{
    tide_view tail = {messages->tail, messages->tail_len};
    for (size_t i = 0; i < tail.len; i++)
        if (messages->tail[i] == '\0')
            messages->tail[i] = ' ';
    if (tail.len == TIDE_WORK_TAIL_MAX)
        for (int i = 0; i < 3 && tail.len > 0 && ((unsigned char)*tail.ptr & 0xc0) == 0x80; i++)
            tail = tide_view_bytes(tail.ptr + 1, tail.len - 1);
    return trim(tail);
}

static void describe_failure(tide_work_run *r, char *text, size_t size)
{
    const tide_view tail = clean_tail(&r->messages);
    char end[64];
    if (tide_job_stop_get(r->job) == TIDE_JOB_TIMED_OUT)
        (void)snprintf(end, sizeof end, "took longer than its timeout");
    else if (r->result.signal > 0)
        (void)snprintf(end, sizeof end, "ended by signal %d", r->result.signal);
    else
        (void)snprintf(end, sizeof end, "exit status %d", r->result.exit_code);
    (void)snprintf(text, size, "%s%s%.*s", end, tail.len > 0 ? ": " : "", (int)tail.len, tail.ptr);
}

static tide_status give_item_back(tide_work_run *r, int64_t delay_us, tide_error *err)
{
    tide_work_give_key_back(r);
    return tide_job_release(r->job, delay_us, err);
}

tide_status tide_work_conclude(tide_work_run *r, tide_error *err)
{
    const bool is_stopped = r->result.reason == TIDE_WORK_STOPPED;
    /* Told to stop, it may still have ended well: its exit status decides. */
    if (r->result.exit_code == 0 && (!is_stopped || tide_job_lease_left_us(r->job) > 0))
        return finish_item(r, err);
    /* Stopped by us: not the item's fault, unless it took too long. */
    if (is_stopped && tide_job_stop_get(r->job) != TIDE_JOB_TIMED_OUT)
        return give_item_back(r, 0, err);
    if (r->result.exit_code == TIDE_WORK_CHILD_LATER)
        return give_item_back(r, LATER_US, err);
    char words[TIDE_WORK_TAIL_MAX + 128];
    describe_failure(r, words, sizeof words);
    return fail_item(r, words, r->result.exit_code == TIDE_WORK_CHILD_NEVER, err);
}
