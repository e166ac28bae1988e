#include "store/identity_marker.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/text/uuid.h"
#include "store/postgres/server_starts.h"

bool tide_identity_marker_state_directory(const char *given,
                                          char out[TIDE_IDENTITY_MARKER_PATH_SIZE])
{
    if (!given)
        given = getenv("TIDEMARK_STATE_DIR");
    if (given)
        return *given && snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "%s", given) <
                             TIDE_IDENTITY_MARKER_PATH_SIZE;
    if (geteuid() == 0)
        return snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "/var/lib/tidemark") <
               TIDE_IDENTITY_MARKER_PATH_SIZE;
    const char *state = getenv("XDG_STATE_HOME");
    if (state && *state == '/')
        return snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "%s/tidemark", state) <
               TIDE_IDENTITY_MARKER_PATH_SIZE;
    const char *home = getenv("HOME");
    return home && *home == '/' &&
           snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "%s/.local/state/tidemark", home) <
               TIDE_IDENTITY_MARKER_PATH_SIZE;
}

enum { FOLDER_SIZE = TIDE_IDENTITY_MARKER_PATH_SIZE + 32 };

static const char *const folders[] = {"identity-markers", "store-paths"};

/* What root made in a directory of another user. That user may swap names under us, so no link is
 * followed. */
static void give_to_owner(int fd, const char *path)
{
    struct stat info;
    struct stat parent;
    if (geteuid() != 0)
        return;
    TIDE_CLEANUP(tide_freep)
    char *directory = strndup(path, (size_t)(strrchr(path, '/') - path));
    const bool is_given =
        directory && stat(directory, &parent) == 0 && parent.st_uid != 0 && fstat(fd, &info) == 0 &&
        info.st_uid == 0 &&
        (S_ISDIR(info.st_mode) || (S_ISREG(info.st_mode) && info.st_nlink == 1)) &&
        fchown(fd, parent.st_uid, parent.st_gid) == 0;
    (void)is_given; /* doctor names what is not */
}

static int open_own(const char *path, int flags)
{
    const int fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        give_to_owner(fd, path);
    return fd;
}

static void give_directory(const char *path)
{
    TIDE_CLEANUP(tide_file_closep)
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        give_to_owner(fd, path);
}

static bool make_directory(const char *path)
{
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST;
    give_directory(path);
    return true;
}

static bool make_directories(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        const bool is_there = make_directory(path);
        *at = '/';
        if (!is_there)
            return false;
    }
    if (!make_directory(path))
        return false;
    give_directory(path); /* also one that was made before */
    return true;
}

/* False: nothing can be kept there. */
static bool make_folder(const char *state_dir, const char *name, char out[FOLDER_SIZE])
{
    char directory[TIDE_IDENTITY_MARKER_PATH_SIZE];
    if (!tide_identity_marker_state_directory(state_dir, directory))
        return false;
    (void)snprintf(out, FOLDER_SIZE, "%s/%s", directory, name);
    return make_directories(out) && access(out, W_OK) == 0;
}

static bool is_refused(int folder, const char *name, int mode)
{
    return faccessat(folder, name, mode, AT_EACCESS) != 0 && errno != ENOENT;
}

/* The caller frees it. NULL: there is no place for markers. */
static char *make_path(const char *state_dir, const char *session_id, const char *host)
{
    char folder[FOLDER_SIZE];
    if (!make_folder(state_dir, folders[0], folder))
        return NULL;
    char *path = NULL;
    if (asprintf(&path, "%s/%s-%s", folder, session_id, host) < 0)
        return NULL;
    for (char *at = path + strlen(folder) + 1; *at; at++)
        if (*at == '/')
            *at = '-';
    return path;
}

/* ---- the page ---- */

typedef struct slot {
    char name[TIDE_IDENTITY_MARKER_NAME_SIZE];
    _Atomic int64_t last;
} slot;

typedef struct marker_page {
    char form[8];
    char session_id[40];
    _Atomic int64_t mark;
    _Atomic int64_t epoch;
    _Atomic int64_t is_logged;
    _Atomic int64_t slot_count; /* names below it never change */
    char unused[48];
    slot slots[TIDE_IDENTITY_MARKER_COUNTERS];
} marker_page;

static_assert(sizeof(marker_page) == 4096, "a marker is one page");
static const char FORM[8] = "TIDEMRK1";

