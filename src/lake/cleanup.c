/* cleanup.c - files that nobody can reach leave the disk; see expire.h. */
#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/env.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/text/json.h"
#include "lake/data.h"
#include "lake/expire.h"
#include "lake/owner.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- disk ---- */

enum { DEPTH_MAX = 64 }; /* of directories below the data directory */

static tide_status fail_errno(tide_error *err, const char *verb, const char *path)
{
    const int code = errno;
    return tide_fail(err, code == EACCES || code == EPERM ? TIDE_E_DENIED : TIDE_E_IO,
                     "cannot %s %s: %s", verb, path, strerror(code));
}

/* The directory of a writer that died goes with the last of its files. */
static void remove_stage(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t end_len = strlen(TIDE_LAKE_STAGE);
    const size_t len = slash ? (size_t)(slash - path) : 0;
    if (len <= end_len || len >= sizeof dir ||
        memcmp(path + len - end_len, TIDE_LAKE_STAGE, end_len) != 0)
        return;
    memcpy(dir, path, len);
    dir[len] = '\0';
    (void)rmdir(dir);
}

static tide_status remove_file(void *context, const char *path, int64_t *bytes, tide_error *err)
{
    (void)context;
    struct stat info;
    *bytes = 0;
    if (lstat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TIDE_NONE : fail_errno(err, "look at", path);
    if (S_ISDIR(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is a directory, not a data file", path);
    if (unlink(path) != 0)
        return errno == ENOENT ? TIDE_NONE : fail_errno(err, "remove", path);
    *bytes = info.st_size;
    remove_stage(path);
    return TIDE_OK;
}

typedef struct walk {
    char path[PATH_MAX]; /* relative to where it began */
    size_t len;
    tide_lake_disk_fn *fn;
    void *arg;
} walk;

static void close_dirp(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static tide_status walk_dir(walk *w, int fd, int depth, tide_error *err);

/* What vanishes while it is looked at is somebody else's doing, and fine. */
static tide_status walk_entry(walk *w, int fd, const char *name, int depth, tide_error *err)
{
    struct stat info;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "look at", w->path);
    if (S_ISREG(info.st_mode)) {
        const int64_t changed_at_us =
            (int64_t)info.st_mtim.tv_sec * 1000000 + info.st_mtim.tv_nsec / 1000;
        const tide_lake_disk_file file = {w->path, info.st_size, changed_at_us};
        return w->fn(w->arg, &file, err);
    }
    if (!S_ISDIR(info.st_mode))
        return TIDE_OK;
    if (depth == DEPTH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%s: directories nest more than %d deep", w->path,
                         DEPTH_MAX);
    const int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "open", w->path);
    return walk_dir(w, inner, depth + 1, err);
}

/* Takes fd over. */
static tide_status walk_dir(walk *w, int fd, int depth, tide_error *err)
{
    TIDE_CLEANUP(close_dirp) DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return fail_errno(err, "read", w->path);
    }
    const size_t len = w->len;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno == 0 ? TIDE_OK : fail_errno(err, "read", w->path);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (depth == 0 && (strcmp(entry->d_name, TIDE_LAKE_EXPORTS) == 0 ||
                            strcmp(entry->d_name, TIDE_LAKE_OWNER_FILE) == 0)))
            continue;
        const int added = snprintf(w->path + len, sizeof w->path - len, "%s%s", len > 0 ? "/" : "",
                                   entry->d_name);
        if ((size_t)added >= sizeof w->path - len)
            return tide_fail(err, TIDE_E_LIMIT, "a path below %.*s is too long", (int)len, w->path);
        w->len = len + (size_t)added;
        TIDE_TRY(walk_entry(w, dirfd(dir), entry->d_name, depth, err));
        w->len = len;
        w->path[len] = '\0';
    }
}

static tide_status walk_files(void *context, const char *dir, tide_lake_disk_fn *fn, void *arg,
                              tide_error *err)
{
    (void)context;
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "open", dir);
    walk w = {.fn = fn, .arg = arg};
    return walk_dir(&w, fd, 0, err);
}

const tide_lake_disk *tide_lake_disk_system(void)
{
    static const tide_lake_disk disk = {.remove = remove_file, .walk = walk_files};
    return &disk;
}

