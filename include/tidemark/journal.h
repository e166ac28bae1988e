/* journal.h - checkpoints: an append-only record of what tasks have reached, numbered per task and
 * globally.
 *
 * A checkpoint has a number within its task (sequence_number) and one across all tasks
 * (global_sequence). Both are taken in the transaction that writes the row, and rows become visible
 * in number order: a reader that has seen global number n has seen everything below n. Numbers are
 * never given twice, whatever is removed or imported; a store that was put back to an earlier state
 * goes on from there in a new epoch (identity.h), and numbers compare within one epoch.
 *
 *     append ---> checkpoints ---> range, latest, by tag, by time, tail
 *                     |  compact, delete, archive: rows go, numbers stay spent, the cut is recorded
 *                     |  fork: a new task that shares the history up to a checkpoint
 *                     +- export / import: everything or one task, checked, all or nothing
 *
 * A snapshot is any text, usually JSON. Up to TIDE_JOURNAL_INLINE_MAX bytes it stands in the row;
 * larger ones are cut into chunks by content, stored once each and compressed, so that a growing
 * state costs what has changed.
 *
 * Every row written here carries a checksum over its fields and a link in its task's hash chain;
 * tide_journal_verify walks both. Rows inserted by plain SQL are numbered like all others and
 * skipped by the chain.
 *
 * Survives: a crash at any point; what was answered is on disk. Threads: any. */
#ifndef TIDEMARK_JOURNAL_H
#define TIDEMARK_JOURNAL_H

#include <tidemark/identity.h>
#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_JOURNAL_ID_MAX = 128,     /* bytes of a task, item or checkpoint id */
    TIDE_JOURNAL_TYPE_MAX = 64,    /* bytes of a checkpoint type */
    TIDE_JOURNAL_TAG_MAX = 128,    /* bytes of a tag */
    TIDE_JOURNAL_TAGS_MAX = 32,    /* tags of one checkpoint */
    TIDE_JOURNAL_BATCH_MAX = 1000, /* checkpoints of one tide_journal_append_in */
    TIDE_JOURNAL_INLINE_MAX = 8192,
    TIDE_JOURNAL_SNAPSHOT_MAX = 48 << 20, /* bytes of one snapshot */
    TIDE_JOURNAL_MESSAGE_MAX = 65536,
    TIDE_JOURNAL_METADATA_MAX = 1 << 20,
    TIDE_JOURNAL_DEPTH_MAX = 64,     /* forks of forks in a line */
    TIDE_JOURNAL_KEEP_DEFAULT = 100, /* newest checkpoints per task that compaction keeps */
};

/* The highest number that an import accepts, and to which it raises the numbers of the store.
 * Counters only rise, so one near their end would end them, and readers of JSON hold no larger
 * ones. */
#define TIDE_JOURNAL_NUMBER_MAX ((INT64_C(1) << 53) - 1)

/* Events (tide_journal_tail) older than this are removed by compaction, the newest one excepted. 30
 * days. */
#define TIDE_JOURNAL_EVENTS_KEEP_US (INT64_C(30) * 86400 * 1000000)

/* The topic that is notified when checkpoints were appended: see watch.h. */
#define TIDE_JOURNAL_TOPIC "journal"

/* ---- append ---- */

typedef struct tide_checkpoint_new {
    size_t size;               /* TIDE_CHECKPOINT_NEW_INIT */
    const char *checkpoint_id; /* NULL: a new UUID. An id given again with equal content changes
                                * nothing. Not digits alone: those are numbers. */
    const char *task_id;
    const char *work_item_id; /* NULL: none */
    const char *type;         /* one of the eight, or registered */
    tide_view snapshot;       /* text; JSON unless is_text */
    bool is_text;             /* the snapshot is not checked to be JSON */
    const char *metadata;     /* JSON; NULL: none */
    const char *message;      /* NULL: none */
    const char *trigger;      /* NULL: "manual" */
    const char *const *tags;
    int tag_count;
    int64_t expect_global; /* > 0: only if this is the next global number; else TIDE_E_CONFLICT */
    /* Of the task's lease (tide_task_resume) and of the lease of work_item_id. 0: none. While the
     * task's lease is held, one of them is needed; each that is given must hold. Not read by
     * tide_work_checkpoint and tide_work_finish, which have a token of their own. */
    int64_t token;
    int64_t item_token;
} tide_checkpoint_new;
#define TIDE_CHECKPOINT_NEW_INIT .size = sizeof(tide_checkpoint_new)

