#include "journal/check.h"

#include <ctype.h>
#include <string.h>

#include <tidemark/journal.h>

#include "base/interface/caller.h"
#include "base/text/json_canon.h"
#include "base/text/utf8.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static const char *const builtin_types[] = {
    "iteration_start", "iteration_end",    "tool_executed",     "llm_response",
    "approval_point",  "state_transition", "manual_checkpoint", "error_boundary",
};

static const char *const triggers[] = {
    "manual",
    "scheduled",
    "hypothesis_status_changed",
    "contradiction_found",
    "verification_completed",
    "branch_switched",
    "gap_filled",
    "code_modified",
    "time_passed",
    "context_compaction_warning",
};

/* How others call them. */
static const struct {
    const char *name;
    const char *trigger;
} other_names[] = {
    {"auto", "time_passed"},
    {"hypothesisstatuschange", "hypothesis_status_changed"},
    {"newcontradiction", "contradiction_found"},
    {"verificationcomplete", "verification_completed"},
    {"branchswitch", "branch_switched"},
    {"significanttimepassed", "time_passed"},
    {"contextcompaction", "context_compaction_warning"},
};

bool tide_journal_is_builtin(const char *type)
{
    for (size_t i = 0; i < sizeof builtin_types / sizeof builtin_types[0]; i++)
        if (strcmp(type, builtin_types[i]) == 0)
            return true;
    return false;
}

/* Equal when only letters and digits count, of any case. */
static bool is_same_word(tide_view a, const char *b)
{
    size_t i = 0;
    for (;; i++, b++) {
        while (i < a.len && !isalnum((unsigned char)a.ptr[i]))
            i++;
        while (*b && !isalnum((unsigned char)*b))
            b++;
        if (i == a.len || !*b)
            return i == a.len && !*b;
        if (tolower((unsigned char)a.ptr[i]) != *b)
            return false;
    }
}

const char *tide_journal_find_trigger(tide_view text)
{
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++)
        if (is_same_word(text, triggers[i]))
            return triggers[i];
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++)
        if (is_same_word(text, other_names[i].name))
            return other_names[i].trigger;
    return NULL;
}

tide_status tide_journal_check_name(const char *what, const char *name, size_t max, tide_error *err)
{
    const size_t len = name ? strlen(name) : 0;
    if (len < 1 || len > max)
        return tide_fail(err, TIDE_E_INVALID, "a %s has 1 to %zu bytes, this one has %zu", what,
                         max, len);
    if (!tide_utf8_valid(tide_view_of(name)))
        return tide_fail(err, TIDE_E_INVALID, "a %s is UTF-8 text", what);
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return tide_fail(err, TIDE_E_INVALID, "a %s has no control characters", what);
    return TIDE_OK;
}

tide_status tide_journal_check_text(const char *what, const char *text, size_t max, tide_error *err)
{
    const size_t len = strlen(text);
    if (len > max)
        return tide_fail(err, TIDE_E_INVALID, "%s of %zu bytes; at most %zu", what, len, max);
    if (!tide_utf8_valid(tide_view_of(text)))
        return tide_fail(err, TIDE_E_INVALID, "%s is not UTF-8 text", what);
    return TIDE_OK;
}

tide_status tide_journal_check_trigger(const char *trigger, tide_error *err)
{
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++)
        if (strcmp(trigger, triggers[i]) == 0)
            return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "unknown trigger '%.40s'; known are manual, scheduled, "
                     "hypothesis_status_changed, contradiction_found, verification_completed, "
                     "branch_switched, gap_filled, code_modified, time_passed, "
                     "context_compaction_warning",
                     trigger);
}

static tide_status check_snapshot(const tide_checkpoint_new *checkpoint, tide_error *err)
{
    const tide_view snapshot = checkpoint->snapshot;
    if (snapshot.len > TIDE_JOURNAL_SNAPSHOT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a snapshot of %zu bytes; at most %d", snapshot.len,
                         TIDE_JOURNAL_SNAPSHOT_MAX);
    if (checkpoint->is_text) {
        if (!tide_utf8_valid(snapshot))
            return tide_fail(err, TIDE_E_INVALID, "the snapshot is not UTF-8 text");
        return TIDE_OK;
    }
    const tide_status status = tide_json_check(snapshot, err);
    return status < TIDE_OK ? tide_fail_context(err, status, "the snapshot is not JSON") : TIDE_OK;
}

