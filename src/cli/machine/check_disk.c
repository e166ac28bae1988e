/* check_disk.c - tidemark check disk: room for a store to grow. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/text/timefmt.h"
#include "cli/machine/check.h"
#include "store/url.h"

/* 20% of what there is, or a size. */
typedef struct level {
    int64_t bytes;
    int64_t percent; /* -1: a size */
} level;

static tide_status read_level(const char *text, const char *what, level *out, tide_error *err)
{
    char number[8];
    const size_t len = strlen(text);
    *out = (level){.percent = -1};
    if (len > 1 && len <= sizeof number && text[len - 1] == '%') {
        (void)snprintf(number, sizeof number, "%.*s", (int)len - 1, text);
        return tide_cli_parse_number(&out->percent, number, what, 0, 100, err);
    }
    return tide_size_parse(&out->bytes, text) < TIDE_OK
               ? tide_fail(err, TIDE_E_INVALID, "%s '%s' is neither like 20%% nor a size like 5GiB",
                           what, text)
               : TIDE_OK;
}

/* The path of the file that holds the store. */
static tide_status find_path(const tide_cli *cli, char out[PATH_MAX], tide_error *err)
{
    static const char duckdb[] = "duckdb:";
    const char *url = tide_cli_text(cli, TIDE_CLI_STORE);
    if (cli->arg_count > 0) {
        (void)snprintf(out, PATH_MAX, "%s", cli->args[0]);
        return TIDE_OK;
    }
    tide_store_url parsed = {.target = url + sizeof duckdb - 1};
    if (strncmp(url, duckdb, sizeof duckdb - 1) != 0) {
        TIDE_TRY(tide_store_url_parse(&parsed, url, err));
        if (parsed.engine == TIDE_ENGINE_POSTGRES)
            return tide_fail(err, TIDE_E_UNSUPPORTED,
                             "a PostgreSQL store's disk is the server's: check the data directory "
                             "there, by its PATH");
    }
    (void)snprintf(out, PATH_MAX, "%s", parsed.target);
    return TIDE_OK;
}

static int64_t size_of(const char *path, const char *suffix)
{
    char name[PATH_MAX];
    struct stat found;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &found) == 0 && S_ISREG(found.st_mode) ? (int64_t)found.st_size : 0;
}

tide_status tide_check_disk(tide_check *check, tide_error *err)
{
    char path[PATH_MAX];
    level warning;
    level critical;
    struct statvfs found;
    TIDE_TRY(read_level(tide_cli_text(check->cli, TIDE_CLI_WARNING), "--warning", &warning, err));
    TIDE_TRY(
        read_level(tide_cli_text(check->cli, TIDE_CLI_CRITICAL), "--critical", &critical, err));
    TIDE_TRY(find_path(check->cli, path, err));
    if (statvfs(path, &found) != 0)
        return tide_fail(err, errno == ENOENT ? TIDE_E_NOT_FOUND : TIDE_E_IO, "%s: %s", path,
                         strerror(errno));
    const double total = (double)found.f_blocks * (double)found.f_frsize;
    const double free_bytes = (double)found.f_bavail * (double)found.f_frsize;
    const double share = total > 0 ? 100 * free_bytes / total : 0;
    const double nodes =
        found.f_files > 0 ? 100 * (double)found.f_favail / (double)found.f_files : 100;
    const double warning_bytes =
        warning.percent >= 0 ? total * (double)warning.percent / 100 : (double)warning.bytes;
    const double critical_bytes =
        critical.percent >= 0 ? total * (double)critical.percent / 100 : (double)critical.bytes;
    if (critical_bytes > warning_bytes)
        return tide_fail(err, TIDE_E_INVALID, "--critical must not be greater than --warning");
    tide_check_falling(check, "free", "B", free_bytes, (double)(int64_t)warning_bytes,
                       (double)(int64_t)critical_bytes);
    if (warning.percent >= 0 && critical.percent >= 0)
        tide_check_falling(check, "inodes", "%", (double)(int64_t)nodes, (double)warning.percent,
                           (double)critical.percent);
    tide_check_figure_only(check, "store", "B",
                           (double)(size_of(path, "") + size_of(path, "-wal")));
    tide_check_say(check, "%.1f GiB free of %.1f GiB (%.0f %%), inodes %.0f %%: %s",
                   free_bytes / (1 << 30), total / (1 << 30), share, nodes, path);
    return TIDE_OK;
}