typedef struct tide_checkpoint_numbers {
    char checkpoint_id[TIDE_JOURNAL_ID_MAX + 1];
    /* filled when the numbers are taken; final when tide_store_write succeeds */
    int64_t sequence_number;
    int64_t global_sequence;
    tide_identity identity; /* the epoch that the numbers belong to */
    bool is_existing;       /* the id was there already, with the same content */
} tide_checkpoint_numbers;

/* In a transaction of its own. TIDE_E_NOT_FOUND: no such task or work item. TIDE_E_INVALID: bad
 * type, JSON, UTF-8, length, or a work item of another task. TIDE_E_EXISTS: the id is there with
 * other content. TIDE_E_CONFLICT: expect_global is not next, or the task's lease is held and there
 * is no token. TIDE_E_LEASE_LOST: a token does not hold its task or work item. TIDE_E_EXHAUSTED:
 * the number would be above 2^63-1. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_append(tide_store *store,
                                                         const tide_checkpoint_new *checkpoint,
                                                         tide_checkpoint_numbers *out,
                                                         tide_error *err);

/* Several in the caller's transaction, in this order, any mix of up to 60 tasks; out[i] belongs to
 * checkpoints[i]. Of one checkpoint the numbers are filled in when they are taken. For several the
 * counters are settled here (tide_tx_take_counters), so other counters are declared before, and
 * little should follow; out NULL: not settled, nobody wants to know. Once per transaction. Statuses
 * as above. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_append_in(tide_tx *tx,
                                                            const tide_checkpoint_new *checkpoints,
                                                            int count, tide_checkpoint_numbers *out,
                                                            tide_error *err);

/* The three forms with an expected number: written if it is the next global number, else
 * TIDE_E_CONFLICT. Type manual_checkpoint; trigger as given. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_checkpoint_with_sequence(
    tide_store *store, const char *task_id, const char *message, int64_t sequence,
    tide_checkpoint_numbers *out, tide_error *err);
/* Of the checkpoint: task_id, message, tags. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_checkpoint_with_tags_and_sequence(
    tide_store *store, const tide_checkpoint_new *checkpoint, int64_t sequence,
    tide_checkpoint_numbers *out, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_auto_checkpoint_with_sequence(
    tide_store *store, const char *task_id, const char *trigger, int64_t sequence,
    tide_checkpoint_numbers *out, tide_error *err);

/* Make a type of your own known. Known already: fine; it becomes resumable if that is asked for,
 * and stays so. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_add_type(tide_store *store, const char *type,
                                                           bool is_resumable,
                                                           const char *description,
                                                           tide_error *err);

/* ---- read ---- */

typedef struct tide_checkpoint {
    int64_t global_sequence;
    int64_t sequence_number;
    const char *checkpoint_id;
    const char *task_id;
    const char *work_item_id; /* NULL: none */
    const char *type;
    const char *trigger;
    const char *message;  /* NULL: none */
    const char *metadata; /* NULL: none */
    int64_t created_at_us;
    int64_t snapshot_len;
    tide_view snapshot; /* whole; only where the reader was asked for it (with_snapshot) */
    bool has_snapshot;
    bool is_sealed; /* has checksum and chain: written through the library */
    const char *const *tags;
    int tag_count;
    const char *origin_session; /* NULL: born here */
    int64_t origin_global;
    int64_t origin_number;
    /* The epoch in force when it was read; with global_sequence it is a position. */
    const tide_identity *identity;
} tide_checkpoint;

/* Everything is borrowed until the call returns; return a failure to stop. */
typedef tide_status tide_checkpoint_fn(void *arg, const tide_checkpoint *checkpoint,
                                       tide_error *err);

typedef enum tide_journal_order {
    TIDE_JOURNAL_OLDEST_FIRST,
    TIDE_JOURNAL_NEWEST_FIRST,
} tide_journal_order;

/* Zero and NULL mean "any". */
typedef struct tide_journal_filter {
    size_t size;         /* TIDE_JOURNAL_FILTER_INIT */
    const char *task_id; /* history of a fork includes what it shares */
    const char *work_item_id;
    const char *type;
    const char *tag;
    int64_t first_global; /* inclusive */
    int64_t last_global;  /* inclusive; 0: no end */
    int64_t since_us;
    int64_t until_us;
    int64_t limit; /* 0: all */
    tide_journal_order order;
    bool with_snapshot; /* content is verified against the checksum: TIDE_E_DAMAGED */
} tide_journal_filter;
#define TIDE_JOURNAL_FILTER_INIT .size = sizeof(tide_journal_filter)

