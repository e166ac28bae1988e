#include "cli/frame/context.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

/* ---- files: private, whole, trusted ---- */

static tide_status fail_errno(const char *path, tide_error *err)
{
    const int code = errno;
    const tide_status status = code == EACCES || code == EPERM || code == EROFS ? TIDE_E_DENIED
                               : code == ENOSPC || code == EDQUOT               ? TIDE_E_FULL
                               : code == EEXIST                                 ? TIDE_E_EXISTS
                                                                                : TIDE_E_IO;
    return tide_fail(err, status, "%s: %s", path, strerror(code));
}

static tide_status make_directory(const char *path, tide_error *err)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        const int len = slash ? (int)(slash - path) : (int)strlen(path);
        (void)snprintf(part, sizeof part, "%.*s", len, path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return fail_errno(part, err);
        if (!slash)
            return TIDE_OK;
    }
}

static tide_status check_owner(const char *path, tide_error *err)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TIDE_NONE : fail_errno(path, err);
    if (found.st_uid != geteuid() && found.st_uid != 0)
        return tide_fail(err, TIDE_E_DENIED, "%s belongs to another user; it is not trusted", path);
    if (found.st_mode & (S_IWGRP | S_IWOTH))
        return tide_fail(err, TIDE_E_DENIED, "%s can be written by others: chmod 600 it", path);
    return TIDE_OK;
}

static tide_status fill(int fd, tide_view text, const char *path, tide_error *err)
{
    while (text.len > 0) {
        const ssize_t len = write(fd, text.ptr, text.len);
        if (len < 0 && errno != EINTR)
            return fail_errno(path, err);
        text.ptr += len > 0 ? len : 0;
        text.len -= len > 0 ? (size_t)len : 0;
    }
    return fsync(fd) == 0 ? TIDE_OK : fail_errno(path, err);
}

/* The new name is on disk, too. */
static tide_status sync_directory(const char *path, int len, tide_error *err)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%.*s", len, path);
    TIDE_CLEANUP(tide_file_closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? TIDE_OK : fail_errno(directory, err);
}

static tide_status write_file(const char *path, tide_view text, bool is_replaced, tide_error *err)
{
    char partial[PATH_MAX];
    const int directory_len = (int)(strrchr(path, '/') - path);
    if (snprintf(partial, sizeof partial, "%.*s/.new-XXXXXX", directory_len, path) >=
        (int)sizeof partial)
        return tide_fail(err, TIDE_E_INVALID, "%s: too long a path", path);
    TIDE_CLEANUP(tide_file_closep) int fd = mkostemp(partial, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return fail_errno(partial, err);
    tide_status status = fill(fd, text, partial, err);
    if (status >= TIDE_OK && (is_replaced ? rename(partial, path) : link(partial, path)) != 0)
        status = fail_errno(path, err);
    if (status < TIDE_OK || !is_replaced)
        (void)unlink(partial);
    return status < TIDE_OK ? status : sync_directory(path, directory_len, err);
}

const tide_cli_option_id tide_cli_context_options[] = {
    TIDE_CLI_STORE,        TIDE_CLI_ADDRESS,     TIDE_CLI_TOKEN_FILE,       TIDE_CLI_SERVICE_CA,
    TIDE_CLI_SERVICE_CERT, TIDE_CLI_SERVICE_KEY, TIDE_CLI_SERVICE_INSECURE, TIDE_CLI_OPTION_COUNT,
};

#define CURRENT ".current"

tide_status tide_cli_context_check_name(const char *name, tide_error *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const size_t len = strlen(name);
    if (len == 0 || len > TIDE_CLI_CONTEXT_NAME_MAX || name[0] == '.' || name[0] == '-' ||
        strspn(name, allowed) != len)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is not a context's name: want 1 to %d letters, digits and .-_, the "
                         "first a letter, a digit or _",
                         name, TIDE_CLI_CONTEXT_NAME_MAX);
    return TIDE_OK;
}

/* ---- where they are ---- */

