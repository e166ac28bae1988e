/* toy_disk.c - see toy_disk.h. */
#include "lake/maintenance/toy_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static tide_status remove_toy(void *context, const char *path, int64_t *bytes, tide_error *err)
{
    toy_disk *d = context;
    const size_t dir_len = strlen(tide_lake_data_dir(d->h->lake));
    assert_memory_equal(path, tide_lake_data_dir(d->h->lake), dir_len);
    const bool fails = ++d->removals == d->fail_at;
    if (fails && !d->fails_behind)
        return tide_fail(err, TIDE_E_IO, "removal %d fails", d->removals);
    for (int i = 0; i < TOY_FILES; i++) {
        if (!d->files[i].is_there || strcmp(d->files[i].path, path + dir_len) != 0)
            continue;
        d->files[i].is_there = false;
        *bytes = 100;
        return fails ? tide_fail(err, TIDE_E_IO, "nobody hears of removal %d", d->removals)
                     : TIDE_OK;
    }
    return TIDE_NONE;
}

static tide_status walk_toys(void *context, const char *dir, tide_lake_disk_fn *fn, void *arg,
                             tide_error *err)
{
    const toy_disk *d = context;
    assert_string_equal(tide_lake_data_dir(d->h->lake), dir);
    for (int i = 0; i < TOY_FILES; i++) {
        if (!d->files[i].is_there)
            continue;
        const tide_lake_disk_file file = {d->files[i].path, 100, d->files[i].changed_at_us};
        TIDE_TRY(fn(arg, &file, err));
    }
    return TIDE_OK;
}

void toy_disk_init(toy_disk *d, hand *h)
{
    memset(d, 0, sizeof *d);
    d->h = h;
    d->ops = (tide_lake_disk){.context = d, .remove = remove_toy, .walk = walk_toys};
}

void toy_disk_put(toy_disk *d, int64_t schema, int64_t table, int64_t file)
{
    assert_in_range(file, 1, TOY_FILES - 1);
    (void)snprintf(d->files[file].path, sizeof d->files[file].path,
                   "s%" PRId64 "/t%" PRId64 "/f%" PRId64 ".parquet", schema, table, file);
    d->files[file].changed_at_us = d->h->t->clock.wall_us;
    d->files[file].is_there = true;
}

int toy_disk_count(const toy_disk *d)
{
    int count = 0;
    for (int i = 0; i < TOY_FILES; i++)
        count += d->files[i].is_there;
    return count;
}