/* By global sequence, in steps that each see one durable snapshot. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_list(tide_store *store,
                                                       const tide_journal_filter *filter,
                                                       tide_checkpoint_fn *fn, void *arg,
                                                       tide_error *err);

/* By the decimal global number, or by id. Digits mean the number; only if it has no checkpoint an
 * id that plain SQL or an import made of digits. TIDE_NONE: none. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_find(tide_store *store, const char *id_or_number,
                                                       bool with_snapshot, tide_checkpoint_fn *fn,
                                                       void *arg, tide_error *err);

/* The last global number ever issued, and the epoch it belongs to; 0: none. identity may be
 * NULL. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_head(tide_store *store, int64_t *global_sequence,
                                                       tide_identity *identity, tide_error *err);

/* What happened besides appends, for those who follow: numbered in order, 1, 2, 3, ... */
typedef enum tide_journal_event_kind {
    TIDE_JOURNAL_CREATED, /* only from tide_journal_tail: a checkpoint */
    TIDE_JOURNAL_RESTORED,
    TIDE_JOURNAL_DELETED,
    TIDE_JOURNAL_COMPACTED,
    TIDE_JOURNAL_IMPORTED,
    /* only from tide_journal_tail: history was cut behind last_global */
    TIDE_JOURNAL_EPOCH_CHANGED,
} tide_journal_event_kind;

/* created, restored, deleted, compacted, imported, epoch_changed. */
TIDE_API const char *tide_journal_event_name(tide_journal_event_kind kind);

typedef struct tide_journal_event {
    tide_journal_event_kind kind;
    int64_t event_id;     /* 0 for CREATED and EPOCH_CHANGED */
    int64_t first_global; /* of what it is about */
    int64_t last_global;  /* EPOCH_CHANGED: the last number that is common to both epochs */
    int64_t count;        /* checkpoints it is about */
    const char *task_id;  /* NULL: several */
    int64_t at_us;
    const tide_checkpoint *checkpoint; /* CREATED only */
    const tide_identity *identity;     /* the epoch it was read in; EPOCH_CHANGED: that follows */
} tide_journal_event;

/* The position of a follower. Begin with zeroes to see everything, or with tide_journal_head's
 * number and identity. tide_journal_tail fills in the identity; keep it with the numbers. */
typedef struct tide_journal_position {
    int64_t global_sequence;
    int64_t event_id;
    tide_identity identity; /* zeroes: not known, so a cut of history is not noticed */
} tide_journal_position;

typedef struct tide_journal_tail_options {
    size_t size;   /* TIDE_JOURNAL_TAIL_OPTIONS_INIT */
    int64_t limit; /* events of one step, 1 or more */
    bool with_snapshot;
} tide_journal_tail_options;
#define TIDE_JOURNAL_TAIL_OPTIONS_INIT .size = sizeof(tide_journal_tail_options)

typedef tide_status tide_journal_event_fn(void *arg, const tide_journal_event *event,
                                          tide_error *err);

/* One bounded step: up to options->limit events after *position, which moves. TIDE_NONE: nothing
 * new; wait on TIDE_JOURNAL_TOPIC and call again.
 *
 * When the store has begun an epoch since the one of the position (a restored file, a failover),
 * the step hands out one EPOCH_CHANGED: what the follower has seen above last_global no longer
 * exists, or other checkpoints have those numbers. The position moves back to last_global and
 * continues there.
 * TIDE_E_MISMATCH: the position is of another store, or of an epoch that this store lacks although
 * it is newer: a primary that returned, or an older copy. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_tail(tide_store *store,
                                                       tide_journal_position *position,
                                                       const tide_journal_tail_options *options,
                                                       tide_journal_event_fn *fn, void *arg,
                                                       tide_error *err);

/* ---- steps ---- */

enum {
    TIDE_TASK_STEP_NAME_MAX = 128, /* bytes */
    /* with the NUL */
    TIDE_TASK_STEP_KEY_SIZE = TIDE_JOURNAL_ID_MAX + TIDE_TASK_STEP_NAME_MAX + sizeof "step//",
};

/* A step of a task is begun and completed under the token of the task's lease (tide_task_resume).
 * Begin returns the result that was recorded, or permission to run the step; complete records the
 * result and a tool_executed checkpoint in one commit. A step that was begun and not completed is
 * begun again by whoever holds the lease.
 *
 * A crash between the effect of a step and its record repeats the effect. Where the outside can
 * recognise repeats, hand it `key`: it is the same in every run of the step. */