enum {
    CLEANUP_BATCH = 1000,
    CLEANUP_BATCH_MAX = 100000,
    ORPHAN_PAGE = 500, /* files asked about at once */
    ENDINGS_MAX = 16,  /* of a path: more directories deep nothing of ours lies */
    PAGE_BYTES_MAX = 64 << 20,
    PATH_SIZE = 2 * TIDE_LAKE_PATH_MAX + 2,
};

/* A file's time comes from the kernel's coarse clock. */
#define CLOCK_SLACK_US INT64_C(1000000)

typedef struct candidate {
    char *path; /* in the page's arena */
    int64_t id; /* scheduled files'; 0: an orphan */
    bool is_relative;
    int64_t changed_at_us;
    bool is_spared; /* a row names it, or somebody may be writing it */
} candidate;

typedef struct cleaning {
    tide_lake *lake;
    const tide_lake_disk *disk;
    bool is_dry_run;
    int64_t left; /* files of this turn */
    int64_t due_us;
    tide_lake_cleaned *out;

    tide_arena arena;
    candidate *page;
    int64_t count;
    int64_t after_id;
    char after_path[PATH_SIZE];
    bool is_last;
    tide_buffer text;
} cleaning;

static void cleaning_done(cleaning *c)
{
    tide_arena_done(&c->arena);
    tide_buffer_done(&c->text);
    free(c->page);
}

/* Below the data directory, and not by way of ".."? */
static bool is_ours(const cleaning *c, const char *whole)
{
    const char *dir = tide_lake_data_dir(c->lake);
    if (strncmp(whole, dir, strlen(dir)) != 0)
        return false;
    const char *rest = whole + strlen(dir);
    return *rest != '\0' && strncmp(rest, "../", 3) != 0 && !strstr(rest, "/../") &&
           !(strlen(rest) >= 3 && strcmp(rest + strlen(rest) - 3, "/..") == 0);
}

static void join(const cleaning *c, const candidate *file, char out[PATH_SIZE])
{
    const bool is_below = file->path[0] != '/';
    (void)snprintf(out, PATH_SIZE, "%s%s", is_below ? tide_lake_data_dir(c->lake) : "", file->path);
}

/* ---- scheduled files ---- */

static tide_status read_due(tide_tx *tx, void *arg, tide_error *err)
{
    cleaning *c = arg;
    c->count = 0;
    tide_arena_reset(&c->arena);
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_LAKE_SQL_CLEAN_DUE, err);
    const int64_t limit = c->left < ORPHAN_PAGE ? c->left : ORPHAN_PAGE;
    tide_query_bind_time(query, "due", c->due_us);
    tide_query_bind_i64(query, "after_id", c->after_id);
    tide_query_bind_text(query, "after_path", c->after_path);
    tide_query_bind_i64(query, "limit", limit);
    TIDE_EACH(tide_query_step(query, err)) {
        candidate *file = &c->page[c->count++];
        *file = (candidate){.id = tide_query_col_i64(query)};
        file->path = tide_arena_text(&c->arena, tide_query_col_text(query));
        file->is_relative = tide_query_col_bool(query);
        TIDE_NEED_MEMORY(file->path, err);
    }
    c->is_last = c->count < limit;
    return TIDE_OK;
}

static tide_status forget_page(tide_tx *tx, void *arg, tide_error *err)
{
    const cleaning *c = arg;
    for (int64_t i = 0; i < c->count; i++) {
        TIDE_TRY(tide_tx_defer(tx, TIDE_LAKE_SQL_CLEAN_DONE, err,
                               tide_bind_i64("id", c->page[i].id),
                               tide_bind_text("path", c->page[i].path)));
    }
    return TIDE_OK;
}

static tide_status remove_one(cleaning *c, const candidate *file, tide_error *err)
{
    char whole[PATH_SIZE];
    join(c, file, whole);
    if (!is_ours(c, whole)) {
        c->out->foreign++;
        return TIDE_OK;
    }
    int64_t bytes = 0;
    const tide_status status =
        c->is_dry_run ? TIDE_OK : c->disk->remove(c->disk->context, whole, &bytes, err);
    TIDE_TRY(status);
    c->out->bytes += bytes;
    if (status == TIDE_NONE)
        c->out->missing++;
    else if (file->id > 0)
        c->out->files++;
    else
        c->out->orphans++;
    return TIDE_OK;
}

