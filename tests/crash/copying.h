/* copying.h - database files, moved about by tests while nobody has them open. */
#pragma once

#include "support/tempdir.h"

/* The bytes of one file into another, which keeps its inode when it is there already. */
void copy_file(const char *from, const char *to);

/* Remove a SQLite store and what lies beside it. */
void remove_store(const char *path);

/* Make the store `name` in dir look as the disk does after a power cut: the content that fault_vfs_image wrote into
 * image, under the inodes the files had before. To the store it is the same file, not a copy. */
void restore_image(const tempdir *image, const tempdir *dir, const char *name);
