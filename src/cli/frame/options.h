/* options.h - options and arguments of the command line: one table for parser, help and
 * completions.
 *
 *     tidemark <noun> <verb> [ARGUMENT...] [--option VALUE...] [-- CMD ARG...]
 *
 * Every option of the program is one row of option_table.h and means the same wherever it is
 * allowed. A verb lists the options that it takes besides the common four (store, context, json,
 * help), and may narrow them or give them another default. A value is read from the command line,
 * else from the row's environment variable (unless empty), else from the context in force
 * (context.h), else from the default. A context on the command line precedes the environment.
 *
 * A verb works on one place. --store and --address exclude each other, and a store on the command
 * line precedes an address from elsewhere; otherwise an address precedes a store.
 *
 * Verbs that run for long take --config: each of their options (but json and help) may then also be
 * in the environment as TIDEMARK_<ID>, and in the file (runtime/options_file.h) by its name, where
 * a flag is true or false. The command line precedes the environment, the environment the file, the
 * file the default.
 *
 * Accepted: `--name value`, `--name=value`, `-x value`, `-xvalue`, options anywhere among the
 * arguments, `--` to end them. An argument like -5 is a number, not an option. Of an option given
 * twice the last counts, unless it collects.
 *
 * Parsing has two steps, because the verb, on which the values depend, is among the arguments:
 *
 *     tide_cli_args_parse     separates arguments and options; every option exists and has a value
 *     tide_cli_args_resolve    for one verb: options that it takes, values checked, defaults filled
 *
 * Everything is checked before a command runs, so a typing error changes nothing.
 *
 * Threads: one. The texts are borrowed from argv and the environment.
 * Limits: as many arguments as the system passes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>

#include "cli/frame/option_table.h"

typedef enum tide_cli_option_id {
#define TIDE_CLI_OPTION_ID(id, ...) TIDE_CLI_##id,
    TIDE_CLI_OPTIONS(TIDE_CLI_OPTION_ID)
#undef TIDE_CLI_OPTION_ID
        TIDE_CLI_OPTION_COUNT
} tide_cli_option_id;

/* What a value is, and where a verb finds it (tide_cli_text, _number, _list, _time in cli.h). */
typedef enum tide_cli_type {
    TIDE_CLI_FLAG,     /* no value: given or not */
    TIDE_CLI_TEXT,     /* text */
    TIDE_CLI_TEXTS,    /* may be given several times: a list; its text is the last */
    TIDE_CLI_NUMBER,   /* a whole number */
    TIDE_CLI_DURATION, /* 250ms, 30s, 5m, 24h, 7d: the number is microseconds */
    TIDE_CLI_SIZE,     /* 100, 64KiB, 1MiB: the number is bytes */
    TIDE_CLI_CHOICE,   /* one of the words of the value name: the number is its position, from 0 */
    TIDE_CLI_FUTURE,   /* a time, or a duration from now on: resolved by tide_cli_time */
    TIDE_CLI_PAST,     /* a time, or a duration before now */
} tide_cli_type;

typedef struct tide_cli_option {
    const char *name;
    const char *value;       /* what help calls it; NULL for a flag */
    const char *fallback;    /* NULL: none */
    const char *environment; /* NULL: none */
    const char *help;
    int64_t min; /* see option_table.h */
    int64_t max;
    tide_cli_type type;
    char letter;                 /* 0: none */
    const char *own_environment; /* TIDEMARK_<ID>: counts for verbs that take --config */
} tide_cli_option;

extern const tide_cli_option tide_cli_options[TIDE_CLI_OPTION_COUNT];

/* ---- what a verb says about options, in its table ---- */

/* .takes = TIDE_CLI_LIST(TASK, TYPE, INPUT): up to 40 rows by id; ends with TIDE_CLI_OPTION_COUNT.
 * At file scope only. */
#define TIDE_CLI_LIST(...)                                                                         \
    (const tide_cli_option_id[])                                                                   \
    {                                                                                              \
        TIDE_CLI_LIST_COUNTED(TIDE_CLI_LIST_COUNT(__VA_ARGS__), __VA_ARGS__) TIDE_CLI_OPTION_COUNT \
    }

/* What differs for one verb. Members left out are as in the table. */
typedef struct tide_cli_override {
    tide_cli_option_id id;
    const char *fallback;
    const char *help;
    const char *value; /* what help calls it */
    int64_t max;  /* a lower maximum: .max = 1 makes a repeatable option one that is given once */
    bool is_bare; /* the table's default does not count: without a value there is none */
} tide_cli_override;