typedef struct tide_task_step {
    size_t size; /* TIDE_TASK_STEP_INIT */
    const char *task_id;
    const char *name;   /* 1 to TIDE_TASK_STEP_NAME_MAX bytes without '/', unique within the task */
    int64_t token;      /* of the task's lease */
    int64_t step_token; /* complete: from begin */
    tide_view result;   /* complete: JSON; without ptr: null */
} tide_task_step;
#define TIDE_TASK_STEP_INIT .size = sizeof(tide_task_step)

typedef struct tide_task_step_state {
    bool is_done;       /* the result was recorded: do not run it */
    int64_t step_token; /* not done: what completing needs */
    char key[TIDE_TASK_STEP_KEY_SIZE];
    char *result; /* done: JSON, with a NUL behind it; free with tide_task_step_state_done */
    size_t result_len;
} tide_task_step_state;

/* Frees what it holds; it is then all zeroes again. */
TIDE_API void tide_task_step_state_done(tide_task_step_state *state);

/* TIDE_E_NOT_FOUND: no such task. TIDE_E_LEASE_LOST: the token does not hold the task. *out: init
 * it with zeroes. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_step_begin(tide_store *store,
                                                          const tide_task_step *step,
                                                          tide_task_step_state *out,
                                                          tide_error *err);

/* TIDE_E_LEASE_LOST: the token does not hold the task, or the step was begun again since.
 * TIDE_E_MISMATCH: completed with another result. The same call again succeeds and records
 * nothing. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_step_complete(tide_store *store,
                                                             const tide_task_step *step,
                                                             tide_checkpoint_numbers *out,
                                                             tide_error *err);

/* ---- annotations ---- */

typedef struct tide_annotation {
    int64_t annotation_id;
    const char *checkpoint_id;
    const char *note;
    const char *severity; /* info, warning, critical */
    int64_t created_at_us;
} tide_annotation;

TIDE_API TIDE_MUST_CHECK tide_status tide_journal_annotate(tide_store *store,
                                                           const char *id_or_number,
                                                           const char *severity, const char *note,
                                                           int64_t *annotation_id, tide_error *err);
typedef tide_status tide_annotation_fn(void *arg, const tide_annotation *annotation,
                                       tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_annotations(tide_store *store,
                                                              const char *id_or_number,
                                                              tide_annotation_fn *fn, void *arg,
                                                              tide_error *err);

/* ---- removal ---- */

typedef struct tide_compaction {
    size_t size;         /* TIDE_COMPACTION_INIT */
    const char *task_id; /* NULL: every task */
    /* newest per task; 0: TIDE_JOURNAL_KEEP_DEFAULT; below 0: none besides what must stay */
    int64_t keep;
    bool keep_tagged;
    int64_t older_than_us; /* remove only what is older; 0: any age */
    int64_t up_to_global;  /* remove nothing above this number; 0: no bound */
    bool is_dry_run;
} tide_compaction;
#define TIDE_COMPACTION_INIT .size = sizeof(tide_compaction)

typedef struct tide_compacted {
    int64_t removed;
    int64_t kept;
    int64_t kept_for_resume; /* beyond `keep`, because resuming, a fork or a live item needs it */
    int64_t chunks_removed;
    int64_t bytes_removed; /* of stored chunks and inline snapshots */
} tide_compacted;

/* Remove old checkpoints in bounded steps; never what resuming needs: the newest of each resumable
 * type, the tool_executed and llm_response ones since the last iteration_end, the last of each type
 * of each live work item, fork points. Events older than TIDE_JOURNAL_EVENTS_KEEP_US go, too.
 * TIDE_E_INVALID: a negative age or bound. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_compact(tide_store *store,
                                                          const tide_compaction *policy,
                                                          tide_compacted *out, tide_error *err);

/* Remove one. TIDE_E_CONFLICT: resuming or a fork needs it, unless is_forced (forks always
 * refuse). */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_delete(tide_store *store,
                                                         const char *id_or_number, bool is_forced,
                                                         tide_error *err);

/* Hand out the snapshot, verified, and record that it was restored once fn has taken it. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_restore(tide_store *store,
                                                          const char *id_or_number,
                                                          tide_checkpoint_fn *fn, void *arg,
                                                          tide_error *err);

/* ---- fork, diff, verify ---- */

/* A new task that shares the history up to this checkpoint. task_id NULL: a new UUID; title NULL:
 * the parent's. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_fork(tide_store *store, const char *id_or_number,
                                                       const char *task_id, const char *title,
                                                       char out_task_id[TIDE_JOURNAL_ID_MAX + 1],
                                                       tide_error *err);

typedef enum tide_difference_kind {
    TIDE_DIFFERENCE_ADDED,
    TIDE_DIFFERENCE_REMOVED,
    TIDE_DIFFERENCE_CHANGED,
} tide_difference_kind;

typedef struct tide_difference {
    tide_difference_kind kind;
    const char *path; /* RFC 6901 */
    tide_view before; /* JSON; empty when added */
    tide_view after;
} tide_difference;

