/* completion.h - what a shell needs to complete our words, made from the command and option tables.
 *
 *     tidemark completion bash|zsh|fish      prints a script: data, then a few lines that walk over the words typed so far
 *
 * The data are four functions of the script, the same in every shell, each printing lines of a word, a tab and what it is:
 *
 *     next PLACE              words that may follow ("" -> task, work, ...; "colony agent" -> add, ls, remove)
 *     options PLACE           options that the verb takes
 *     values PLACE OPTION     what may stand behind an option; nothing for a flag
 *     arguments PLACE         what may stand behind the verb
 *
 * A PLACE is the command and its verb. A line that begins with @ stands for what the shell finds itself: @file, @dir,
 * @context (names of contexts), @command (as next), @none (a value that nobody can guess).
 *
 * Threads: one. */
#pragma once

#include <stdio.h>

#include "cli/frame/cli.h"

/* How a shell writes the data functions down, and the lines that use them. */
typedef struct tide_cli_shell {
    const char *name;
    const char *head;           /* the file's first lines */
    const char *function_word;  /* in front of a function's name */
    const char *function_begin; /* behind it */
    const char *function_end;
    const char *case_begin; /* in front of the patterns */
    const char *case_or;    /* between two patterns */
    const char *case_end;   /* behind the patterns */
    const char *list_end;   /* behind the lines of a case */
    const char *star;       /* how a pattern begins that anything may stand in front of */
    const char *quote;      /* how ' is written between ' and ' */
    bool is_escaping;       /* \ counts between ' and ' */
    const char *tail;       /* what walks over the words */
} tide_cli_shell;

extern const tide_cli_shell tide_cli_shells[]; /* ends with a NULL name */

void tide_cli_completion_print(FILE *file, const tide_cli_shell *shell);
