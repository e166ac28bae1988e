/* context.h - named sets of --store, --address and the credentials of that service.
 *
 *     $XDG_CONFIG_HOME/tidemark/contexts/NAME        options, one per line (runtime/options_file.h)
 *     $XDG_CONFIG_HOME/tidemark/contexts/.current    the name of the selected one
 *
 * ($HOME/.config where XDG_CONFIG_HOME is not set.) Only the owner can read the files. A file that
 * other users can write is refused, because it decides where tokens are sent.
 *
 * In force is the context of --context; else, where neither the command line nor the environment
 * names a store or an address, that of $TIDEMARK_CONTEXT; else the selected one. It counts as a
 * whole or not at all: a token of one service is never sent to another because of a context.
 *
 * Survives: a file is written beside its name, synced and renamed: the old or the new one exists.
 * Threads: one. Limits: names of 64 letters, digits and .-_ */
#pragma once

#include "cli/frame/options.h"
#include "runtime/options_file.h"

enum { TIDE_CLI_CONTEXT_NAME_MAX = 64, TIDE_CLI_CONTEXT_PATH_MAX = 4096 };

/* The options that a context may hold; ends with TIDE_CLI_OPTION_COUNT. */
extern const tide_cli_option_id tide_cli_context_options[];

/* Put the context in force, if there is one, into words->context: before they are resolved. Of it
 * only what the verb takes and, for verbs that serve, only the store. TIDE_E_INVALID: there is none
 * of this name; it is not what the verb needs. */
TIDE_MUST_CHECK tide_status tide_cli_context_enter(tide_cli_args *words,
                                                   const tide_cli_takes *takes, tide_error *err);

/* TIDE_E_INVALID: not a name. */
TIDE_MUST_CHECK tide_status tide_cli_context_check_name(const char *name, tide_error *err);

/* Where contexts are; made if missing where is_made. TIDE_NONE: neither variable is set, there can
 * be none. */
TIDE_MUST_CHECK tide_status tide_cli_context_directory(char out[TIDE_CLI_CONTEXT_PATH_MAX],
                                                       bool is_made, tide_error *err);

/* TIDE_NONE: there is no such context. To be given back (tide_options_file_done) in any case. */
TIDE_MUST_CHECK tide_status tide_cli_context_read(tide_options_file *out, const char *name,
                                                  tide_error *err);
/* A value of it; NULL: it has none. */
const char *tide_cli_context_value(const tide_options_file *file, tide_cli_option_id id);

/* TIDE_E_EXISTS: there is one, and is_replaced is false. */
TIDE_MUST_CHECK tide_status tide_cli_context_write(const char *name, tide_view text,
                                                   bool is_replaced, tide_error *err);
/* TIDE_NONE: there is none. One in use is in use no longer. */
TIDE_MUST_CHECK tide_status tide_cli_context_remove(const char *name, tide_error *err);

/* The name of the one in use. TIDE_NONE: none is. */
TIDE_MUST_CHECK tide_status tide_cli_context_current(char out[TIDE_CLI_CONTEXT_NAME_MAX + 1],
                                                     tide_error *err);
/* name NULL: none. */
TIDE_MUST_CHECK tide_status tide_cli_context_use(const char *name, tide_error *err);
