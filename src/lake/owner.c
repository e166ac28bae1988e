/* owner.c - see owner.h. */
#include "lake/owner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/identity.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text/uuid.h"
#include "lake/lake.h"
#include "store/engine.h"

enum { MARK_MAX = 4096 };

typedef enum owner {
    NOBODY,
    OURS,
    A_COPY, /* of this metabase: the same session, another epoch */
    ANOTHER,
} owner;

/* session UUID, epoch UUID, store NAME: a line each. */
static void write_mark(tide_store *store, char out[MARK_MAX])
{
    tide_identity identity;
    tide_store_identity(store, &identity);
    (void)snprintf(out, MARK_MAX, "session %s\nepoch %s\nstore %.3000s\n", identity.session_id,
                   identity.epoch_id, tide_store_name(store));
}

static tide_status mark_path(const char *data_dir, char out[PATH_MAX], tide_error *err)
{
    if (snprintf(out, PATH_MAX, "%s%s", data_dir, TIDE_LAKE_OWNER_FILE) < PATH_MAX)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "the data directory %s has too long a name", data_dir);
}

static bool has_line(const char *text, const char *word, const char *value)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%s %s\n", word, value);
    const char *at = strstr(text, line);
    return at && (at == text || at[-1] == '\n');
}

/* What the mark says, for people. */
static void read_name(const char *text, char *out, size_t size)
{
    const char *at = strstr(text, "\nstore ");
    const char *name = at ? at + strlen("\nstore ") : "another store";
    (void)snprintf(out, size, "%.*s", (int)strcspn(name, "\n"), name);
}

static tide_status find_owner(tide_store *store, const char *data_dir, owner *out, char *name,
                              size_t size, tide_error *err)
{
    char path[PATH_MAX];
    TIDE_TRY(mark_path(data_dir, path, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(MARK_MAX);
    const tide_status status = tide_file_read(&text, path, err);
    if (status == TIDE_E_NOT_FOUND) {
        *out = NOBODY;
        return TIDE_OK;
    }
    TIDE_TRY(status);
    tide_identity identity;
    tide_store_identity(store, &identity);
    const char *said = tide_buffer_text(&text);
    read_name(said, name, size);
    *out = !has_line(said, "session", identity.session_id) ? ANOTHER
           : has_line(said, "epoch", identity.epoch_id)    ? OURS
                                                           : A_COPY;
    return TIDE_OK;
}

static tide_status refuse_another(const char *data_dir, const char *name, tide_error *err)
{
    return tide_fail(
        err, TIDE_E_CONFLICT,
        "the data directory %s belongs to the metabase in %s: choose another directory "
        "(if that metabase is gone for ever, remove %s%s)",
        data_dir, name, data_dir, TIDE_LAKE_OWNER_FILE);
}

tide_status tide_lake_owner_look(tide_store *store, const char *data_dir, tide_error *err)
{
    owner who = NOBODY;
    char name[512] = "";
    TIDE_TRY(find_owner(store, data_dir, &who, name, sizeof name, err));
    return who == ANOTHER ? refuse_another(data_dir, name, err) : TIDE_OK;
}

static bool is_empty(const char *data_dir)
{
    DIR *dir = opendir(data_dir);
    if (!dir)
        return true;
    int count = 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(dir);
    return count == 0;
}

/* Under a name that no thread of any process shares, then linked: who comes second finds it there. */
static tide_status put_mark(tide_store *store, const char *data_dir, tide_error *err)
{
    char path[PATH_MAX];
    char fresh[PATH_MAX];
    char text[MARK_MAX];
    char own[TIDE_UUID_TEXT_SIZE];
    tide_uuid uuid;
    tide_uuid_v4(tide_store_env(store), &uuid);
    tide_uuid_format(&uuid, own);
    TIDE_TRY(mark_path(data_dir, path, err));
    if (snprintf(fresh, sizeof fresh, "%s.%s", path, own) >= (int)sizeof fresh)
        return tide_fail(err, TIDE_E_INVALID, "the data directory %s has too long a name",
                         data_dir);
    write_mark(store, text);
    TIDE_TRY(tide_file_replace(fresh, tide_view_of(text), err));
    const int failed = link(fresh, path) == 0 || errno == EEXIST ? 0 : errno;
    (void)unlink(fresh);
    return failed == 0 ? TIDE_OK : tide_fail(err, TIDE_E_IO, "%s: %s", path, strerror(failed));
}

tide_status tide_lake_owner_mark(tide_store *store, const char *data_dir, bool needs_files,
                                 tide_error *err)
{
    owner who = NOBODY;
    char name[512] = "";
    TIDE_TRY(find_owner(store, data_dir, &who, name, sizeof name, err));
    if (who == NOBODY && needs_files && is_empty(data_dir))
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "the data directory %s is empty, and the metabase in %s has files there: "
                         "is it mounted?",
                         data_dir, tide_store_name(store));
    if (who == NOBODY)
        TIDE_TRY(put_mark(store, data_dir, err));
    return tide_lake_owner_look(store, data_dir, err);
}

tide_status tide_lake_take_over(tide_store *store, const char *data_dir, tide_error *err)
{
    char path[PATH_MAX];
    char text[MARK_MAX];
    TIDE_TRY(tide_lake_owner_look(store, data_dir, err));
    TIDE_TRY(mark_path(data_dir, path, err));
    write_mark(store, text);
    return tide_file_replace(path, tide_view_of(text), err);
}

tide_status tide_lake_owner_need(tide_store *store, const char *data_dir, tide_error *err)
{
    owner who = NOBODY;
    char name[512] = "";
    TIDE_TRY(find_owner(store, data_dir, &who, name, sizeof name, err));
    switch (who) {
    case OURS:
        break;
    case NOBODY:
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "the data directory %s is not there, or not this metabase's (%s is "
                         "missing): is it mounted? If it is, 'tidemark lake init --data %s' marks "
                         "it",
                         data_dir, TIDE_LAKE_OWNER_FILE, data_dir);
    case A_COPY:
        return tide_fail(err, TIDE_E_CONFLICT,
                         "this metabase was copied or restored, and the data directory %s belongs "
                         "to the one that was there before (%s), which may need the files: if this "
                         "is the one in use now, 'tidemark lake init --data %s --force' takes it "
                         "over",
                         data_dir, name, data_dir);
    case ANOTHER:
        return refuse_another(data_dir, name, err);
    }
    return TIDE_OK;
}