typedef tide_status tide_difference_fn(void *arg, const tide_difference *difference,
                                       tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_diff(tide_store *store, const char *a,
                                                       const char *b, tide_difference_fn *fn,
                                                       void *arg, tide_error *err);

typedef struct tide_journal_report {
    int64_t valid;
    int64_t invalid;
    int64_t skipped; /* written by plain SQL: no checksum */
    int64_t missing; /* global numbers without a row and without a recorded removal */
} tide_journal_report;

/* fn is told each finding in words. TIDE_OK: sound. TIDE_E_DAMAGED: invalid or missing ones.
 * task_id NULL: all, and what only the whole journal tells: global numbers, rows without a task or
 * where a gap is recorded, times of rows born here that fall while numbers rise, a permit to remove
 * that was left behind (SQLite).
 *
 * The checksum is over what the checkpoint says: id, task, item, type, trigger, message, metadata,
 * tags, snapshot; the chain adds the number within the task. Global number, time, origin and a
 * task's fork point are in neither: they are found altered only where they contradict something
 * else. To seal them takes a new version of the seal. */
typedef void tide_journal_finding_fn(void *arg, const char *finding);
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_verify(tide_store *store, const char *task_id,
                                                         tide_journal_finding_fn *fn, void *arg,
                                                         tide_journal_report *out, tide_error *err);

/* ---- export, import ---- */

/* Where bytes go to or come from: the caller opens and closes. */
typedef tide_status tide_journal_write_fn(void *arg, tide_view bytes, tide_error *err);
/* Fill up to len bytes; *got 0 at the end. */
typedef tide_status tide_journal_read_fn(void *arg, void *bytes, size_t len, size_t *got,
                                         tide_error *err);
typedef void tide_journal_progress_fn(void *arg, int64_t done, int64_t total);

typedef struct tide_journal_transfer {
    int64_t tasks;
    int64_t checkpoints;
    int64_t skipped;    /* were there already, or were removed here */
    int64_t renumbered; /* got other numbers than in the file */
    int64_t head;       /* of the file */
    int64_t store_head; /* of the store, after an import */
    int64_t removed;    /* of the skipped: this store has removed them, and they stay removed */
} tide_journal_transfer;

typedef struct tide_journal_export_request {
    size_t size;         /* TIDE_JOURNAL_EXPORT_REQUEST_INIT */
    const char *task_id; /* NULL: everything */
    tide_journal_write_fn *write;
    tide_journal_progress_fn *progress; /* NULL: none */
    void *arg;                          /* of both */
} tide_journal_export_request;
#define TIDE_JOURNAL_EXPORT_REQUEST_INIT .size = sizeof(tide_journal_export_request)

/* *out may be NULL. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_export(tide_store *store,
                                                         const tide_journal_export_request *request,
                                                         tide_journal_transfer *out,
                                                         tide_error *err);

/* Also takes the older document {"checkpoints":[...],"global_sequence":n}. TIDE_E_DAMAGED:
 * truncated or altered; nothing is changed then, nor after any other failure. Numbers are accepted
 * up to TIDE_JOURNAL_NUMBER_MAX. TIDE_E_LIMIT: new numbers for the file would go beyond it, so that
 * an export of this store could not be imported any more.
 *
 * The file is read in steps, but all of it is published by one transaction, which the store's
 * closure_us bounds: open the store with more than the usual 30 s for files of some hundred
 * thousand checkpoints. TIDE_E_TIMEOUT: it was not enough.
 *
 * What was removed stays removed: a checkpoint that this store has numbered itself, by append or by
 * an earlier import, and has removed since (compact, archive, delete, deletion of its task) is
 * skipped and counted in `removed`, whether the file was made here or comes back from another
 * store. Another store takes the same file whole. */
TIDE_API TIDE_MUST_CHECK tide_status tide_journal_import(tide_store *store,
                                                         tide_journal_read_fn *read, void *arg,
                                                         tide_journal_progress_fn *progress,
                                                         tide_journal_transfer *out,
                                                         tide_error *err);

TIDE_END_DECLS

#endif