struct tide_identity_marker {
    char *path;
    int fd;
    marker_page *page;
};

static bool is_page_of(const marker_page *found, const char *session_id)
{
    return memcmp(found->form, FORM, sizeof FORM) == 0 &&
           strncmp(found->session_id, session_id, sizeof found->session_id) == 0 &&
           found->slot_count >= 0 && found->slot_count <= TIDE_IDENTITY_MARKER_COUNTERS;
}

static bool read_page(int fd, const char *session_id, marker_page *out)
{
    return pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out && is_page_of(out, session_id);
}

/* A file of another form or session is no evidence, and is made anew. Its room is taken now: a page
 * that cannot be written later would end the process. */
static bool prepare_page(int fd, const char *session_id)
{
    marker_page found;
    struct stat info;
    if (flock(fd, LOCK_EX) != 0)
        return false;
    bool is_ready = fstat(fd, &info) == 0 && info.st_size == (off_t)sizeof found &&
                    read_page(fd, session_id, &found);
    if (!is_ready) {
        memset(&found, 0, sizeof found);
        memcpy(found.form, FORM, sizeof FORM);
        (void)snprintf(found.session_id, sizeof found.session_id, "%s", session_id);
        is_ready = ftruncate(fd, sizeof found) == 0 && posix_fallocate(fd, 0, sizeof found) == 0 &&
                   pwrite(fd, &found, sizeof found, 0) == (ssize_t)sizeof found && fsync(fd) == 0;
    }
    (void)flock(fd, LOCK_UN);
    return is_ready;
}

tide_identity_marker *tide_identity_marker_open(const char *state_dir, const char *session_id,
                                                const char *host)
{
    tide_identity_marker *marker = calloc(1, sizeof *marker);
    if (!marker)
        return NULL;
    marker->path = make_path(state_dir, session_id, host);
    marker->fd = marker->path ? open_own(marker->path, O_RDWR) : -1;
    void *mapped = MAP_FAILED;
    if (marker->fd >= 0 && prepare_page(marker->fd, session_id))
        mapped = mmap(NULL, sizeof(marker_page), PROT_READ | PROT_WRITE, MAP_SHARED, marker->fd, 0);
    if (mapped != MAP_FAILED) {
        marker->page = mapped;
        return marker;
    }
    tide_identity_marker_close(marker);
    return NULL;
}

void tide_identity_marker_close(tide_identity_marker *marker)
{
    if (!marker)
        return;
    if (marker->page)
        (void)munmap(marker->page, sizeof(marker_page));
    if (marker->fd >= 0)
        (void)close(marker->fd);
    free(marker->path);
    free(marker);
}

const char *tide_identity_marker_path(const tide_identity_marker *marker)
{
    return marker ? marker->path : NULL;
}

/* A page that was damaged on disk is no evidence: neither are values that cannot be. */
static int64_t at_least_0(int64_t value)
{
    return value > 0 ? value : 0;
}

void tide_identity_marker_read(const tide_identity_marker *marker, tide_marker_state *out)
{
    *out = (tide_marker_state){.mark = -1};
    if (!marker)
        return;
    const marker_page *page = marker->page;
    out->mark = at_least_0(atomic_load(&page->mark));
    out->epoch = at_least_0(atomic_load(&page->epoch));
    out->is_logged = atomic_load(&page->is_logged) != 0;
    const int64_t count = atomic_load(&page->slot_count);
    for (int64_t i = 0; i < count && i < TIDE_IDENTITY_MARKER_COUNTERS; i++) {
        tide_marker_counter *to = &out->counters[out->counter_count++];
        memcpy(to->name, page->slots[i].name, sizeof to->name);
        to->name[sizeof to->name - 1] = '\0';
        to->last = at_least_0(atomic_load(&page->slots[i].last));
    }
}

static void closedirp(DIR **directory)
{
    if (*directory)
        (void)closedir(*directory);
}

bool tide_identity_marker_find_refused(const char *state_dir,
                                       char out[TIDE_IDENTITY_MARKER_PATH_SIZE])
{
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "%s/%s", state_dir, folders[i]);
        if (is_refused(AT_FDCWD, out, R_OK | W_OK | X_OK))
            return true;
        TIDE_CLEANUP(closedirp) DIR *directory = opendir(out);
        const size_t len = strlen(out);
        for (const struct dirent *entry = NULL; directory && (entry = readdir(directory)) != NULL;)
            if (entry->d_name[0] != '.' &&
                is_refused(dirfd(directory), entry->d_name, R_OK | W_OK)) {
                (void)snprintf(out + len, TIDE_IDENTITY_MARKER_PATH_SIZE - len, "/%s",
                               entry->d_name);
                return true;
            }
    }
    return false;
}

