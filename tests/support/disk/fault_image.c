#include "support/disk/fault_disk.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* KEEP_PREFIX stops at one of the unsynced changes, or after the last. */
static uint64_t draw_stop(const fault_model *model, prng *p)
{
    const uint64_t oldest = fault_model_oldest(model);
    return oldest + prng_below(p, model->serial - oldest + 1);
}

static void write_image(const fault_node *n, const fault_lottery *l, const char *path)
{
    fault_content c;
    if (!fault_node_draw(n, l, &c))
        fault_give_up("no memory", path);
    FILE *file = fopen(path, "wbx");
    if (!file || fwrite(c.bytes, 1, c.len, file) != c.len || fclose(file) != 0)
        fault_give_up("cannot write", path);
    free(c.bytes);
}

/* A -wal left from another image would be taken for this one's. */
static void check_empty(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        fault_give_up("cannot read", path);
    for (const struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fault_give_up("not empty", path);
    closedir(dir);
}

static bool is_known(const fault_model *model, const char *name)
{
    for (const fault_entry *e = model->entries; e; e = e->next)
        if (strcmp(e->name, name) == 0)
            return true;
    return false;
}

static bool is_shared_memory(const char *name)
{
    const size_t len = strlen(name);
    return len > 4 && strcmp(name + len - 4, "-shm") == 0;
}

/* A file that was not opened on this disk since the power came back is unchanged. */
static void write_untouched(fault_vfs *disk, const char *name, const char *path)
{
    char from[PATH_MAX];
    if (snprintf(from, sizeof(from), "%s/%s", disk->dir, name) >= (int)sizeof(from))
        fault_give_up("path too long", disk->dir);
    struct stat st;
    if (lstat(from, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    fault_entry *e = fault_model_find(&disk->model, name, from);
    if (!e)
        fault_give_up("no memory", from);
    const fault_lottery all = fault_lottery_open(FAULT_VFS_KEEP_ALL, NULL);
    write_image(e->durable, &all, path);
}

static void write_all_untouched(fault_vfs *disk, const char *dir)
{
    DIR *files = opendir(disk->dir);
    if (!files)
        fault_give_up("cannot read", disk->dir);
    for (const struct dirent *e; (e = readdir(files));) {
        char path[PATH_MAX];
        if (is_known(&disk->model, e->d_name) || is_shared_memory(e->d_name))
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
            fault_give_up("path too long", dir);
        write_untouched(disk, e->d_name, path);
    }
    closedir(files);
}

void fault_vfs_image(fault_vfs *disk, fault_vfs_survival survival, prng *p, const char *dir)
{
    check_empty(dir);
    pthread_mutex_lock(&disk->lock);
    assert(disk->gate.is_cut);
    fault_lottery l = fault_lottery_open(survival, p);
    if (survival == FAULT_VFS_KEEP_PREFIX)
        l.torn = draw_stop(&disk->model, p);
    for (const fault_entry *e = disk->model.entries; e; e = e->next) {
        char path[PATH_MAX];
        const fault_node *n = fault_entry_draw(e, &l);
        if (snprintf(path, sizeof(path), "%s/%s", dir, e->name) >= (int)sizeof(path))
            fault_give_up("path too long", dir);
        if (n)
            write_image(n, &l, path);
    }
    write_all_untouched(disk, dir);
    pthread_mutex_unlock(&disk->lock);
}

int64_t fault_vfs_flip_bit(const char *path, int64_t first, int64_t len, prng *p)
{
    FILE *file = fopen(path, "r+b");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0)
        fault_give_up("cannot open", path);
    assert(first >= 0 && len > 0 && first < st.st_size);
    if (len > st.st_size - first)
        len = st.st_size - first;

    const int64_t bit = (first * 8) + (int64_t)prng_below(p, (uint64_t)len * 8);
    unsigned char byte;
    if (fseek(file, bit / 8, SEEK_SET) != 0 || fread(&byte, 1, 1, file) != 1)
        fault_give_up("cannot read", path);
    byte ^= (unsigned char)(1u << (bit % 8));
    if (fseek(file, bit / 8, SEEK_SET) != 0 || fwrite(&byte, 1, 1, file) != 1 || fclose(file) != 0)
        fault_give_up("cannot write", path);
    return bit;
}