/* First the files, then their rows: a crash between leaves rows of files that are gone, which the next turn finds missing. */
static tide_status clean_page(cleaning *c, tide_error *err)
{
    TIDE_TRY(tide_store_read(tide_lake_store(c->lake), read_due, c, err));
    const int64_t count = c->count;
    tide_status status = TIDE_OK;
    for (c->count = 0; c->count < count && status >= TIDE_OK;) {
        const candidate *file = &c->page[c->count];
        status = remove_one(c, file, err);
        if (status >= TIDE_OK) {
            c->after_id = file->id;
            (void)snprintf(c->after_path, sizeof c->after_path, "%s", file->path);
            c->count++;
        }
    }
    c->left -= c->count;
    if (c->count > 0 && !c->is_dry_run) {
        tide_error ignored;
        TIDE_TRY(tide_store_write(tide_lake_store(c->lake), forget_page, c,
                                  status < TIDE_OK ? &ignored : err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status clean_scheduled(cleaning *c, tide_error *err)
{
    c->is_last = false;
    while (!c->is_last && c->left > 0)
        TIDE_TRY(clean_page(c, err));
    c->out->more = !c->is_last;
    return TIDE_OK;
}

/* ---- orphans ---- */

/* Every ending of a path: a row names a file by its path below its table's directory, its schema's, or the data directory. */
static tide_status write_endings(cleaning *c, tide_error *err)
{
    tide_buffer_clear(&c->text);
    tide_json json;
    tide_json_init(&json, &c->text);
    tide_json_array_begin(&json);
    for (int64_t i = 0; i < c->count; i++) {
        const char *ending = c->page[i].path;
        char whole[PATH_SIZE];
        join(c, &c->page[i], whole);
        tide_json_text(&json, whole);
        for (int n = 0; ending && n < ENDINGS_MAX; n++) {
            tide_json_text(&json, ending);
            ending = strchr(ending, '/');
            ending = ending ? ending + 1 : NULL;
        }
    }
    tide_json_array_end(&json);
    return tide_json_finish(&json) < TIDE_OK
               ? tide_fail(err, TIDE_E_LIMIT, "the paths of a page of files are too long")
               : TIDE_OK;
}

static bool ends_with(const char *path, tide_view ending)
{
    const size_t len = strlen(path);
    return ending.len <= len && memcmp(path + len - ending.len, ending.ptr, ending.len) == 0 &&
           (ending.len == len || path[len - ending.len - 1] == '/');
}

/* Who writes files has a pin that is older than they are, until a row names them. */
static tide_status mark_pinned(cleaning *c, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_CLEAN_OLDEST_PIN, err,
                  tide_bind_now("now"));
    if (tide_query_col_is_null(query))
        return TIDE_OK;
    const int64_t oldest_us = tide_query_col_time(query);
    for (int64_t i = 0; i < c->count; i++)
        if (c->page[i].changed_at_us >= oldest_us - CLOCK_SLACK_US)
            c->page[i].is_spared = true;
    return TIDE_OK;
}

static tide_status mark_named(cleaning *c, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_CLEAN_NAMED, err,
               tide_bind_view("paths", tide_buffer_view(&c->text)));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view named = tide_query_col_text(query);
        for (int64_t i = 0; i < c->count; i++) {
            char whole[PATH_SIZE];
            join(c, &c->page[i], whole);
            if (ends_with(whole, named))
                c->page[i].is_spared = true;
        }
    }
    return TIDE_OK;
}

/* Pins and rows of one moment, after the files were seen: whoever wrote one of them has a pin or a row in it. */
static tide_status mark_spared(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_TRY(mark_pinned(arg, tx, err));
    return mark_named(arg, tx, err);
}

/* A commit holds the pin of its files: one that was in time has ended when its pin can be deleted, and its rows are seen behind that. */
static tide_status forget_pins(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tide_tx_exec(tx, TIDE_LAKE_SQL_EXPIRE_PINS, NULL, err, tide_bind_now("now"));
}

static tide_status judge_page(cleaning *c, tide_error *err)
{
    if (c->count == 0)
        return TIDE_OK;
    TIDE_TRY(write_endings(c, err));
    if (!c->is_dry_run)
        TIDE_TRY(tide_store_write_by_id(tide_lake_store(c->lake), forget_pins, NULL, false, err));
    TIDE_TRY(tide_store_read(tide_lake_store(c->lake), mark_spared, c, err));
    for (int64_t i = 0; i < c->count && c->left > 0; i++) {
        if (c->page[i].is_spared)
            continue;
        TIDE_TRY(remove_one(c, &c->page[i], err));
        c->left--;
    }
    c->count = 0;
    tide_arena_reset(&c->arena);
    return TIDE_OK;
}

/* What writers make: Parquet, and standard input on its way there (data.h). Anything else is somebody else's. */
static bool is_written_here(const char *path)
{
    static const char *const ends[] = {".parquet", TIDE_LAKE_SPOOLED};
    const size_t len = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (len > strlen(ends[i]) && strcmp(path + len - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static tide_status take_file(void *arg, const tide_lake_disk_file *file, tide_error *err)
{
    cleaning *c = arg;
    if (c->left == 0 || file->changed_at_us >= c->due_us || !is_written_here(file->path) ||
        strlen(file->path) > TIDE_LAKE_PATH_MAX)
        return TIDE_OK;
    candidate *fresh = &c->page[c->count];
    *fresh = (candidate){.path = tide_arena_text(&c->arena, tide_view_of(file->path)),
                         .is_relative = true,
                         .changed_at_us = file->changed_at_us};
    TIDE_NEED_MEMORY(fresh->path, err);
    c->count++;
    return c->count == ORPHAN_PAGE ? judge_page(c, err) : TIDE_OK;
}

static tide_status clean_orphans(cleaning *c, int64_t grace_us, tide_error *err)
{
    tide_env *env = tide_store_env(tide_lake_store(c->lake));
    c->due_us = env->wall_us(env) - grace_us;
    c->count = 0;
    tide_arena_reset(&c->arena);
    TIDE_TRY(c->disk->walk(c->disk->context, tide_lake_data_dir(c->lake), take_file, c, err));
    TIDE_TRY(judge_page(c, err));
    c->out->more = c->out->more || c->left == 0;
    return TIDE_OK;
}

/* ---- a turn ---- */

static tide_status read_clock(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_now(tx, arg, err);
}

static int64_t choose_grace(int64_t asked_us, int64_t usual_us)
{
    return asked_us == 0 ? usual_us : asked_us < 0 ? 0 : asked_us;
}

tide_status tide_lake_cleanup(tide_lake *lake, const tide_lake_cleanup_options *options,
                              tide_lake_cleaned *out, tide_error *err)
{
    const tide_lake_cleanup_options none = {0};
    if (!options)
        options = &none;
    *out = (tide_lake_cleaned){0};
    if (options->batch < 0 || options->batch > CLEANUP_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a batch of %" PRId64 " files, want 1..%d",
                         options->batch, CLEANUP_BATCH_MAX);
    TIDE_TRY(tide_lake_owner_need(tide_lake_store(lake), tide_lake_data_dir(lake), err));
    TIDE_CLEANUP(cleaning_done)
    cleaning c = {
        .lake = lake,
        .disk = options->disk ? options->disk : tide_lake_disk_system(),
        .is_dry_run = options->is_dry_run,
        .left = options->batch > 0 ? options->batch : CLEANUP_BATCH,
        .after_id = -1,
        .out = out,
    };
    tide_arena_init(&c.arena, PAGE_BYTES_MAX);
    tide_buffer_init(&c.text, PAGE_BYTES_MAX);
    TIDE_ALLOC(c.page, ORPHAN_PAGE, err);
    int64_t now_us = 0;
    TIDE_TRY(tide_store_read(tide_lake_store(lake), read_clock, &now_us, err));
    c.due_us = now_us - choose_grace(options->grace_us, TIDE_LAKE_GRACE_US);
    TIDE_TRY(clean_scheduled(&c, err));
    if (!options->with_orphans || c.left == 0)
        return TIDE_OK;
    return clean_orphans(&c, choose_grace(options->grace_us, TIDE_LAKE_ORPHAN_GRACE_US), err);
}
