/* file.h - the whole of a small file: settings, certificates, keys, tokens.
 *
 * Such files are written by people and tools; they can be missing, forbidden, a directory, or far
 * larger than any meant. The buffer's maximum is the file's. The words of a failure name the path.
 *
 * Threads: pure, apart from the file. */
#pragma once

#include <tidemark/error.h>

#include "base/buffer.h"

/* Close a descriptor unless it is -1, which it becomes. Fits TIDE_CLEANUP. */
void tide_file_closep(int *fd);

/* Append all bytes of a file. TIDE_E_NOT_FOUND, TIDE_E_DENIED, TIDE_E_IO: it cannot be read.
 * TIDE_E_INVALID: a directory, or more bytes than the buffer may hold. TIDE_E_NOMEM. On failure out
 * is as before. */
TIDE_MUST_CHECK tide_status tide_file_read(tide_buffer *out, const char *path, tide_error *err);

/* The same of a file with a secret, a key or tokens. TIDE_E_DENIED: users who are neither its owner
 * nor of its group can read or change it; the words say what to do. */
TIDE_MUST_CHECK tide_status tide_file_read_private(tide_buffer *out, const char *path,
                                                   tide_error *err);

/* Make the directory root/relative for its owner alone, where it does not exist; below root no link
 * is followed. So it stays: a directory on the way, root too, is refused where other users could
 * replace what is in it.
 * TIDE_E_DENIED: relative is absolute or has "..", a link is on the way, or a directory that others
 * can change. Others as above. */
TIDE_MUST_CHECK tide_status tide_file_make_beneath(const char *root, const char *relative,
                                                   tide_error *err);

/* Make bytes the whole of a file, which is its owner's alone when it is new: it appears under its
 * name complete, or stays as it was. TIDE_E_DENIED, TIDE_E_IO,
 * TIDE_E_FULL, TIDE_E_NOT_FOUND: no such directory. */
TIDE_MUST_CHECK tide_status tide_file_replace(const char *path, tide_view bytes, tide_error *err);
