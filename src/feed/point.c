/* point.c - is this reader's history ours? See parts.h.
 *
 * A point is (epoch, number, digest). It is of our history if its number was given in its epoch and the digests are
 * equal. A number above the head, or one that a later epoch gave out, was given by a history that has been cut off. Below the
 * floor and inside holes nothing can be said. */
#include "feed/parts.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

typedef enum verdict {
    MATCHES,
    DIFFERS,
    CANNOT_TELL,
} verdict;

static tide_status judge_epoch(tide_tx *tx, const tide_stream_state *state,
                               const tide_feed_point *point, verdict *out, tide_error *err)
{
    *out = MATCHES;
    if (point->epoch == 0 || point->seq == 0)
        return TIDE_OK;
    int64_t epoch = 0;
    TIDE_TRY(tide_stream_epoch_of(state, tx, point->seq, &epoch, err));
    /* A reader names the epoch it read in, which is the number's own or a later one. */
    if (point->epoch > state->epoch || (epoch != 0 && point->epoch < epoch))
        *out = DIFFERS;
    return TIDE_OK;
}

static tide_status judge(tide_tx *tx, const tide_stream_state *state, const tide_feed_point *point,
                         verdict *out, tide_error *err)
{
    TIDE_TRY(judge_epoch(tx, state, point, out, err));
    if (*out == DIFFERS)
        return TIDE_OK;
    if (point->seq < 0 || point->seq > state->head_seq) {
        *out = DIFFERS;
        return TIDE_OK;
    }
    tide_digest128 digest;
    const tide_status status = tide_stream_digest_at(state, tx, point->seq, &digest, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        *out = CANNOT_TELL;
    else
        *out = memcmp(digest.bytes, point->digest, sizeof digest.bytes) == 0 ? MATCHES : DIFFERS;
    return TIDE_OK;
}

static int compare_down(const void *a, const void *b)
{
    const int64_t x = ((const tide_feed_point *)a)->seq;
    const int64_t y = ((const tide_feed_point *)b)->seq;
    return (x < y) - (x > y);
}

tide_status tide_point_judge(tide_tx *tx, const tide_stream_state *state,
                             const tide_feed_point *points, int count, tide_feed_standing *standing,
                             int64_t *matched_seq, tide_error *err)
{
    tide_feed_point sorted[TIDE_FEED_POINTS_MAX];
    memcpy(sorted, points, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_down);
    bool has_differed = false;
    bool has_doubt = false;
    bool has_matched = false;
    *matched_seq = 0;
    for (int i = 0; i < count && !has_matched; i++) {
        verdict v = CANNOT_TELL;
        TIDE_TRY(judge(tx, state, &sorted[i], &v, err));
        has_differed = has_differed || v == DIFFERS;
        has_doubt = has_doubt || v == CANNOT_TELL;
        has_matched = v == MATCHES;
        if (has_matched)
            *matched_seq = sorted[i].seq;
    }
    if (has_differed)
        *standing = TIDE_FEED_STANDING_DIVERGED;
    else
        *standing = has_matched && !has_doubt ? TIDE_FEED_STANDING_OK : TIDE_FEED_STANDING_UNKNOWN;
    return TIDE_OK;
}
