/* hand_lake.c - see hand_lake.h. */
#include "lake/maintenance/hand_lake.h"

#include <stdio.h>
#include <unistd.h>

#include "lake/expire.h"

static tide_status remove_file(void *arg, const tide_lake_disk_file *file, tide_error *err)
{
    char path[4096];
    (void)err;
    (void)snprintf(path, sizeof path, "%s%s", (const char *)arg, file->path);
    assert_int_equal(0, unlink(path));
    return TIDE_OK;
}

lake_case hand_lake(void **state)
{
    hand *h = *state;
    lake_case l = {.t = h->t};
    assert_ok_err(tide_lake_open(&l.lake, h->t->store, &l.err), &l.err);
    char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s", tide_lake_data_dir(l.lake));
    const tide_lake_disk *disk = tide_lake_disk_system();
    assert_ok_err(disk->walk(disk->context, dir, remove_file, dir, &l.err), &l.err);
    return l;
}

void hand_lake_done(lake_case *l)
{
    lake_assert_sound(l);
    tide_lake_close(l->lake);
}
