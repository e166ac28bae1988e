#include "store/identity_marker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text/uuid.h"

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

static bool make_directories(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        const bool is_there = mkdir(path, 0755) == 0 || errno == EEXIST;
        *at = '/';
        if (!is_there)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

char *tide_identity_marker_path_of(const char *state_dir, const char *session_id, const char *host)
{
    char directory[TIDE_IDENTITY_MARKER_PATH_SIZE];
    char folder[TIDE_IDENTITY_MARKER_PATH_SIZE + 32];
    if (!tide_identity_marker_state_directory(state_dir, directory))
        return NULL;
    (void)snprintf(folder, sizeof folder, "%s/identity-markers", directory);
    if (!make_directories(folder) || access(folder, W_OK) != 0)
        return NULL;
    char *path = NULL;
    if (asprintf(&path, "%s/%s-%s", folder, session_id, host) < 0)
        return NULL;
    for (char *at = path + strlen(folder) + 1; *at; at++)
        if (*at == '/')
            *at = '-';
    return path;
}

void tide_identity_marker_init(tide_store *store)
{
    store->marker_path = tide_identity_marker_path_of(store->options.state_dir,
                                                      store->identity.session_id, store->host.text);
}

tide_status tide_identity_marker_read_at(const char *path, const char *session_id, int64_t *mark,
                                         int64_t *epoch)
{
    if (!path)
        return TIDE_NONE;
    FILE *in = fopen(path, "re");
    if (!in)
        return TIDE_NONE;
    char line[128] = "";
    const bool has_line = fgets(line, sizeof line, in) != NULL;
    (void)fclose(in);
    const size_t session_len = TIDE_SESSION_ID_SIZE - 1;
    if (!has_line || strncmp(line, session_id, session_len) != 0 || line[session_len] != ' ')
        return TIDE_NONE;
    char *end = NULL;
    const int64_t found = strtoll(line + session_len + 1, &end, 10);
    const int64_t found_epoch = *end == ' ' ? strtoll(end + 1, &end, 10) : 0;
    if (*end != '\n' || found < 0 || found_epoch < 0)
        return TIDE_NONE;
    *mark = found;
    if (epoch)
        *epoch = found_epoch;
    return TIDE_OK;
}

tide_status tide_identity_marker_read(const tide_store *store, int64_t *mark, int64_t *epoch)
{
    return tide_identity_marker_read_at(store->marker_path, store->identity.session_id, mark,
                                        epoch);
}

static void closedirp(DIR **directory)
{
    if (*directory)
        (void)closedir(*directory);
}

int64_t tide_identity_marker_newest_epoch(const tide_store *store)
{
    const char *session_id = store->identity.session_id;
    const char *name = store->marker_path ? strrchr(store->marker_path, '/') : NULL;
    if (!name)
        return 0;
    char folder[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(name - store->marker_path),
                   store->marker_path);
    TIDE_CLEANUP(closedirp) DIR *directory = opendir(folder);
    int64_t newest = 0;
    for (const struct dirent *entry = NULL; directory && (entry = readdir(directory)) != NULL;) {
        char path[sizeof folder + sizeof entry->d_name + 1];
        int64_t mark = 0;
        int64_t epoch = 0;
        if (strncmp(entry->d_name, session_id, TIDE_SESSION_ID_SIZE - 1) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (tide_identity_marker_read_at(path, session_id, &mark, &epoch) == TIDE_OK &&
            epoch > newest && epoch <= TIDE_EPOCH_MAX)
            newest = epoch;
    }
    return newest;
}

void tide_identity_marker_write_at(const char *path, const char *session_id, int64_t mark,
                                   int64_t epoch)
{
    if (!path)
        return;
    char lock_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    char new_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    (void)snprintf(new_path, sizeof new_path, "%s.new", path);
    TIDE_CLEANUP(tide_file_closep) int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        return;
    int64_t current = 0;
    int64_t current_epoch = 0;
    if (tide_identity_marker_read_at(path, session_id, &current, &current_epoch) == TIDE_OK &&
        current >= mark && current_epoch >= epoch)
        return;
    /* The commit that begins an epoch raises the mark before the process knows the epoch. */
    if (current > mark)
        mark = current;
    if (current_epoch > epoch)
        epoch = current_epoch;
    char text[128];
    const int len =
        snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 "\n", session_id, mark, epoch);
    TIDE_CLEANUP(tide_file_closep)
    int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, (size_t)len) == len)
        (void)rename(new_path, path);
}

void tide_identity_marker_write(tide_store *store, int64_t mark)
{
    tide_identity identity;
    tide_store_identity(store, &identity);
    tide_identity_marker_write_at(store->marker_path, identity.session_id, mark, identity.epoch);
}

/* ---- PostgreSQL ---- */

void tide_identity_marker_init_epoch(tide_store *store, const char *session_id, const char *host)
{
    char place[sizeof store->host.text];
    const char *timeline = strchr(host, '/');
    const char *database = strrchr(host, '/');
    if (store->marker_path || !timeline || !database)
        return;
    (void)snprintf(place, sizeof place, "%.*s%s", (int)(timeline - host), host, database);
    store->marker_path = tide_identity_marker_path_of(store->options.state_dir, session_id, place);
}

static tide_status read_epoch(const char *path, tide_identity *out)
{
    tide_identity found = {0};
    tide_uuid ignored;
    int64_t mark = 0;
    FILE *in = path ? fopen(path, "re") : NULL;
    if (!in)
        return TIDE_NONE;
    const int count = fscanf(in, "%36s %" SCNd64 " %" SCNd64 " %36s", found.session_id, &mark,
                             &found.epoch, found.epoch_id);
    (void)fclose(in);
    if (count != 4 || found.epoch < 1 || found.epoch > TIDE_EPOCH_MAX ||
        tide_uuid_parse(&ignored, tide_view_of(found.session_id)) != TIDE_OK ||
        tide_uuid_parse(&ignored, tide_view_of(found.epoch_id)) != TIDE_OK)
        return TIDE_NONE;
    *out = found;
    return TIDE_OK;
}

tide_status tide_identity_marker_read_epoch(const tide_store *store, tide_identity *out)
{
    return read_epoch(store->marker_path, out);
}

void tide_identity_marker_write_epoch(tide_store *store, const tide_identity *identity)
{
    char lock_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    char new_path[TIDE_IDENTITY_MARKER_PATH_SIZE * 2];
    const char *path = store->marker_path;
    tide_identity current = {0};
    if (!path || (read_epoch(path, &current) == TIDE_OK &&
                  strcmp(current.epoch_id, identity->epoch_id) == 0))
        return;
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    (void)snprintf(new_path, sizeof new_path, "%s.new", path);
    TIDE_CLEANUP(tide_file_closep) int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        return;
    if (read_epoch(path, &current) == TIDE_OK && current.epoch >= identity->epoch)
        return;
    char text[160];
    const int len =
        snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 " %s\n", identity->session_id,
                 identity->epoch, identity->epoch, identity->epoch_id);
    TIDE_CLEANUP(tide_file_closep)
    int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, (size_t)len) == len && fsync(fd) == 0)
        (void)rename(new_path, path);
}
