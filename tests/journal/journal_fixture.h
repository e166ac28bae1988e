/* journal_fixture.h - what the tests of the journal share: tasks, appends, raw SQL, lists. */
#pragma once

#include <tidemark/journal.h>

#include "support/store_fixture.h"

/* A second store of the same engine, empty; the fixture closes it. */
tide_store *open_empty(store_test *t);

void make_task(store_test *t, const char *task_id);

/* One checkpoint; fails the case when it cannot be appended. */
tide_checkpoint_numbers append_json(store_test *t, const char *task_id, const char *type,
                                    const char *json);
tide_checkpoint_numbers append_new(store_test *t, tide_checkpoint_new checkpoint);
/* manual_checkpoint with {"n":n} */
tide_checkpoint_numbers append_n(store_test *t, const char *task_id, int n);

/* A checkpoint as it was read, copied. */
typedef struct seen {
    int64_t global_sequence;
    int64_t sequence_number;
    char checkpoint_id[TIDE_JOURNAL_ID_MAX + 1];
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
    char type[TIDE_JOURNAL_TYPE_MAX + 1];
    char snapshot[256]; /* its beginning */
    size_t snapshot_len;
    char message[128];
    char tags[256]; /* joined by commas */
    char trigger[64];
    char origin_session[64];
    int64_t origin_global;
    int64_t origin_number;
    int64_t created_at_us;
    bool is_sealed;
} seen;

enum { SEEN_MAX = 2048 };

typedef struct seen_list {
    seen rows[SEEN_MAX];
    int count;
    int stop_after; /* 0: never */
} seen_list;

/* Fits tide_checkpoint_fn. */
tide_status see(void *seen_list_arg, const tide_checkpoint *checkpoint, tide_error *err);

/* What a filter finds; valid until the next call. */
const seen_list *list_of(tide_store *store, tide_journal_filter filter);
const seen_list *list_all(tide_store *store);

int64_t head_of(tide_store *store);

/* Verify finds nothing. */
void assert_sound(tide_store *store);
/* How many findings, and their text one behind the other. */
int64_t findings_of(tide_store *store, const char *task_id, char *words, size_t size,
                    tide_journal_report *report);

/* Plain SQL, as from a foreign client, but on our connection. */
void run_sql(tide_store *store, const char *text);
/* The same, and it must be refused; the words are in *err. */
void refuse_sql(tide_store *store, const char *text, tide_error *err);
tide_status try_sql(tide_store *store, const char *text, tide_error *err);

/* One number. The text differs by engine only where it must. */
int64_t ask_number(tide_store *store, const tide_sql *sql);
#define ASK(store, text_)                                                                          \
    __extension__({                                                                                \
        static const tide_sql ask_sql_ = {                                                         \
            TIDE_SQL_INIT,                                                                         \
            .name = "ask",                                                                         \
            .engine = {{.text = (text_)}, {.text = (text_)}},                                      \
        };                                                                                         \
        ask_number((store), &ask_sql_);                                                            \
    })

/* A state that looks like an agent's: history of n steps, about len bytes in all. */
char *make_state(int steps, size_t len);

/* Bytes in memory that export writes to and import reads from. */
typedef struct memory_file {
    char *bytes;
    size_t len;
    size_t size;
    size_t at;      /* of the next read */
    size_t piece;   /* most bytes a read gives; 0: any */
    size_t fail_at; /* a write or read that reaches this place fails; 0: never */
} memory_file;

tide_status memory_write(void *memory_file_arg, tide_view bytes, tide_error *err);
tide_status memory_read(void *memory_file_arg, void *bytes, size_t len, size_t *got,
                        tide_error *err);
void memory_done(memory_file *file);
void export_to(tide_store *store, const char *task_id, memory_file *file);
tide_status import_from(tide_store *store, memory_file *file, tide_journal_transfer *out,
                        tide_error *err);
