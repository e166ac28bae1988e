/* options.h - what can be written on the command line: one table for parser, help and completions.
 *
 *     tidemark <noun> <verb> [ARGUMENT...] [--option VALUE...]
 *
 * Every option of the program is one row of TIDE_CLI_OPTIONS and means the same wherever it is allowed. A
 * verb lists which ones it takes besides the common three (store, json, help). A value comes from the command
 * line, else from the row's environment variable (unless empty), else from the row's default.
 *
 * Accepted: `--name value`, `--name=value`, `-x value`, `-xvalue`, options anywhere among the words, `--` to end
 * them. A word like -5 is a number, not an option. Of an option given twice the last counts.
 *
 * Everything is checked before a command runs: who mistyped has changed nothing.
 *
 * Threads: one. The words are borrowed from argv. */
#ifndef TIDE_CLI_OPTIONS_H
#define TIDE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/sequence.h>

/* X(id, name, short or 0, value name or NULL, default or NULL, environment or NULL, type, least, most, help) */
#define TIDE_CLI_OPTIONS(X)                                                                        \
    X(STORE, "store", 's', "URL", "./tidemark.db", "TIDEMARK_STORE", TEXT, 0, 0,                   \
      "the store: a file, sqlite:PATH or postgres://USER@HOST/DATABASE")                           \
    X(JSON, "json", 'j', NULL, NULL, NULL, FLAG, 0, 0,                                             \
      "print one JSON object per line, for programs")                                              \
    X(HELP, "help", 'h', NULL, NULL, NULL, FLAG, 0, 0, "print this and exit")                      \
    X(VERSION, "version", 'V', NULL, NULL, NULL, FLAG, 0, 0, "print the version and exit")         \
    X(COUNT, "count", 'n', "N", "1", NULL, NUMBER, 1, TIDE_SEQUENCE_BATCH_MAX,                     \
      "how many numbers to take at once")                                                          \
    X(WHY, "why", 'w', "TEXT", NULL, NULL, TEXT, 0, 0, "the reason, kept in the history")

typedef enum tide_cli_option_id {
#define TIDE_CLI_OPTION_ID(id, ...) TIDE_CLI_##id,
    TIDE_CLI_OPTIONS(TIDE_CLI_OPTION_ID)
#undef TIDE_CLI_OPTION_ID
        TIDE_CLI_OPTION_COUNT
} tide_cli_option_id;

#define TIDE_CLI_TAKES(id) (UINT32_C(1) << TIDE_CLI_##id)
#define TIDE_CLI_TAKES_COMMON (TIDE_CLI_TAKES(STORE) | TIDE_CLI_TAKES(JSON) | TIDE_CLI_TAKES(HELP))

typedef enum tide_cli_type {
    TIDE_CLI_FLAG,
    TIDE_CLI_TEXT,
    TIDE_CLI_NUMBER,
} tide_cli_type;

typedef struct tide_cli_option {
    const char *name;
    const char *value;       /* what help calls it; NULL for a flag */
    const char *fallback;    /* NULL: none */
    const char *environment; /* NULL: none */
    const char *help;
    int64_t min; /* of a number */
    int64_t max;
    tide_cli_type type;
    char letter; /* 0: none */
} tide_cli_option;

extern const tide_cli_option tide_cli_options[TIDE_CLI_OPTION_COUNT];

enum {
    TIDE_CLI_WORD_MAX = 32, /* words that are not options */
    TIDE_CLI_HINT_SIZE = 256,
};

typedef struct tide_cli_words {
    const char *words[TIDE_CLI_WORD_MAX];
    int word_count;
    uint32_t given;                          /* bit per option: stood on the command line */
    const char *text[TIDE_CLI_OPTION_COUNT]; /* NULL: no value from anywhere */
    int64_t number[TIDE_CLI_OPTION_COUNT];   /* of numbers */
    char hint[TIDE_CLI_HINT_SIZE];           /* after a failure: "did you mean ...", or "" */
} tide_cli_words;

/* Take the command line apart. argv[0] is skipped. TIDE_E_INVALID: an unknown option, a missing or bad value. */
TIDE_MUST_CHECK tide_status tide_cli_words_parse(tide_cli_words *out, int argc, char *const *argv,
                                                 tide_error *err);

/* A decimal number, nothing before or behind it. TIDE_E_INVALID, in words, otherwise. what names it. */
TIDE_MUST_CHECK tide_status tide_cli_parse_number(int64_t *out, const char *text, const char *what,
                                                  int64_t min, int64_t max, tide_error *err);

#endif
