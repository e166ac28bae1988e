#include "replica/snapshot/snapshots.h"

#include <dirent.h>

static const char schema[] =
    "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER, note);"
    "CREATE INDEX todos_by_n ON todos(n);"
    "CREATE TABLE pairs(a INTEGER NOT NULL, b TEXT NOT NULL, v, PRIMARY KEY(a, b)) WITHOUT ROWID;"
    "CREATE TABLE files(id BLOB PRIMARY KEY NOT NULL, body BLOB, r REAL);"
    "CREATE TABLE kids(id INTEGER PRIMARY KEY, parent TEXT REFERENCES folks(id), x CHECK (x < "
    "1000));"
    "CREATE TABLE folks(id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE);";
const char *const snapshots_tables[] = {"todos", "pairs", "files", "kids", "folks", NULL};

void snapshots_begin(snapshots *t, int nodes, uint64_t seed)
{
    world_init(&t->w, nodes, seed, schema, snapshots_tables, DAY_US);
    tempdir_join(&t->w.dir, "one.tidesnap", t->path);
}

void snapshots_make(snapshots *t, int node)
{
    tide_snapshot_info info = {.bytes = 0};
    assert_ok_err(tide_snapshot_create(t->w.nodes[node].node, t->path, NULL, &info, &t->w.err),
                  &t->w.err);
    assert_true(info.is_verified);
    tide_snapshot_info_done(&info);
}

tide_snapshot_restored snapshots_restore(snapshots *t, int node)
{
    tide_snapshot_restored out;
    assert_ok_err(tide_snapshot_restore(t->w.nodes[node].node, t->path, NULL, &out, &t->w.err),
                  &t->w.err);
    return out;
}

void snapshots_use_real_time(snapshots *t)
{
    for (int i = 0; i < t->w.count; i++) {
        const tide_node_options options = {.env = NULL};
        tide_node_close(t->w.nodes[i].node);
        assert_ok_err(tide_node_open(&t->w.nodes[i].node, t->w.nodes[i].path, &options, &t->w.err),
                      &t->w.err);
    }
}

int snapshots_count_files(const char *dir)
{
    int count = 0;
    DIR *open_dir = opendir(dir);
    assert_non_null(open_dir);
    for (const struct dirent *entry = readdir(open_dir); entry; entry = readdir(open_dir))
        count += entry->d_name[0] != '.';
    (void)closedir(open_dir);
    return count;
}