/* .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT, .fallback = "1", .max = 1000},
 *                                {.id = TIDE_CLI_TYPE, .max = 1}) */
#define TIDE_CLI_OVERRIDES(...)                                                                    \
    (const tide_cli_override[])                                                                    \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .id = TIDE_CLI_OPTION_COUNT                                                            \
        }                                                                                          \
    }

/* What a verb takes; lists may be NULL. */
typedef struct tide_cli_takes {
    const tide_cli_option_id *takes; /* besides the common ones */
    const tide_cli_option_id *needs; /* of these, what must have a value */
    const tide_cli_override *overrides;
} tide_cli_takes;

bool tide_cli_list_has(const tide_cli_option_id *list, tide_cli_option_id id);

/* Is it one of those for every command? */
bool tide_cli_is_common(tide_cli_option_id id);

/* A row as a verb sees it. */
tide_cli_option tide_cli_option_for(const tide_cli_takes *takes, tide_cli_option_id id);

/* ---- what was given ---- */

enum { TIDE_CLI_HINT_SIZE = 512 };

typedef struct tide_cli_values {
    const char *const *items;
    int count;
} tide_cli_values;

typedef struct tide_cli_use {
    tide_cli_option_id id;
    const char *value; /* NULL of a flag */
} tide_cli_use;

typedef struct tide_cli_args {
    const char **words; /* all that are not options, also those behind `--` */
    int word_count;
    int before_count;    /* of them, how many stood before `--`; word_count without one */
    char *const *behind; /* what stood behind `--`, NULL at the end; NULL: there was none */
    const char *unknown; /* after a failure: the option that is none, without dashes; or NULL */
    size_t unknown_len;
    bool has_bad_value; /* after a failure to resolve: a value was wrong, not where it stood */
    tide_cli_use *uses; /* the options in the order given */
    int use_count;
    const char **pool;              /* of the lists */
    struct tide_options_file *file; /* of --config; NULL: none */
    /* The one in force; NULL: none. Put there between parse and resolve. */
    struct tide_options_file *context;
    bool given[TIDE_CLI_OPTION_COUNT]; /* stood on the command line */
    /* The rest is filled by tide_cli_args_resolve. */
    const char *text[TIDE_CLI_OPTION_COUNT]; /* NULL: no value from anywhere */
    int64_t number[TIDE_CLI_OPTION_COUNT];
    tide_cli_values list[TIDE_CLI_OPTION_COUNT]; /* of repeatable options */
} tide_cli_args;

/* Take the command line apart. argv[0] is skipped. TIDE_E_INVALID: an unknown option, a missing
 * value. To be given back (tide_cli_args_done) also after a failure; it then holds what stood
 * before the mistake. */
TIDE_MUST_CHECK tide_status tide_cli_args_parse(tide_cli_args *out, int argc, char *const *argv,
                                                tide_error *err);
void tide_cli_args_done(tide_cli_args *words);

/* Check what was given against what a verb takes, and fill in the rest. TIDE_E_INVALID: an option
 * it does not take, a bad value, one that is missing. */
TIDE_MUST_CHECK tide_status tide_cli_args_resolve(tide_cli_args *words, const tide_cli_takes *takes,
                                                  tide_error *err);

/* After settling: one place is looked at, the store that the command line names, else the address,
 * else the store.
 * TIDE_E_INVALID: the command line names both. */
TIDE_MUST_CHECK tide_status tide_cli_args_assign(tide_cli_args *words, tide_error *err);

/* The name of the option that was probably meant by words->unknown; takes: among these, NULL: among
 * all. NULL: none. */
const char *tide_cli_args_suggest(const tide_cli_args *words, const tide_cli_takes *takes);

/* ---- values of arguments; what names them in messages ---- */

/* A decimal number, nothing before or behind it. TIDE_E_INVALID, in words, otherwise. */
TIDE_MUST_CHECK tide_status tide_cli_parse_number(int64_t *out, const char *text, const char *what,
                                                  int64_t min, int64_t max, tide_error *err);

/* 30s, 5m, 24h, as microseconds. */
TIDE_MUST_CHECK tide_status tide_cli_parse_duration(int64_t *us, const char *text, const char *what,
                                                    int64_t min_us, int64_t max_us,
                                                    tide_error *err);

