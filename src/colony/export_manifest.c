/* The manifest: lines of tab-separated fields, appended and synced.
 *
 *     planned|written  data_type  agent  session  epoch  first  last  rows  bytes  late|-  missing
 *
 * Names are percent-encoded. missing: numbers of a written range that have no row, "4-4,9-12": what comes late there is exported late. At most 1000
 * intervals: a file ends before there are more. A line counts when its newline is there. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"
#include "colony/export_parts.h"

enum { FIELDS = 11, LINE_MAX_LEN = 64 << 10, MANIFEST_MAX = 256 << 20, NAME_CODED_SIZE = 400 };

static const char title[] = "# tidemark export 1\n";

/* ---- names ---- */

static bool is_plain(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || (c == '.' && !is_first);
}

/* Safe as a file's name and as a field. */
static void encode_name(char out[NAME_CODED_SIZE], const char *name)
{
    size_t at = 0;
    for (size_t i = 0; name[i] && at + 4 < NAME_CODED_SIZE; i++) {
        if (is_plain(name[i], i == 0))
            out[at++] = name[i];
        else
            at += (size_t)snprintf(out + at, 4, "%%%02X", (unsigned)(unsigned char)name[i]);
    }
    out[at] = '\0';
}

static bool decode_name(char *out, size_t size, const char *coded)
{
    size_t at = 0;
    for (; *coded && at + 1 < size; coded++) {
        char byte = *coded;
        if (*coded == '%') {
            if (!coded[1] || !coded[2])
                return false;
            const char digits[] = {coded[1], coded[2], '\0'};
            char *end = NULL;
            byte = (char)strtoul(digits, &end, 16);
            if (*end != '\0')
                return false;
            coded += 2;
        }
        out[at++] = byte;
    }
    out[at] = '\0';
    return *coded == '\0';
}

tide_status tide_export_path(char out[TIDE_EXPORT_NAME_SIZE], const char *dir,
                             const tide_export_range *range, tide_error *err)
{
    char agent[NAME_CODED_SIZE];
    char session[NAME_CODED_SIZE];
    char type[NAME_CODED_SIZE];
    encode_name(agent, range->agent_id);
    encode_name(session, range->session_id);
    encode_name(type, range->data_type);
    const tide_colony_type *known = tide_colony_type_find(range->data_type);
    const bool is_users = known->stream->kind == TIDE_STREAM_OPAQUE;
    const int len = snprintf(out, TIDE_EXPORT_NAME_SIZE,
                             "%s/%s%s/%s/%s-%" PRId64 "-%019" PRId64 "-%019" PRId64 ".parquet", dir,
                             is_users ? "records/" : "", is_users ? type : known->table, agent,
                             session, range->epoch, range->first_seq, range->last_seq);
    if (len < 0 || len >= TIDE_EXPORT_NAME_SIZE)
        return tide_fail(err, TIDE_E_INVALID, "the path of a file in %s is too long", dir);
    return TIDE_OK;
}

/* ---- sources ---- */

static bool is_source(const tide_export_source *source, const char *data_type, const char *agent_id,
                      const char *session_id, int64_t epoch)
{
    return source->epoch == epoch && strcmp(source->agent_id, agent_id) == 0 &&
           strcmp(source->data_type, data_type) == 0 && strcmp(source->session_id, session_id) == 0;
}

tide_status tide_manifest_source(tide_manifest *manifest, const char *data_type,
                                 const char *agent_id, const char *session_id, int64_t epoch,
                                 tide_export_source **out, tide_error *err)
{
    /* The newest sources are asked for most. */
    for (int i = manifest->count - 1; i >= 0; i--) {
        if (is_source(&manifest->sources[i], data_type, agent_id, session_id, epoch)) {
            *out = &manifest->sources[i];
            return TIDE_OK;
        }
    }
    TIDE_TRY(tide_list_room(&manifest->sources, manifest->count, sizeof *manifest->sources,
                            TIDE_LIST_MAX, err));
    tide_export_source *source = &manifest->sources[manifest->count++];
    *source = (tide_export_source){.epoch = epoch};
    (void)snprintf(source->data_type, sizeof source->data_type, "%s", data_type);
    (void)snprintf(source->agent_id, sizeof source->agent_id, "%s", agent_id);
    (void)snprintf(source->session_id, sizeof source->session_id, "%s", session_id);
    tide_cursor_init(&source->done, 0, TIDE_CURSOR_HOLES_USUAL);
    *out = source;
    return TIDE_OK;
}

/* Numbers first..last are done, apart from those that are missing. Where there are too many holes to be remembered, older
 * ones are forgotten: what comes late in them is not noticed. */
