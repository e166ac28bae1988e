/* record_digest.h - digest of a record's fields, whatever their order.
 *
 * Agents that were not written here send a record anew with every response, and encoders order the
 * entries of maps at random. So the digest is a sum over the fields: of each its number and content,
 * fields with their default value left out. Two records of equal fields have equal digests; the order
 * of repeated fields does not count.
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>

#include <tidemark/feed.h>
#include <tidemark/view.h>

/* False: the bytes are no message. */
bool tide_record_fields_digest(tide_view message, unsigned char out[TIDE_FEED_DIGEST_SIZE]);
