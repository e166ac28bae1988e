/* dir_lock.h - whose a data directory is: one process's at a time.
 *
 *     DIR/lock     held by the process that is up; its number stands in it, for who is refused
 *
 * Whoever keeps something below the directory claims it before the first file is touched.
 *
 * Survives: the claim ends with its process, however that ends; children do not inherit it. */
#ifndef TIDE_ALLINONE_DIR_LOCK_H
#define TIDE_ALLINONE_DIR_LOCK_H

#include <tidemark/error.h>

/* Makes the directory where there is none. *out is the caller's: closed, the claim is over.
 * TIDE_E_BUSY: another process has it; the words say which. */
TIDE_MUST_CHECK tide_status tide_dir_lock(int *out, const char *dir, tide_error *err);

#endif