static void mark_done(tide_export_source *source, const tide_export_range *range,
                      const tide_interval *missing, int count)
{
    int64_t next = range->first_seq;
    for (int i = 0; i <= count; i++) {
        const int64_t last = i < count ? missing[i].first - 1 : range->last_seq;
        if (next <= last && tide_cursor_add(&source->done, next, last, NULL, NULL) < TIDE_OK)
            (void)tide_cursor_raise(&source->done, last);
        next = i < count ? missing[i].last + 1 : next;
    }
    if (range->last_seq > source->through)
        source->through = range->last_seq;
}

static tide_status take(tide_manifest *manifest, const tide_export_range *range,
                        const tide_interval *missing, int count, tide_error *err)
{
    tide_export_source *source = NULL;
    TIDE_TRY(tide_manifest_source(manifest, range->data_type, range->agent_id, range->session_id,
                                  range->epoch, &source, err));
    assert(source);
    source->has_plan = !range->is_written;
    source->plan = *range;
    if (range->is_written)
        mark_done(source, range, missing, count);
    return TIDE_OK;
}

/* ---- lines ---- */

static bool read_missing(const char *text, tide_interval *out, int *count)
{
    *count = 0;
    if (strcmp(text, "-") == 0)
        return true;
    for (const char *at = text; *at;) {
        char *end = NULL;
        if (*count == TIDE_EXPORT_MISSING_MAX)
            return false;
        tide_interval *interval = &out[(*count)++];
        interval->first = strtoll(at, &end, 10);
        if (end == at || *end != '-')
            return false;
        at = end + 1;
        interval->last = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || interval->first < 1 ||
            interval->last < interval->first)
            return false;
        at = *end ? end + 1 : end;
    }
    return true;
}

static bool read_number(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= 0;
}

static bool read_line(char *line, tide_export_range *out, tide_interval *missing, int *count)
{
    char *fields[FIELDS];
    int n = 0;
    for (char *at = line; at && n < FIELDS; n++)
        fields[n] = strsep(&at, "\t");
    *out = (tide_export_range){.is_written = n == FIELDS && strcmp(fields[0], "written") == 0};
    return n == FIELDS && (out->is_written || strcmp(fields[0], "planned") == 0) &&
           decode_name(out->data_type, sizeof out->data_type, fields[1]) &&
           decode_name(out->agent_id, sizeof out->agent_id, fields[2]) &&
           decode_name(out->session_id, sizeof out->session_id, fields[3]) &&
           read_number(fields[4], &out->epoch) && read_number(fields[5], &out->first_seq) &&
           read_number(fields[6], &out->last_seq) && read_number(fields[7], &out->rows) &&
           read_number(fields[8], &out->bytes) && out->first_seq >= 1 &&
           out->last_seq >= out->first_seq &&
           ((out->is_late = strcmp(fields[9], "late") == 0) || strcmp(fields[9], "-") == 0) &&
           read_missing(fields[10], missing, count);
}

typedef tide_status line_fn(void *arg, const tide_export_range *range, const tide_interval *missing,
                            int count, tide_error *err);

/* Each whole line; *whole is where they end. */
static tide_status read_lines(char *text, const char *dir, line_fn *fn, void *arg, size_t *whole,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    tide_interval *missing = calloc(TIDE_EXPORT_MISSING_MAX + 1, sizeof *missing);
    TIDE_NEED_MEMORY(missing, err);
    char *at = text;
    int number = 1;
    for (char *end; (end = strchr(at, '\n')); at = end + 1, number++) {
        *end = '\0';
        if (*at == '#')
            continue;
        tide_export_range range;
        int count = 0;
        if (!read_line(at, &range, missing, &count))
            return tide_fail(err, TIDE_E_DAMAGED, "%s/manifest.tsv: line %d cannot be read", dir,
                             number);
        TIDE_TRY(fn(arg, &range, missing, count, err));
    }
    *whole = (size_t)(at - text);
    return TIDE_OK;
}

/* ---- a run's manifest ---- */

static tide_status take_line(void *arg, const tide_export_range *range,
                             const tide_interval *missing, int count, tide_error *err)
{
    return take(arg, range, missing, count, err);
}