tide_status tide_cli_context_directory(char out[TIDE_CLI_CONTEXT_PATH_MAX], bool is_made,
                                       tide_error *err)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int len = 0;
    if (config && config[0] == '/') /* others do not count, as the rules of XDG say */
        len = snprintf(out, TIDE_CLI_CONTEXT_PATH_MAX, "%s/tidemark/contexts", config);
    else if (home && home[0] == '/')
        len = snprintf(out, TIDE_CLI_CONTEXT_PATH_MAX, "%s/.config/tidemark/contexts", home);
    else
        return TIDE_NONE;
    if (len >= TIDE_CLI_CONTEXT_PATH_MAX - TIDE_CLI_CONTEXT_NAME_MAX - 16)
        return tide_fail(err, TIDE_E_INVALID, "the directory of settings has too long a name");
    return is_made ? make_directory(out, err) : TIDE_OK;
}

static tide_status name_file(char out[TIDE_CLI_CONTEXT_PATH_MAX], const char *name, bool is_made,
                             tide_error *err)
{
    char directory[TIDE_CLI_CONTEXT_PATH_MAX];
    const tide_status status = tide_cli_context_directory(directory, is_made, err);
    if (status != TIDE_OK)
        return status == TIDE_NONE && is_made
                   ? tide_fail(err, TIDE_E_INVALID,
                               "there is no place for contexts: set HOME or XDG_CONFIG_HOME")
                   : status;
    const int len = snprintf(out, TIDE_CLI_CONTEXT_PATH_MAX, "%s/%s", directory, name);
    return len < TIDE_CLI_CONTEXT_PATH_MAX ? TIDE_OK
                                           : tide_fail(err, TIDE_E_INVALID, "too long a name");
}

/* ---- reading ---- */

const char *tide_cli_context_value(const tide_options_file *file, tide_cli_option_id id)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->settings[i].name, tide_cli_options[id].name) == 0)
            return file->settings[i].value;
    return NULL;
}

static tide_status check_settings(const tide_options_file *file, tide_error *err)
{
    for (int i = 0; i < file->count; i++) {
        const tide_setting *setting = &file->settings[i];
        bool is_known = false;
        for (const tide_cli_option_id *id = tide_cli_context_options; *id != TIDE_CLI_OPTION_COUNT;
             id++)
            is_known = is_known || strcmp(setting->name, tide_cli_options[*id].name) == 0;
        const tide_status status =
            is_known ? TIDE_OK
                     : tide_fail(err, TIDE_E_INVALID, "%s is nothing that a context holds",
                                 setting->name);
        if (status < TIDE_OK)
            return tide_options_file_fail(file, setting, status, err);
    }
    return TIDE_OK;
}

tide_status tide_cli_context_read(tide_options_file *out, const char *name, tide_error *err)
{
    char path[TIDE_CLI_CONTEXT_PATH_MAX];
    TIDE_TRY(tide_cli_context_check_name(name, err));
    tide_status status = name_file(path, name, false, err);
    if (status == TIDE_OK)
        status = check_owner(path, err);
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(tide_options_file_read(out, path, err));
    return check_settings(out, err);
}

tide_status tide_cli_context_current(char out[TIDE_CLI_CONTEXT_NAME_MAX + 1], tide_error *err)
{
    char path[TIDE_CLI_CONTEXT_PATH_MAX];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(256);
    tide_status status = name_file(path, CURRENT, false, err);
    if (status == TIDE_OK)
        status = check_owner(path, err);
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(tide_file_read(&text, path, err));
    const char *name = tide_buffer_text(&text);
    const int len = (int)strcspn(name, "\r\n");
    if (len == 0)
        return TIDE_NONE;
    (void)snprintf(out, TIDE_CLI_CONTEXT_NAME_MAX + 1, "%.*s", len, name);
    return tide_cli_context_check_name(out, err);
}

/* ---- writing ---- */

tide_status tide_cli_context_write(const char *name, tide_view text, bool is_replaced,
                                   tide_error *err)
{
    char path[TIDE_CLI_CONTEXT_PATH_MAX];
    TIDE_TRY(tide_cli_context_check_name(name, err));
    TIDE_TRY(name_file(path, name, true, err));
    const tide_status status = write_file(path, text, is_replaced, err);
    return status == TIDE_E_EXISTS
               ? tide_fail(err, status, "there is a context '%s' (--force replaces it)", name)
               : status;
}

static tide_status remove_file(const char *name, tide_error *err)
{
    char path[TIDE_CLI_CONTEXT_PATH_MAX];
    TIDE_TRY_FOUND(name_file(path, name, false, err));
    if (unlink(path) == 0)
        return TIDE_OK;
    return errno == ENOENT ? TIDE_NONE
                           : tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "%s: %s",
                                       path, strerror(errno));
}

