/* position.h - a few numbers in a file: how far a reader has come. */
#ifndef EXAMPLES_POSITION_H
#define EXAMPLES_POSITION_H

#include <stdint.h>

#include <tidemark/error.h>

/* Zeroes where there is no such file. */
void position_load(const char *path, int64_t *numbers, int count);

/* The old ones or the new ones are there, never half of them. Save behind the work: a crash repeats some of it and skips nothing. */
TIDE_MUST_CHECK tide_status position_save(const char *path, const int64_t *numbers, int count,
                                          tide_error *err);

#endif