int64_t tide_identity_marker_newest_epoch(const tide_identity_marker *marker)
{
    if (!marker)
        return 0;
    const char *session_id = marker->page->session_id;
    char folder[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(marker->path, '/') - marker->path),
                   marker->path);
    TIDE_CLEANUP(closedirp) DIR *directory = opendir(folder);
    int64_t newest = 0;
    for (const struct dirent *entry = NULL; directory && (entry = readdir(directory)) != NULL;) {
        if (strncmp(entry->d_name, session_id, TIDE_SESSION_ID_SIZE - 1) != 0)
            continue;
        marker_page found;
        TIDE_CLEANUP(tide_file_closep)
        int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read_page(fd, session_id, &found) && found.epoch > newest &&
            found.epoch <= TIDE_EPOCH_MAX)
            newest = found.epoch;
    }
    return newest;
}

static void raise_to(_Atomic int64_t *value, int64_t to)
{
    int64_t current = atomic_load_explicit(value, memory_order_relaxed);
    while (current < to && !atomic_compare_exchange_weak(value, &current, to)) {
        /* another process raised it meanwhile */
    }
}

void tide_identity_marker_raise(tide_identity_marker *marker, int64_t mark, int64_t epoch)
{
    if (!marker)
        return;
    raise_to(&marker->page->mark, mark);
    raise_to(&marker->page->epoch, epoch);
}

/* ---- counters ---- */

static slot *find_slot(const tide_identity_marker *marker, const char *name)
{
    marker_page *page = marker->page;
    const int64_t count = atomic_load_explicit(&page->slot_count, memory_order_acquire);
    for (int64_t i = 0; i < count && i < TIDE_IDENTITY_MARKER_COUNTERS; i++)
        if (strncmp(page->slots[i].name, name, sizeof page->slots[i].name) == 0)
            return &page->slots[i];
    return NULL;
}

static bool add_slot(const tide_identity_marker *marker, const char *name)
{
    marker_page *page = marker->page;
    if (strlen(name) >= sizeof page->slots[0].name || flock(marker->fd, LOCK_EX) != 0)
        return false;
    bool is_there = find_slot(marker, name) != NULL;
    const int64_t count = atomic_load(&page->slot_count);
    if (!is_there && count < TIDE_IDENTITY_MARKER_COUNTERS) {
        (void)snprintf(page->slots[count].name, sizeof page->slots[count].name, "%s", name);
        atomic_store(&page->slots[count].last, 0);
        atomic_store_explicit(&page->slot_count, count + 1, memory_order_release);
        is_there = true;
    }
    (void)flock(marker->fd, LOCK_UN);
    return is_there;
}

bool tide_identity_marker_has_counter(tide_identity_marker *marker, const char *name)
{
    return marker && (find_slot(marker, name) != NULL ||
                      (atomic_load(&marker->page->slot_count) < TIDE_IDENTITY_MARKER_COUNTERS &&
                       add_slot(marker, name)));
}

void tide_identity_marker_raise_counter(tide_identity_marker *marker, const char *name,
                                        int64_t last)
{
    slot *found = marker ? find_slot(marker, name) : NULL;
    if (found)
        raise_to(&found->last, last);
}

void tide_identity_marker_set_counter(tide_identity_marker *marker, const char *name, int64_t last)
{
    slot *found = marker ? find_slot(marker, name) : NULL;
    if (found)
        atomic_store(&found->last, last);
}

void tide_identity_marker_set_logged(tide_identity_marker *marker, bool is_logged)
{
    if (marker &&
        (atomic_load_explicit(&marker->page->is_logged, memory_order_relaxed) != 0) != is_logged)
        atomic_store(&marker->page->is_logged, is_logged);
}

void tide_identity_marker_sync(tide_identity_marker *marker)
{
    if (marker)
        (void)sync_file_range(marker->fd, 0, sizeof(marker_page), SYNC_FILE_RANGE_WRITE);
}

/* ---- texts ---- */

