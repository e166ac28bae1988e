/* compact_choose.c - which files are worth being taken together; see compact.h. */
#include "lake/compact.h"

enum { SMALL_SHARE = 4 }; /* a file is small below the target by this */

/* A run of small files of one partition, as it grows along the list. */
typedef struct run {
    int count;
    int64_t bytes;
} run;

static bool is_half_deleted(const tide_lake_file_seen *file)
{
    return file->delete_file_id != 0 && 2 * file->delete_count >= file->record_count;
}

static bool is_small(const tide_lake_file_seen *file, int64_t target_bytes)
{
    return file->file_size_bytes < target_bytes / SMALL_SHARE;
}

/* The run that begins with a file: neighbours in its partition, until one is not small, the target is reached or there are enough. */
static int grow(const tide_lake_file_seen *files, const uint64_t *partitions, int count, int first,
                const tide_lake_compact_options *options, int *which)
{
    run r = {0};
    for (int i = first; i < count && r.count < options->files_most; i++) {
        if (partitions[i] != partitions[first])
            continue; /* not a neighbour of this partition */
        if (!is_small(&files[i], options->target_bytes) ||
            r.bytes + files[i].file_size_bytes > options->target_bytes)
            break;
        which[r.count++] = i;
        r.bytes += files[i].file_size_bytes;
    }
    return r.count;
}

int tide_lake_compact_choose(const tide_lake_file_seen *files, const uint64_t *partitions,
                             int count, const tide_lake_compact_options *options, int *which)
{
    for (int i = 0; i < count; i++) {
        if (is_small(&files[i], options->target_bytes)) {
            const int found = grow(files, partitions, count, i, options, which);
            if (found >= options->files_least)
                return found;
        }
        if (is_half_deleted(&files[i])) {
            which[0] = i;
            return 1;
        }
    }
    return 0;
}
