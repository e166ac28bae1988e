/* cli.h - a command of the program and its parsed command line.
 *
 * A command is a noun with verbs. A noun that can be used alone (doctor) has a verb with an empty
 * name, its first, and perhaps others (colony). A verb may have two words (colony agent add). Each
 * cmd_<noun>.c contains its table; help, parser and completions are read from the tables, so that a
 * verb exists exactly once.
 *
 * Results go to stdout (tables for people, with --json one object per line), everything else to
 * stderr. A verb that fails returns its status with the text in *err. main prints it, adds what to
 * do next (the verb's hint, else that of the status table), and exits with the code of the status.
 * A verb that found nothing returns TIDE_NONE: exit code 3, and the text in *err on stderr if there
 * is one.
 *
 * Survives: a verb is one transaction, or changes nothing; Ctrl-C ends the program with 130 at any
 * point. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "cli/frame/options.h"
#include "cli/print/output.h"

typedef struct tide_cli {
    tide_cli_args words;
    const char *const *args; /* what follows noun and verb; at least as many as the verb demands */
    int arg_count;
    /* The arguments behind `--`, for execvp. NULL: none, or the verb takes none. */
    char *const *command;
    tide_cli_output out;
    char hint[TIDE_CLI_HINT_SIZE]; /* what to do after a failure; "": as the status table */
    bool is_told;                  /* the verb has reported its failure itself */
    int exit_code;                 /* of a verb that succeeds, where it is not 0 */
    bool is_own_timeout; /* --timeout means something else to this verb than waiting for a store */
} tide_cli;

typedef tide_status tide_cli_run(tide_cli *cli, tide_error *err);

typedef struct tide_cli_verb {
    const char *name;                   /* "": the noun is used alone */
    const char *arguments;              /* "NAME LAST", see tide_cli_arguments_of; NULL: none */
    const tide_cli_option_id *takes;    /* TIDE_CLI_LIST(TASK, TYPE): besides the common ones */
    const tide_cli_option_id *needs;    /* of these, what must have a value */
    const tide_cli_override *overrides; /* TIDE_CLI_OVERRIDES: what differs for this verb */
    const char *summary;                /* one line */
    const char *details; /* a paragraph or more for its own page; NULL: the summary is enough */
    tide_cli_run *run;
} tide_cli_verb;

typedef struct tide_cli_command {
    const char *name;
    const char *summary;
    const tide_cli_verb *verbs; /* ends with a NULL name */
    bool is_placeless;          /* uses neither store nor service: contexts are ignored */
    int failure_exit;           /* of every failure; 0: the code of its status */
} tide_cli_command;

extern const tide_cli_command tide_cli_task;
extern const tide_cli_command tide_cli_work;
extern const tide_cli_command tide_cli_checkpoint;
extern const tide_cli_command tide_cli_idempotency;
extern const tide_cli_command tide_cli_schedule;
extern const tide_cli_command tide_cli_sequence;
extern const tide_cli_command tide_cli_feed;
extern const tide_cli_command tide_cli_sql;
extern const tide_cli_command tide_cli_store;
extern const tide_cli_command tide_cli_agent;
extern const tide_cli_command tide_cli_colony_command;
extern const tide_cli_command tide_cli_gaps;
extern const tide_cli_command tide_cli_query;
extern const tide_cli_command tide_cli_trace;
extern const tide_cli_command tide_cli_export;
extern const tide_cli_command tide_cli_replica;
extern const tide_cli_command tide_cli_lake;
extern const tide_cli_command tide_cli_serve;
extern const tide_cli_command tide_cli_up;
extern const tide_cli_command tide_cli_demo;
extern const tide_cli_command tide_cli_demo_report;
extern const tide_cli_command tide_cli_query_process;
extern const tide_cli_command tide_cli_status;
extern const tide_cli_command tide_cli_top;
extern const tide_cli_command tide_cli_check;
extern const tide_cli_command tide_cli_token;
extern const tide_cli_command tide_cli_context;
extern const tide_cli_command tide_cli_doctor;
extern const tide_cli_command tide_cli_explain;
extern const tide_cli_command tide_cli_completion;
extern const tide_cli_command tide_cli_version;
extern const tide_cli_command tide_cli_help;

/* Every command, in the order of the overview; NULL at the end. */
extern const tide_cli_command *const tide_cli_commands[];
/* For processes that the program itself starts: found by name, listed nowhere. */
extern const tide_cli_command *const tide_cli_hidden_commands[];

/* NULL: no such name. */
const tide_cli_command *tide_cli_find_command(const char *name);
const tide_cli_verb *tide_cli_find_verb(const tide_cli_command *command, const char *name);
/* A verb whose name is two words: "agent add". */
const tide_cli_verb *tide_cli_find_verb_of_two(const tide_cli_command *command, const char *first,
                                               const char *second);

/* How many arguments a verb demands and allows, read from its table:
 *
 *     "NAME LAST"            both
 *     "NAME [LAST]"          one or two
 *     "ID=TOKEN..."          one or more, as many as the system hands over
 *     "[ID...]"              any number
 *     "TASK -- CMD..."       one, then `--` and a command, handed over untouched (cli->command)
 *     "[-- CMD...]"          a command, or none */
typedef struct tide_cli_arguments {
    int least;
    int most; /* INT_MAX: any number */
    bool takes_command;
    bool needs_command;
} tide_cli_arguments;

tide_cli_arguments tide_cli_arguments_of(const tide_cli_verb *verb);

/* As the table has them; "": none. */
static inline const char *tide_cli_arguments_text(const tide_cli_verb *verb)
{
    return verb->arguments ? verb->arguments : "";
}

static inline tide_cli_takes tide_cli_takes_of(const tide_cli_verb *verb)
{
    return (tide_cli_takes){verb->takes, verb->needs, verb->overrides};
}

/* ---- options, for verbs ---- */

/* Did it stand on the command line? All that is to know about a flag. */
static inline bool tide_cli_is_given(const tide_cli *cli, tide_cli_option_id id)
{
    return cli->words.given[id];
}

/* Its value, from wherever; NULL: there is none. */
static inline const char *tide_cli_text(const tide_cli *cli, tide_cli_option_id id)
{
    return cli->words.text[id];
}

/* A number, the microseconds of a duration, the bytes of a size, the position of a choice. 0: there
 * is none. */
static inline int64_t tide_cli_number(const tide_cli *cli, tide_cli_option_id id)
{
    return cli->words.number[id];
}

/* The values of a repeatable option, in the order given. */
static inline tide_cli_values tide_cli_list(const tide_cli *cli, tide_cli_option_id id)
{
    return cli->words.list[id];
}

/* A time option, given what the clock says that counts (the store's, or this machine's). TIDE_NONE:
 * no value. */
TIDE_MUST_CHECK tide_status tide_cli_time(const tide_cli *cli, tide_cli_option_id id,
                                          int64_t now_us, int64_t *us, tide_error *err);

/* What the command line says about the way to a store. */
void tide_cli_store_options(const tide_cli *cli, tide_store_options *out);

/* Open the store that --store names. */
TIDE_MUST_CHECK tide_status tide_cli_open_store(tide_cli *cli, tide_store **out,
                                                tide_store_mode mode, tide_error *err);
/* The same for the rest of the scope; a failure is returned. */
#define TIDE_CLI_STORE(store, cli, mode, err)                                                      \
    TIDE_CLEANUP(tide_store_closep)                                                                \
    tide_store *store = NULL; /* NOLINT(bugprone-macro-parentheses): a name */                     \
    TIDE_TRY(tide_cli_open_store((cli), &(store), (mode), (err)))