static void replace_text(const char *path, const char *text, size_t len)
{
    char new_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    (void)snprintf(new_path, sizeof new_path, "%s.new", path);
    TIDE_CLEANUP(tide_file_closep)
    int fd = open_own(new_path, O_WRONLY | O_TRUNC);
    if (fd >= 0 && write(fd, text, len) == (ssize_t)len && fsync(fd) == 0)
        (void)rename(new_path, path);
}

/* ---- SQLite ---- */

static bool read_session(const char *path, char out[TIDE_SESSION_ID_SIZE])
{
    tide_uuid ignored;
    FILE *in = fopen(path, "re");
    if (!in)
        return false;
    const int count = fscanf(in, "%36s", out);
    (void)fclose(in);
    return count == 1 && tide_uuid_parse(&ignored, tide_view_of(out)) == TIDE_OK;
}

bool tide_identity_marker_set_session(const char *state_dir, const char *path,
                                      const char *session_id, char before[TIDE_SESSION_ID_SIZE])
{
    char folder[FOLDER_SIZE];
    char file[FOLDER_SIZE + TIDE_SHA256_LEN * 2 + 2];
    char name[TIDE_SHA256_LEN * 2 + 1];
    char real[PATH_MAX];
    uint8_t digest[TIDE_SHA256_LEN];
    tide_error ignored;
    if (!realpath(path, real) || tide_sha256_of(tide_view_of(real), digest, &ignored) < TIDE_OK ||
        !make_folder(state_dir, folders[1], folder))
        return false;
    tide_hex_encode(name, digest, sizeof digest);
    (void)snprintf(file, sizeof file, "%s/%s", folder, name);
    /* One process at a time: of two that find another store, one reports it. */
    TIDE_CLEANUP(tide_file_closep) int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        return false;
    const bool has_before = read_session(file, before);
    if (has_before && strcmp(before, session_id) == 0)
        return false;
    char text[TIDE_SESSION_ID_SIZE + 1];
    const int len = snprintf(text, sizeof text, "%s\n", session_id);
    replace_text(file, text, (size_t)len);
    return has_before;
}

/* ---- PostgreSQL ---- */

void tide_identity_marker_init_epoch(tide_store *store, const char *session_id, const char *host)
{
    char place[sizeof store->host.text];
    const char *timeline = strchr(host, '/');
    const char *database = strrchr(host, '/');
    if (store->epoch_path || !timeline || !database)
        return;
    (void)snprintf(place, sizeof place, "%.*s%s", (int)(timeline - host), host, database);
    store->epoch_path = make_path(store->options.state_dir, session_id, place);
}

enum {
    START_SIZE = 60,
    EPOCH_TEXT_SIZE = 120 + TIDE_SERVER_STARTS_MAX * START_SIZE,
    NUMBER_SIZE = 21, /* as text: a sign, 19 digits, the terminator */
};

static tide_status read_epoch(const char *path, tide_identity *out, tide_server_starts *starts)
{
    char text[EPOCH_TEXT_SIZE] = "";
    tide_identity found = {0};
    tide_uuid ignored;
    int len = 0;
    FILE *in = path ? fopen(path, "re") : NULL;
    if (!in)
        return TIDE_NONE;
    char epoch[NUMBER_SIZE] = "";
    const bool is_read = fgets(text, sizeof text, in) != NULL;
    (void)fclose(in);
    if (!is_read ||
        sscanf(text, "%36s %20s %36s%n", found.session_id, epoch, found.epoch_id, &len) < 3)
        return TIDE_NONE;
    found.epoch = strtoll(epoch, NULL, 10);
    if (found.epoch < 1 || found.epoch > TIDE_EPOCH_MAX ||
        tide_uuid_parse(&ignored, tide_view_of(found.session_id)) != TIDE_OK ||
        tide_uuid_parse(&ignored, tide_view_of(found.epoch_id)) != TIDE_OK)
        return TIDE_NONE;
    *out = found;
    tide_server_starts_parse(starts, text + len);
    return TIDE_OK;
}

tide_status tide_identity_marker_read_epoch(const tide_store *store, tide_identity *out,
                                            tide_server_starts *starts)
{
    return read_epoch(store->epoch_path, out, starts);
}

/* What the file has is as new, or newer. */
static bool is_written(const char *path, const tide_identity *identity,
                       const tide_server_starts *starts)
{
    tide_identity current;
    tide_server_starts began;
    if (read_epoch(path, &current, &began) != TIDE_OK)
        return false;
    if (strcmp(current.epoch_id, identity->epoch_id) == 0)
        return began.list[0].number >= starts->list[0].number;
    return current.epoch >= identity->epoch;
}

