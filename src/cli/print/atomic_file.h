/* atomic_file.h - a file that appears when it is whole.
 *
 * It is written beside its name and takes the name when it is complete and on disk: whatever interrupts the writing leaves nothing
 * behind. A file that has the name already, or gets it meanwhile, is not overwritten. "-" is stdout.
 *
 *     TIDE_CLEANUP(tide_cli_whole_file_drop) tide_cli_whole_file file = {.fd = -1};
 *     TIDE_TRY(tide_cli_whole_file_open(&file, path, err));
 *     TIDE_TRY(tide_cli_whole_file_write(&file, bytes, err)); ...
 *     return tide_cli_whole_file_publish(&file, err);
 *
 * Threads: the main one (interrupt.h); one file at a time. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/view.h>

typedef struct tide_cli_whole_file {
    const char *path; /* "-": stdout; NULL: none was opened */
    char partial[4200];
    int fd;
} tide_cli_whole_file;

/* TIDE_E_EXISTS: there is something of this name. TIDE_E_DENIED, TIDE_E_IO, TIDE_E_INVALID. path is borrowed. */
TIDE_MUST_CHECK tide_status tide_cli_whole_file_open(tide_cli_whole_file *file, const char *path,
                                                     tide_error *err);
/* TIDE_E_FULL, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_cli_whole_file_write(const tide_cli_whole_file *file,
                                                      tide_view bytes, tide_error *err);
/* Synced, under its name. */
TIDE_MUST_CHECK tide_status tide_cli_whole_file_publish(tide_cli_whole_file *file, tide_error *err);
/* Close it; what was not published is gone. */
void tide_cli_whole_file_drop(tide_cli_whole_file *file);