static tide_status lock(tide_manifest *manifest, tide_error *err)
{
    char path[TIDE_EXPORT_NAME_SIZE];
    (void)snprintf(path, sizeof path, "%s/lock", manifest->dir);
    manifest->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (manifest->lock_fd < 0)
        return tide_fail(err, TIDE_E_IO, "cannot open %s: %s", path, strerror(errno));
    if (flock(manifest->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return tide_fail(err, TIDE_E_BUSY, "another export into %s is under way", manifest->dir);
    return TIDE_OK;
}

static tide_status load(tide_manifest *manifest, const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(MANIFEST_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    size_t whole = 0;
    if (text.len > 0)
        TIDE_TRY(read_lines(text.ptr, manifest->dir, take_line, manifest, &whole, err));
    if (whole < text.len && ftruncate(manifest->fd, (off_t)whole) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot cut %s: %s", path, strerror(errno));
    if (whole == 0 && write(manifest->fd, title, sizeof title - 1) != sizeof title - 1)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", path, strerror(errno));
    return TIDE_OK;
}

tide_status tide_manifest_open(tide_manifest *out, const char *dir, tide_error *err)
{
    *out = (tide_manifest){.dir = dir, .fd = -1, .lock_fd = -1};
    TIDE_TRY(lock(out, err));
    char path[TIDE_EXPORT_NAME_SIZE];
    (void)snprintf(path, sizeof path, "%s/manifest.tsv", dir);
    out->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out->fd < 0)
        return tide_fail(err, TIDE_E_IO, "cannot open %s: %s", path, strerror(errno));
    return load(out, path, err);
}

void tide_manifest_close(tide_manifest *manifest)
{
    for (int i = 0; i < manifest->count; i++)
        tide_cursor_done(&manifest->sources[i].done);
    free(manifest->sources);
    if (manifest->fd >= 0)
        (void)close(manifest->fd);
    if (manifest->lock_fd >= 0)
        (void)close(manifest->lock_fd);
    *manifest = (tide_manifest){.fd = -1, .lock_fd = -1};
}

static tide_status put_missing(tide_buffer *line, const tide_interval *missing, int count)
{
    if (count == 0)
        return tide_buffer_append_byte(line, '-');
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_buffer_printf(line, "%s%" PRId64 "-%" PRId64, i > 0 ? "," : "",
                                    missing[i].first, missing[i].last));
    return TIDE_OK;
}

static tide_status make_line(tide_buffer *line, const tide_export_range *range,
                             const tide_interval *missing, int count)
{
    char type[NAME_CODED_SIZE];
    char agent[NAME_CODED_SIZE];
    char session[NAME_CODED_SIZE];
    encode_name(type, range->data_type);
    encode_name(agent, range->agent_id);
    encode_name(session, range->session_id);
    TIDE_TRY(tide_buffer_printf(line,
                                "%s\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64
                                "\t%" PRId64 "\t%s\t",
                                range->is_written ? "written" : "planned", type, agent, session,
                                range->epoch, range->first_seq, range->last_seq, range->rows,
                                range->bytes, range->is_late ? "late" : "-"));
    TIDE_TRY(put_missing(line, missing, count));
    return tide_buffer_append_byte(line, '\n');
}

tide_status tide_manifest_note(tide_manifest *manifest, const tide_export_range *range,
                               const tide_interval *missing, int missing_count, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer line = tide_buffer_of(LINE_MAX_LEN);
    if (make_line(&line, range, missing, missing_count) < TIDE_OK)
        return tide_no_memory(err);
    /* Half a line, after a full disk, has no newline and is cut off by the next run. */
    if (write(manifest->fd, line.ptr, line.len) != (ssize_t)line.len || fsync(manifest->fd) != 0)
        return tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_IO,
                         "cannot write %s/manifest.tsv: %s", manifest->dir, strerror(errno));
    return take(manifest, range, missing, missing_count, err);
}

/* ---- looking ---- */

typedef struct listing {
    const char *dir;
    tide_export_fn *fn;
    void *arg;
} listing;

static tide_status list_line(void *arg, const tide_export_range *range,
                             const tide_interval *missing, int count, tide_error *err)
{
    const listing *l = arg;
    (void)missing;
    (void)count;
    char path[TIDE_EXPORT_NAME_SIZE];
    TIDE_TRY(tide_export_path(path, l->dir, range, err));
    return l->fn(l->arg, range, path, err);
}

tide_status tide_export_list(const char *dir, tide_export_fn *fn, void *arg, tide_error *err)
{
    char path[TIDE_EXPORT_NAME_SIZE];
    (void)snprintf(path, sizeof path, "%s/manifest.tsv", dir);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(MANIFEST_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    listing l = {.dir = dir, .fn = fn, .arg = arg};
    size_t whole = 0;
    return text.len > 0 ? read_lines(text.ptr, dir, list_line, &l, &whole, err) : TIDE_OK;
}