static tide_status check_tags(const tide_checkpoint_new *checkpoint, tide_error *err)
{
    TIDE_NEED(checkpoint->tags || checkpoint->tag_count <= 0, err);
    if (checkpoint->tag_count < 0 || checkpoint->tag_count > TIDE_JOURNAL_TAGS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%d tags; a checkpoint has at most %d",
                         checkpoint->tag_count, TIDE_JOURNAL_TAGS_MAX);
    for (int i = 0; i < checkpoint->tag_count; i++)
        TIDE_TRY(tide_journal_check_name("tag", checkpoint->tags[i], TIDE_JOURNAL_TAG_MAX, err));
    return TIDE_OK;
}

/* Digits alone would be taken for a global number wherever a checkpoint is named. */
static tide_status check_id(const char *id, tide_error *err)
{
    TIDE_TRY(tide_journal_check_name("checkpoint id", id, TIDE_JOURNAL_ID_MAX, err));
    if (strspn(id, "0123456789") == strlen(id))
        return tide_fail(err, TIDE_E_INVALID,
                         "checkpoint id '%s' is a number: add a letter, numbers are given here",
                         id);
    return TIDE_OK;
}

static tide_status check_token(int64_t token, tide_error *err)
{
    if (token >= 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "token %lld, want 1 or more, or 0 for none",
                     (long long)token);
}

tide_status tide_journal_check_new(const tide_checkpoint_new *checkpoint, tide_error *err)
{
    if (checkpoint->checkpoint_id)
        TIDE_TRY(check_id(checkpoint->checkpoint_id, err));
    TIDE_TRY(tide_journal_check_name("task id", checkpoint->task_id, TIDE_JOURNAL_ID_MAX, err));
    if (checkpoint->work_item_id)
        TIDE_TRY(tide_journal_check_name("work item id", checkpoint->work_item_id,
                                         TIDE_JOURNAL_ID_MAX, err));
    TIDE_TRY(
        tide_journal_check_name("checkpoint type", checkpoint->type, TIDE_JOURNAL_TYPE_MAX, err));
    if (checkpoint->trigger)
        TIDE_TRY(tide_journal_check_trigger(checkpoint->trigger, err));
    if (checkpoint->message)
        TIDE_TRY(tide_journal_check_text("a message", checkpoint->message, TIDE_JOURNAL_MESSAGE_MAX,
                                         err));
    if (checkpoint->metadata) {
        TIDE_TRY(tide_journal_check_text("metadata", checkpoint->metadata,
                                         TIDE_JOURNAL_METADATA_MAX, err));
        const tide_status status = tide_json_check(tide_view_of(checkpoint->metadata), err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "the metadata is not JSON");
    }
    if (checkpoint->expect_global < 0)
        return tide_fail(err, TIDE_E_INVALID, "numbers start at 1; %lld cannot be the next",
                         (long long)checkpoint->expect_global);
    TIDE_TRY(check_token(checkpoint->token, err));
    TIDE_TRY(check_token(checkpoint->item_token, err));
    if (checkpoint->item_token > 0 && !checkpoint->work_item_id)
        return tide_fail(err, TIDE_E_INVALID, "an item's token needs the id of the work item");
    TIDE_TRY(check_tags(checkpoint, err));
    return check_snapshot(checkpoint, err);
}

/* Types of checkpoints that users add to the eight. */

typedef struct type_request {
    const char *type;
    bool is_resumable;
    const char *description;
} type_request;

static tide_status raise_type(tide_tx *tx, const char *type, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_JOURNAL_TYPE_RAISE, NULL, err, tide_bind_text("type", type),
                        tide_bind_bool("yes", true));
}

static tide_status add_type(tide_tx *tx, void *arg, tide_error *err)
{
    const type_request *request = arg;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_JOURNAL_TYPE_ADD, NULL, err,
                          tide_bind_text("type", request->type),
                          tide_bind_bool("is_resumable", request->is_resumable),
                          tide_bind_text("description", request->description)));
    return request->is_resumable ? raise_type(tx, request->type, err) : TIDE_OK;
}

tide_status tide_journal_add_type(tide_store *store, const char *type, bool is_resumable,
                                  const char *description, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_journal_check_name("checkpoint type", type, TIDE_JOURNAL_TYPE_MAX, err));
    type_request request = {
        .type = type, .is_resumable = is_resumable, .description = description ? description : ""};
    TIDE_TRY(tide_journal_check_text("a description", request.description, TIDE_JOURNAL_MESSAGE_MAX,
                                     err));
    return tide_store_write(store, add_type, &request, err);
}