void tide_identity_marker_write_epoch(tide_store *store, const tide_identity *identity,
                                      const tide_server_starts *starts)
{
    char lock_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    const char *path = store->epoch_path;
    if (!path || is_written(path, identity, starts))
        return;
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    TIDE_CLEANUP(tide_file_closep) int lock = open_own(lock_path, O_RDWR);
    if (lock < 0 || flock(lock, LOCK_EX) != 0 || is_written(path, identity, starts))
        return;
    char text[EPOCH_TEXT_SIZE];
    int len = snprintf(text, sizeof text, "%s %" PRId64 " %s", identity->session_id,
                       identity->epoch, identity->epoch_id);
    for (int i = 0; i < starts->count; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, " %" PRId64 " %s",
                        starts->list[i].number, starts->list[i].id);
    text[len++] = '\n';
    replace_text(path, text, (size_t)len);
}

int64_t tide_identity_marker_newest_seen(const tide_store *store)
{
    if (!store->epoch_path)
        return 0;
    const char *name = strrchr(store->epoch_path, '/') + 1;
    char path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    (void)snprintf(path, sizeof path, "%.*s", (int)(name - store->epoch_path), store->epoch_path);
    TIDE_CLEANUP(closedirp) DIR *directory = opendir(path);
    const size_t len = strlen(path);
    int64_t newest = 0;
    for (const struct dirent *entry = NULL; directory && (entry = readdir(directory)) != NULL;) {
        tide_identity found;
        tide_server_starts ignored;
        if (strncmp(entry->d_name, name, TIDE_SESSION_ID_SIZE - 1) != 0)
            continue;
        (void)snprintf(path + len, sizeof path - len, "%s", entry->d_name);
        if (read_epoch(path, &found, &ignored) == TIDE_OK && found.epoch > newest &&
            strncmp(found.session_id, name, TIDE_SESSION_ID_SIZE - 1) == 0)
            newest = found.epoch;
    }
    return newest;
}

/* Of a path `FOLDER/SESSION-HOST`. */
static void split_path(const char *path, char session_id[TIDE_SESSION_ID_SIZE], const char **host)
{
    const char *name = strrchr(path, '/') + 1;
    (void)snprintf(session_id, TIDE_SESSION_ID_SIZE, "%s", name);
    *host = name + TIDE_SESSION_ID_SIZE;
}

static void write_host(const tide_store *store, int64_t epoch,
                       char session_id[TIDE_SESSION_ID_SIZE],
                       char out[TIDE_IDENTITY_MARKER_PATH_SIZE])
{
    const char *host = NULL;
    split_path(store->epoch_path, session_id, &host);
    (void)snprintf(out, TIDE_IDENTITY_MARKER_PATH_SIZE, "%s-wal-%" PRId64, host, epoch);
}

uint64_t tide_identity_marker_read_wal(const tide_store *store, int64_t epoch)
{
    char session_id[TIDE_SESSION_ID_SIZE];
    char host[TIDE_IDENTITY_MARKER_PATH_SIZE];
    marker_page page;
    if (!store->epoch_path)
        return 0;
    write_host(store, epoch, session_id, host);
    char *path = make_path(store->options.state_dir, session_id, host);
    TIDE_CLEANUP(tide_file_closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    free(path);
    return fd >= 0 && read_page(fd, session_id, &page) ? (uint64_t)at_least_0(page.mark) : 0;
}

void tide_identity_marker_follow_epoch(tide_store *store, int64_t epoch)
{
    const int64_t before = store->marker ? atomic_load(&store->marker->page->epoch) : 0;
    if (!store->epoch_path || before == epoch)
        return;
    if (store->marker && before < epoch)
        (void)unlink(store->marker->path);
    tide_identity_marker_close(store->marker);
    store->marker = NULL;
    if (epoch == 0)
        return;
    char session_id[TIDE_SESSION_ID_SIZE];
    char host[TIDE_IDENTITY_MARKER_PATH_SIZE];
    write_host(store, epoch, session_id, host);
    store->marker = tide_identity_marker_open(store->options.state_dir, session_id, host);
    tide_identity_marker_raise(store->marker, 0, epoch);
}