tide_status tide_cli_context_use(const char *name, tide_error *err)
{
    char path[TIDE_CLI_CONTEXT_PATH_MAX];
    char line[TIDE_CLI_CONTEXT_NAME_MAX + 2];
    if (!name) {
        TIDE_TRY(remove_file(CURRENT, err));
        return TIDE_OK;
    }
    TIDE_TRY(name_file(path, CURRENT, true, err));
    (void)snprintf(line, sizeof line, "%s\n", name);
    return write_file(path, tide_view_of(line), true, err);
}

tide_status tide_cli_context_remove(const char *name, tide_error *err)
{
    char current[TIDE_CLI_CONTEXT_NAME_MAX + 1] = "";
    tide_error unused = {.status = TIDE_OK};
    TIDE_TRY(tide_cli_context_check_name(name, err));
    if (tide_cli_context_current(current, &unused) == TIDE_OK && strcmp(current, name) == 0)
        TIDE_TRY(tide_cli_context_use(NULL, err));
    return remove_file(name, err);
}

/* ---- the one in force ---- */

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

static bool takes_address(const tide_cli_takes *takes)
{
    return tide_cli_list_has(takes->takes, TIDE_CLI_ADDRESS);
}

static bool is_place_named(const tide_cli_args *words, const tide_cli_takes *takes)
{
    return words->given[TIDE_CLI_STORE] || words->given[TIDE_CLI_ADDRESS] ||
           is_set(tide_cli_options[TIDE_CLI_STORE].environment) ||
           (takes_address(takes) && is_set(tide_cli_options[TIDE_CLI_ADDRESS].environment));
}

static const char *last_use(const tide_cli_args *words, tide_cli_option_id id)
{
    const char *value = NULL;
    for (int i = 0; i < words->use_count; i++)
        if (words->uses[i].id == id)
            value = words->uses[i].value;
    return value;
}

/* TIDE_NONE: no context counts. */
static tide_status choose_name(const tide_cli_args *words, const tide_cli_takes *takes,
                               char out[TIDE_CLI_CONTEXT_NAME_MAX + 1], tide_error *err)
{
    const char *name = last_use(words, TIDE_CLI_CONTEXT);
    if (name && (words->given[TIDE_CLI_STORE] || words->given[TIDE_CLI_ADDRESS]))
        return tide_fail(err, TIDE_E_INVALID, "--context and --%s name two places: give one",
                         words->given[TIDE_CLI_STORE] ? "store" : "address");
    if (!name && is_place_named(words, takes))
        return TIDE_NONE;
    if (!name && is_set(tide_cli_options[TIDE_CLI_CONTEXT].environment))
        name = getenv(tide_cli_options[TIDE_CLI_CONTEXT].environment);
    if (!name)
        return tide_cli_context_current(out, err);
    TIDE_TRY(tide_cli_context_check_name(name, err));
    (void)snprintf(out, TIDE_CLI_CONTEXT_NAME_MAX + 1, "%s", name);
    return TIDE_OK;
}

/* Verbs that serve have a --token-file of another meaning: of a context only its store is for
 * them. */
static void strip_comment(tide_options_file *file, const tide_cli_takes *takes)
{
    if (takes_address(takes))
        return;
    int kept = 0;
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->settings[i].name, tide_cli_options[TIDE_CLI_STORE].name) == 0)
            file->settings[kept++] = file->settings[i];
    file->count = kept;
}

tide_status tide_cli_context_enter(tide_cli_args *words, const tide_cli_takes *takes,
                                   tide_error *err)
{
    char name[TIDE_CLI_CONTEXT_NAME_MAX + 1] = "";
    words->has_bad_value = true; /* what is wrong here is no matter of usage */
    tide_status status = choose_name(words, takes, name, err);
    TIDE_TRY(status);
    if (status == TIDE_OK) {
        TIDE_ALLOC(words->context, 1, err);
        status = tide_cli_context_read(words->context, name, err);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_INVALID,
                             "no context is called '%s': 'tidemark context ls' lists them", name);
        TIDE_TRY(status);
        strip_comment(words->context, takes);
        if (words->context->count == 0)
            return tide_fail(
                err, TIDE_E_INVALID,
                "context '%s' names a service, and this command opens a store: name it "
                "with --store",
                name);
    }
    words->has_bad_value = false;
    return TIDE_OK;
}