/* `now`, `+30s`, `-1h`, a time as timefmt.h reads it, or a duration alone, which goes the way of
 * the type (TIDE_CLI_FUTURE or TIDE_CLI_PAST). */
TIDE_MUST_CHECK tide_status tide_cli_parse_time(int64_t *us, const char *text, const char *what,
                                                tide_cli_type type, int64_t now_us,
                                                tide_error *err);

/* ---- TIDE_CLI_LIST: each name becomes TIDE_CLI_<name> ---- */

#define TIDE_CLI_LIST_COUNT(...)                                                                   \
    TIDE_CLI_LIST_41ST(__VA_ARGS__, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26,    \
                       25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, \
                       5, 4, 3, 2, 1, 0)
#define TIDE_CLI_LIST_41ST(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16,  \
                           a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30,   \
                           a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, count, ...)           \
    count
#define TIDE_CLI_LIST_COUNTED(count, ...) TIDE_CLI_LIST_JOINED(count, __VA_ARGS__)
#define TIDE_CLI_LIST_JOINED(count, ...) TIDE_CLI_LIST_##count(__VA_ARGS__)
#define TIDE_CLI_LIST_1(a) TIDE_CLI_##a,
#define TIDE_CLI_LIST_2(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_1(__VA_ARGS__)
#define TIDE_CLI_LIST_3(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_2(__VA_ARGS__)
#define TIDE_CLI_LIST_4(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_3(__VA_ARGS__)
#define TIDE_CLI_LIST_5(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_4(__VA_ARGS__)
#define TIDE_CLI_LIST_6(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_5(__VA_ARGS__)
#define TIDE_CLI_LIST_7(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_6(__VA_ARGS__)
#define TIDE_CLI_LIST_8(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_7(__VA_ARGS__)
#define TIDE_CLI_LIST_9(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_8(__VA_ARGS__)
#define TIDE_CLI_LIST_10(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_9(__VA_ARGS__)
#define TIDE_CLI_LIST_11(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_10(__VA_ARGS__)
#define TIDE_CLI_LIST_12(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_11(__VA_ARGS__)
#define TIDE_CLI_LIST_13(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_12(__VA_ARGS__)
#define TIDE_CLI_LIST_14(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_13(__VA_ARGS__)
#define TIDE_CLI_LIST_15(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_14(__VA_ARGS__)
#define TIDE_CLI_LIST_16(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_15(__VA_ARGS__)
#define TIDE_CLI_LIST_17(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_16(__VA_ARGS__)
#define TIDE_CLI_LIST_18(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_17(__VA_ARGS__)
#define TIDE_CLI_LIST_19(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_18(__VA_ARGS__)
#define TIDE_CLI_LIST_20(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_19(__VA_ARGS__)
#define TIDE_CLI_LIST_21(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_20(__VA_ARGS__)
#define TIDE_CLI_LIST_22(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_21(__VA_ARGS__)
#define TIDE_CLI_LIST_23(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_22(__VA_ARGS__)
#define TIDE_CLI_LIST_24(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_23(__VA_ARGS__)
#define TIDE_CLI_LIST_25(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_24(__VA_ARGS__)
#define TIDE_CLI_LIST_26(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_25(__VA_ARGS__)
#define TIDE_CLI_LIST_27(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_26(__VA_ARGS__)
#define TIDE_CLI_LIST_28(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_27(__VA_ARGS__)
#define TIDE_CLI_LIST_29(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_28(__VA_ARGS__)
#define TIDE_CLI_LIST_30(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_29(__VA_ARGS__)
#define TIDE_CLI_LIST_31(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_30(__VA_ARGS__)
#define TIDE_CLI_LIST_32(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_31(__VA_ARGS__)
#define TIDE_CLI_LIST_33(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_32(__VA_ARGS__)
#define TIDE_CLI_LIST_34(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_33(__VA_ARGS__)
#define TIDE_CLI_LIST_35(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_34(__VA_ARGS__)
#define TIDE_CLI_LIST_36(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_35(__VA_ARGS__)
#define TIDE_CLI_LIST_37(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_36(__VA_ARGS__)
#define TIDE_CLI_LIST_38(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_37(__VA_ARGS__)
#define TIDE_CLI_LIST_39(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_38(__VA_ARGS__)
#define TIDE_CLI_LIST_40(a, ...) TIDE_CLI_##a, TIDE_CLI_LIST_39(__VA_ARGS__)
