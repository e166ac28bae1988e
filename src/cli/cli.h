/* cli.h - a command and what it is given.
 *
 * A command is a noun with verbs; a noun that stands alone (doctor) has one verb with an empty name. Each
 * cmd_<noun>.c holds its table; help, parser and completions are read from the tables, so that a verb exists
 * exactly once.
 *
 * Who says what: results go to stdout (tables for people, with --json one object per line), everything else to
 * stderr. A verb that fails returns its status with the words in *err; main prints them, adds what to do next (the
 * verb's hint, else the status table's), and ends with the status's exit code.
 *
 * Survives: a verb is one transaction, or changes nothing; Ctrl-C ends the program with 130 at any point. */
#ifndef TIDE_CLI_CLI_H
#define TIDE_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/store.h>

#include "cli/options.h"
#include "cli/output.h"

typedef struct tide_cli {
    tide_cli_words words;
    const char *const *args; /* what follows noun and verb; at least as many as the verb demands */
    int arg_count;
    tide_cli_output out;
    char hint[TIDE_CLI_HINT_SIZE]; /* what to do after a failure; "": ask the status table */
    bool is_told;                  /* the verb has reported its failure itself */
} tide_cli;

typedef tide_status tide_cli_run(tide_cli *cli, tide_error *err);

typedef struct tide_cli_verb {
    const char *name;      /* "": the noun stands alone */
    const char *arguments; /* "NAME LAST"; optional ones in brackets: "[COMMAND]" */
    uint32_t takes;        /* options besides the common ones */
    uint32_t needs;        /* options among them that must be given */
    const char *summary;   /* one line */
    const char
        *details; /* a paragraph or more for its own help page; NULL: the summary is enough */
    tide_cli_run *run;
} tide_cli_verb;

typedef struct tide_cli_command {
    const char *name;
    const char *summary;
    const tide_cli_verb *verbs; /* ends with a NULL name */
} tide_cli_command;

extern const tide_cli_command tide_cli_sequence;
extern const tide_cli_command tide_cli_store;
extern const tide_cli_command tide_cli_doctor;
extern const tide_cli_command tide_cli_version;
extern const tide_cli_command tide_cli_help;

/* Every command, in the order of the overview; NULL at the end. */
extern const tide_cli_command *const tide_cli_commands[];

/* NULL: no such name. */
const tide_cli_command *tide_cli_find_command(const char *name);
const tide_cli_verb *tide_cli_find_verb(const tide_cli_command *command, const char *name);

/* How many arguments a verb demands and allows. */
void tide_cli_count_arguments(const tide_cli_verb *verb, int *least, int *most);

static inline bool tide_cli_is_given(const tide_cli *cli, tide_cli_option_id id)
{
    return (cli->words.given & UINT32_C(1) << id) != 0;
}

/* Open the store that --store names. */
TIDE_MUST_CHECK tide_status tide_cli_open_store(tide_cli *cli, tide_store **out,
                                                tide_store_mode mode, tide_error *err);

#endif
