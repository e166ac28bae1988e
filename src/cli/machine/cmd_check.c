/* cmd_check.c - tidemark check lag|gaps|ledger|disk|cert|ready: one probe for a monitoring system.
 *
 *     TIDEMARK LAG WARNING - web-2 is 75.2 s behind; 12 agents | lag=75.2s;60;300;0 behind=310;;;0
 *
 *     0 OK   1 WARNING   2 CRITICAL   3 UNKNOWN: the check itself failed
 *
 * Line, figures and exit codes are those of Nagios and its relatives. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text/timefmt.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/cli.h"
#include "net/client/curl_api.h"
#include "store/url.h"

enum { TIDE_CHECK_FIGURES_MAX = 8, TIDE_CHECK_TEXT_MAX = 512, TIDE_CHECK_LEVEL_MAX = 32 };

typedef enum tide_check_state {
    TIDE_CHECK_OK,
    TIDE_CHECK_WARNING,
    TIDE_CHECK_CRITICAL,
    TIDE_CHECK_UNKNOWN,
} tide_check_state;

typedef struct tide_check_figure {
    const char *label;
    const char *unit; /* "s", "B", "%", "" */
    double value;
    char warning[TIDE_CHECK_LEVEL_MAX]; /* "": none; "30:" alerts below 30 */
    char critical[TIDE_CHECK_LEVEL_MAX];
} tide_check_figure;

typedef struct tide_check {
    tide_cli *cli;
    tide_env *env;
    tide_check_state state;
    char text[TIDE_CHECK_TEXT_MAX];
    tide_check_figure figures[TIDE_CHECK_FIGURES_MAX];
    int figure_count;
} tide_check;

typedef tide_status tide_check_fn(tide_check *check, tide_error *err);

static const char *const state_names[] = {[TIDE_CHECK_OK] = "OK",
                                          [TIDE_CHECK_WARNING] = "WARNING",
                                          [TIDE_CHECK_CRITICAL] = "CRITICAL",
                                          [TIDE_CHECK_UNKNOWN] = "UNKNOWN"};

/* ---- the result ---- */

static void check_raise(tide_check *check, tide_check_state state)
{
    if (state > check->state)
        check->state = state;
}

static void TIDE_PRINTF(2, 3) check_say(tide_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(check->text, sizeof check->text, format, args);
    va_end(args);
}

static tide_check_figure *add_figure(tide_check *check, const char *label, const char *unit,
                                     double value)
{
    tide_check_figure *figure = &check->figures[check->figure_count++];
    *figure = (tide_check_figure){.label = label, .unit = unit, .value = value};
    return figure;
}

/* Only to be known. */
static void check_figure_only(tide_check *check, const char *label, const char *unit, double value)
{
    (void)add_figure(check, label, unit, value);
}

static void check_rising(tide_check *check, const char *label, const char *unit, double value,
                         double warning, double critical)
{
    tide_check_figure *figure = add_figure(check, label, unit, value);
    if (warning >= 0)
        (void)snprintf(figure->warning, sizeof figure->warning, "%.15g", warning);
    if (critical >= 0)
        (void)snprintf(figure->critical, sizeof figure->critical, "%.15g", critical);
    if (critical >= 0 && value >= critical)
        check_raise(check, TIDE_CHECK_CRITICAL);
    else if (warning >= 0 && value >= warning)
        check_raise(check, TIDE_CHECK_WARNING);
}

/* Alerts below them. */
static void check_falling(tide_check *check, const char *label, const char *unit, double value,
                          double warning, double critical)
{
    tide_check_figure *figure = add_figure(check, label, unit, value);
    (void)snprintf(figure->warning, sizeof figure->warning, "%.15g:", warning);
    (void)snprintf(figure->critical, sizeof figure->critical, "%.15g:", critical);
    if (value < critical)
        check_raise(check, TIDE_CHECK_CRITICAL);
    else if (value < warning)
        check_raise(check, TIDE_CHECK_WARNING);
}

/* ---- thresholds ---- */

static tide_status fail_order(bool is_falling, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "--critical must not be %s than --warning",
                     is_falling ? "greater" : "less");
}

static tide_status check_durations(const tide_cli *cli, bool is_falling, int64_t *warning_us,
                                   int64_t *critical_us, tide_error *err)
{
    TIDE_TRY(tide_cli_parse_duration(warning_us, tide_cli_text(cli, TIDE_CLI_WARNING), "--warning",
                                     0, TIDE_CLI_DURATION_MAX, err));
    TIDE_TRY(tide_cli_parse_duration(critical_us, tide_cli_text(cli, TIDE_CLI_CRITICAL),
                                     "--critical", 0, TIDE_CLI_DURATION_MAX, err));
    const bool is_fine = is_falling ? *critical_us <= *warning_us : *warning_us <= *critical_us;
    return is_fine ? TIDE_OK : fail_order(is_falling, err);
}

/* What --warning and --critical say, as durations in microseconds. TIDE_E_INVALID: they are none, or the wrong way round
 * (is_falling: critical is the lower one). */
static tide_status check_numbers(const tide_cli *cli, int64_t *warning, int64_t *critical,
                                 tide_error *err)
{
    TIDE_TRY(tide_cli_parse_number(warning, tide_cli_text(cli, TIDE_CLI_WARNING), "--warning", 0,
                                   INT64_MAX, err));
    return tide_cli_parse_number(critical, tide_cli_text(cli, TIDE_CLI_CRITICAL), "--critical", 0,
                                 INT64_MAX, err);
}

/* ---- the line ---- */

static tide_status print_json(const tide_check *check, const char *name, tide_error *err)
{
    tide_cli_output *out = &check->cli->out;
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "check", name);
    tide_cli_json_text(out, "state", state_names[check->state]);
    tide_cli_json_i64(out, "exit_code", (int64_t)check->state);
    tide_cli_json_text(out, "text", check->text);
    tide_cli_json_array_begin(out, "figures");
    for (int i = 0; i < check->figure_count; i++) {
        const tide_check_figure *figure = &check->figures[i];
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "label", figure->label);
        tide_cli_json_double(out, "value", figure->value);
        tide_cli_json_text(out, "unit", figure->unit);
        tide_cli_json_text(out, "warning", figure->warning[0] ? figure->warning : NULL);
        tide_cli_json_text(out, "critical", figure->critical[0] ? figure->critical : NULL);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
    return tide_cli_json_end(out, err);
}

/* One line; what stands behind the first | is figures, so the words have none. */
static void print_line(tide_check *check, const char *name)
{
    FILE *file = check->cli->out.file;
    for (char *at = check->text; *at; at++)
        if (*at == '|' || *at == '\n')
            *at = ' ';
    tide_cli_print(file, "TIDEMARK %s %s - %s", name, state_names[check->state], check->text);
    for (int i = 0; i < check->figure_count; i++) {
        const tide_check_figure *figure = &check->figures[i];
        (void)fprintf(file, "%s%s=%.15g%s;%s;%s;0", i == 0 ? " | " : " ", figure->label,
                      figure->value, figure->unit, figure->warning, figure->critical);
    }
    (void)fputc('\n', file);
}

static tide_status run_check(tide_cli *cli, const char *name, const char *title, tide_check_fn *fn,
                             tide_error *err)
{
    tide_check check = {.cli = cli, .env = tide_env_system()};
    tide_error why = {.status = TIDE_OK};
    const tide_status status = fn(&check, &why);
    if (status != TIDE_OK) {
        check.state = TIDE_CHECK_UNKNOWN;
        check.figure_count = 0;
        check_say(&check, "%s", why.text[0] ? why.text : tide_status_get(status)->text);
    }
    cli->exit_code = (int)check.state;
    if (cli->out.is_json)
        return print_json(&check, name, err);
    print_line(&check, title);
    return TIDE_OK;
}

/* ---- certificates ---- */

enum { FILE_MAX = 1 << 20, NAME_MAX_LEN = 200, TIMEOUT_S = 10 };

#define DAY_US INT64_C(86400000000)

typedef struct certificates {
    int count;
    int64_t ends_us; /* the first that does */
    int64_t begins_us;
    char name[NAME_MAX_LEN]; /* whose it is */
} certificates;

static int64_t time_of(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) * 1000000 : 0;
}

static void add_certificate(certificates *f, X509 *certificate)
{
    const int64_t ends_us = time_of(X509_get0_notAfter(certificate));
    if (f->count++ > 0 && ends_us >= f->ends_us)
        return;
    f->ends_us = ends_us;
    f->begins_us = time_of(X509_get0_notBefore(certificate));
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, f->name,
                                  sizeof f->name) <= 0)
        (void)snprintf(f->name, sizeof f->name, "a certificate without a name");
}

/* Every certificate in a PEM text. */
static void add_text(certificates *f, tide_view text)
{
    BIO *bio = BIO_new_mem_buf(text.ptr, (int)text.len);
    for (X509 *certificate = NULL;
         bio && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL;) {
        add_certificate(f, certificate);
        X509_free(certificate);
    }
    BIO_free(bio);
}

static tide_status look_at_file(certificates *f, const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(FILE_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    add_text(f, tide_buffer_view(&text));
    explicit_bzero(text.ptr, text.len); /* a key may stand beside it */
    return f->count > 0 ? TIDE_OK
                        : tide_fail(err, TIDE_E_INVALID, "%s holds no certificate (PEM)", path);
}

/* ---- a service ---- */

static void add_chain(certificates *f, const struct curl_certinfo *chain)
{
    static const char key[] = "Cert:";
    for (int i = 0; i < chain->num_of_certs; i++)
        for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
            if (strncmp(line->data, key, sizeof key - 1) == 0)
                add_text(f, tide_view_of(line->data + sizeof key - 1));
}

/* Who it is does not matter here, and nothing is sent: a certificate that has ended is to be seen, too. */
static void prepare(CURL *handle, const tide_cli *cli, const char *url)
{
    const char *cert = tide_cli_text(cli, TIDE_CLI_SERVICE_CERT);
    const char *key = tide_cli_text(cli, TIDE_CLI_SERVICE_KEY);
    (void)curl_easy_setopt(handle, CURLOPT_URL, url);
    (void)curl_easy_setopt(handle, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(handle, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_CERTINFO, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLCERT, cert);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLKEY, key ? key : cert);
}

static tide_status look_at_service(certificates *f, const tide_cli *cli, const char *address,
                                   tide_error *err)
{
    static const char https[] = "https://";
    char url[1024];
    char words[CURL_ERROR_SIZE] = "";
    const bool has_scheme = strncmp(address, https, sizeof https - 1) == 0;
    if (!has_scheme && (strstr(address, "://") || strncmp(address, "unix:", 5) == 0))
        return tide_fail(err, TIDE_E_INVALID, "%s speaks no TLS: it has no certificate", address);
    (void)snprintf(url, sizeof url, "%s%s/", has_scheme ? "" : https, address);
    CURL *handle = curl_easy_init();
    TIDE_NEED_MEMORY(handle, err);
    prepare(handle, cli, url);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, words);
    const CURLcode code = curl_easy_perform(handle);
    struct curl_certinfo *chain = NULL;
    if (code == CURLE_OK && curl_easy_getinfo(handle, CURLINFO_CERTINFO, &chain) == CURLE_OK &&
        chain)
        add_chain(f, chain);
    curl_easy_cleanup(handle);
    if (code != CURLE_OK)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%s: %s", address,
                         words[0] ? words : curl_easy_strerror(code));
    return f->count > 0 ? TIDE_OK
                        : tide_fail(err, TIDE_E_UNAVAILABLE, "%s showed no certificate", address);
}

/* A file if there is one of this name, or if it cannot be an address. */
static bool is_file(const char *target)
{
    return strncmp(target, "https://", 8) != 0 &&
           (access(target, F_OK) == 0 || !strchr(target, ':') || strchr(target, '/'));
}

static tide_status check_cert(tide_check *check, tide_error *err)
{
    int64_t warning_us = 0;
    int64_t critical_us = 0;
    certificates f = {.count = 0};
    const tide_cli *cli = check->cli;
    const char *target = cli->arg_count > 0 ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_ADDRESS);
    TIDE_TRY(check_durations(cli, true, &warning_us, &critical_us, err));
    if (!target)
        return tide_fail(err, TIDE_E_INVALID, "name a PEM file or the HOST:PORT of a service");
    const bool is_from_file = cli->arg_count > 0 && is_file(target);
    TIDE_TRY(is_from_file ? look_at_file(&f, target, err) : look_at_service(&f, cli, target, err));
    const int64_t now_us = check->env->wall_us(check->env);
    const int64_t left_us = f.ends_us - now_us;
    const int64_t left_s = left_us / 1000000;
    check_falling(check, "left", "s", (double)left_s, (double)warning_us / 1e6,
                  (double)critical_us / 1e6);
    if (f.begins_us > now_us)
        check_raise(check, TIDE_CHECK_CRITICAL);
    if (f.begins_us > now_us)
        check_say(check, "%s is not valid before %lld days from now", f.name,
                  (long long)((f.begins_us - now_us) / DAY_US));
    else if (left_us <= 0)
        check_say(check, "%s ended %lld days ago", f.name, (long long)(-left_us / DAY_US));
    else
        check_say(check, "%s ends in %lld days", f.name, (long long)(left_us / DAY_US));
    return TIDE_OK;
}

/* ---- disk ---- */

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

static tide_status check_disk(tide_check *check, tide_error *err)
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
    check_falling(check, "free", "B", free_bytes, (double)(int64_t)warning_bytes,
                  (double)(int64_t)critical_bytes);
    if (warning.percent >= 0 && critical.percent >= 0)
        check_falling(check, "inodes", "%", (double)(int64_t)nodes, (double)warning.percent,
                      (double)critical.percent);
    check_figure_only(check, "store", "B", (double)(size_of(path, "") + size_of(path, "-wal")));
    check_say(check, "%.1f GiB free of %.1f GiB (%.0f %%), inodes %.0f %%: %s",
              free_bytes / (1 << 30), total / (1 << 30), share, nodes, path);
    return TIDE_OK;
}

enum { PAGE = 1000 };

/* ---- lag ---- */

typedef struct slowest {
    const char *agent_id;
    int64_t lag_ms;
    int64_t behind; /* of all */
    size_t away;
    size_t doubtful; /* degraded, or never seen */
    const char *away_id;
    const char *doubtful_id;
    const char *doubtful_health;
} slowest;

static void look_at(slowest *s, const COLONY(FleetLine) * line)
{
    const tide_cli_standing standing = tide_cli_fleet_standing(line);
    s->behind += standing.lag_records;
    if (!s->agent_id || standing.lag_ms > s->lag_ms) {
        s->agent_id = line->agent_id;
        s->lag_ms = standing.lag_ms;
    }
    if (strcmp(line->health, "away") == 0) {
        s->away++;
        s->away_id = line->agent_id;
    } else if (strcmp(line->health, "healthy") != 0) {
        s->doubtful++;
        s->doubtful_id = line->agent_id;
        s->doubtful_health = line->health;
    }
}

static tide_status check_lag(tide_check *check, tide_error *err)
{
    int64_t warning_us = 0;
    int64_t critical_us = 0;
    slowest s = {.agent_id = NULL};
    TIDE_TRY(check_durations(check->cli, false, &warning_us, &critical_us, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    for (size_t i = 0; i < fleet.answer->n_agents; i++)
        look_at(&s, fleet.answer->agents[i]);
    if (!s.agent_id)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no agent is known there");
    check_rising(check, "lag", "s", (double)s.lag_ms / 1000, (double)warning_us / 1e6,
                 (double)critical_us / 1e6);
    check_figure_only(check, "behind", "", (double)s.behind);
    check_figure_only(check, "agents", "", (double)fleet.answer->n_agents);
    check_rising(check, "away", "", (double)s.away, -1, 1);
    check_rising(check, "doubtful", "", (double)s.doubtful, 1, -1);
    if (s.away > 0)
        check_say(check, "%zu of %zu agents away (%s): what they have is not known", s.away,
                  fleet.answer->n_agents, s.away_id);
    else if (s.doubtful > 0 && s.lag_ms < warning_us / 1000)
        check_say(check, "%zu of %zu agents doubtful (%s is %s): what they have is not known",
                  s.doubtful, fleet.answer->n_agents, s.doubtful_id, s.doubtful_health);
    else
        check_say(check, "%s is %.1f s behind; %zu agents", s.agent_id, (double)s.lag_ms / 1000,
                  fleet.answer->n_agents);
    return TIDE_OK;
}

/* ---- gaps ---- */

static int64_t count_numbers(const COLONY(Gap) * gap)
{
    return (int64_t)(gap->end_seq_id - gap->start_seq_id) + 1;
}

/* Numbers lost since then, but for those that somebody has given up by hand. */
static tide_status count_lost(tide_cli_colony *colony, int64_t since_us, int64_t *lost,
                              tide_error *err)
{
    char permanent[] = "permanent";
    char *statuses[] = {permanent};
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    request.statuses = statuses;
    request.n_statuses = 1;
    request.limit = PAGE;
    for (bool has_more = true; has_more;) {
        ProtobufCMessage *message = NULL;
        TIDE_TRY(tide_cli_colony_call(colony, "ListGaps", &request.base,
                                      &tidemark__colony__v1__list_gaps_response__descriptor,
                                      &message, err));
        const COLONY(ListGapsResponse) *page = (COLONY(ListGapsResponse) *)message;
        for (size_t i = 0; i < page->n_gaps; i++) {
            const COLONY(Gap) *gap = page->gaps[i];
            request.after_id = gap->id;
            if (gap->settled_at >= since_us && strcmp(gap->reason, "operator") != 0)
                *lost += count_numbers(gap);
        }
        has_more = page->more && page->n_gaps > 0;
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return TIDE_OK;
}

static tide_status check_gaps(tide_check *check, tide_error *err)
{
    int64_t warning = 0;
    int64_t critical = 0;
    int64_t since_us = 0;
    int64_t lost = 0;
    TIDE_TRY(check_numbers(check->cli, &warning, &critical, err));
    TIDE_TRY(
        tide_cli_time(check->cli, TIDE_CLI_SINCE, check->env->wall_us(check->env), &since_us, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    TIDE_TRY(count_lost(&fleet.colony, since_us, &lost, err));
    check_rising(check, "open", "", (double)fleet.answer->open_gaps, (double)warning, -1);
    check_rising(check, "lost", "", (double)lost, -1, (double)critical);
    check_say(check, "%" PRIu64 " numbers in open gaps, %" PRId64 " lost since %s",
              (uint64_t)fleet.answer->open_gaps, lost, tide_cli_text(check->cli, TIDE_CLI_SINCE));
    return TIDE_OK;
}

/* ---- ledger ---- */

static tide_status check_ledger(tide_check *check, tide_error *err)
{
    int64_t warning = 0;
    int64_t critical = 0;
    TIDE_TRY(check_numbers(check->cli, &warning, &critical, err));
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(check->cli, &fleet, err));
    check_rising(check, "unexplained", "", (double)fleet.answer->unexplained, (double)warning,
                 (double)critical);
    check_figure_only(check, "pending", "", (double)fleet.answer->pending);
    check_figure_only(check, "lost", "", (double)fleet.answer->lost);
    check_say(check, "%" PRIu64 " numbers unexplained, %" PRIu64 " pending, %" PRIu64 " lost",
              (uint64_t)fleet.answer->unexplained, (uint64_t)fleet.answer->pending,
              (uint64_t)fleet.answer->lost);
    return TIDE_OK;
}

/* ---- readiness ---- */

enum { READY_TIMEOUT_S = 10, HTTP_OK = 200, HTTP_UNAVAILABLE = 503 };

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type */
static size_t drop(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * count;
}

/* The probe sends no credentials, so the service's certificate is checked only against an authority
 * that is given: a service that listens on 127.0.0.1 seldom has a certificate for that. */
static void prepare_ready(CURL *handle, const tide_cli *cli, const char *address)
{
    static const char local[] = "unix:";
    const char *ca = tide_cli_text(cli, TIDE_CLI_SERVICE_CA);
    const char *cert = tide_cli_text(cli, TIDE_CLI_SERVICE_CERT);
    const char *key = tide_cli_text(cli, TIDE_CLI_SERVICE_KEY);
    char url[1024];
    if (strncmp(address, local, sizeof local - 1) == 0) {
        (void)curl_easy_setopt(handle, CURLOPT_UNIX_SOCKET_PATH, address + sizeof local - 1);
        (void)snprintf(url, sizeof url, "http://localhost/readyz");
    } else {
        const char *scheme = strstr(address, "://") ? "" : ca || cert ? "https://" : "http://";
        (void)snprintf(url, sizeof url, "%s%s/readyz", scheme, address);
    }
    (void)curl_easy_setopt(handle, CURLOPT_URL, url); /* copied */
    (void)curl_easy_setopt(handle, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)READY_TIMEOUT_S);
    (void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, drop);
    if (ca)
        (void)curl_easy_setopt(handle, CURLOPT_CAINFO, ca);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, ca ? 1L : 0L);
    (void)curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, ca ? 2L : 0L);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLCERT, cert);
    if (cert)
        (void)curl_easy_setopt(handle, CURLOPT_SSLKEY, key ? key : cert);
}

static tide_status check_ready(tide_check *check, tide_error *err)
{
    const tide_cli *cli = check->cli;
    const char *address = cli->arg_count > 0 ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_ADDRESS);
    if (!address)
        return tide_fail(err, TIDE_E_INVALID, "no service given; name its HOST:PORT");
    CURL *handle = curl_easy_init();
    TIDE_NEED_MEMORY(handle, err);
    char words[CURL_ERROR_SIZE] = "";
    long answer = 0;
    double seconds = 0;
    prepare_ready(handle, cli, address);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, words);
    const CURLcode code = curl_easy_perform(handle);
    (void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer);
    (void)curl_easy_getinfo(handle, CURLINFO_TOTAL_TIME, &seconds);
    curl_easy_cleanup(handle);
    if (code != CURLE_OK || answer != HTTP_OK)
        check_raise(check, TIDE_CHECK_CRITICAL);
    if (code != CURLE_OK)
        check_say(check, "%s: %s", address, words[0] ? words : curl_easy_strerror(code));
    else if (answer == HTTP_OK)
        check_say(check, "%s is ready", address);
    else if (answer == HTTP_UNAVAILABLE)
        check_say(check, "%s is not ready", address);
    else
        check_say(check, "%s answers /readyz with %ld", address, answer);
    check_figure_only(check, "time", "s", seconds);
    return TIDE_OK;
}

/* ---- verbs ---- */

static tide_status run_lag(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "lag", "LAG", check_lag, err);
}

static tide_status run_gaps(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "gaps", "GAPS", check_gaps, err);
}

static tide_status run_ledger(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "ledger", "LEDGER", check_ledger, err);
}

static tide_status run_disk(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "disk", "DISK", check_disk, err);
}

static tide_status run_cert(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "cert", "CERT", check_cert, err);
}

static tide_status run_ready(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "ready", "READY", check_ready, err);
}

#define LEVELS(what_, warning_, critical_, help_)                                                  \
    {.id = TIDE_CLI_WARNING,                                                                       \
     .value = (what_),                                                                             \
     .fallback = (warning_),                                                                       \
     .help = "a warning " help_},                                                                  \
    {                                                                                              \
        .id = TIDE_CLI_CRITICAL, .value = (what_), .fallback = (critical_),                        \
        .help = "critical " help_                                                                  \
    }

static const tide_cli_verb verbs[] = {
    {.name = "lag",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN, LEVELS("DURATION", "1m", "5m", "from this lag of an agent on")),
     .summary = "how far the colony is behind its agents",
     .details = "The age of the oldest record that was not read, of the slowest agent. What an "
                "agent has that is away is\n"
                "not known: critical. One that is degraded or was never seen is a warning.",
     .run = run_lag},
    {.name = "gaps",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, SINCE, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN,
         {.id = TIDE_CLI_WARNING,
          .value = "N",
          .fallback = "1",
          .help = "a warning from so many numbers in open gaps on"},
         {.id = TIDE_CLI_CRITICAL,
          .value = "N",
          .fallback = "1",
          .help = "critical from so many numbers on that were lost since --since"},
         {.id = TIDE_CLI_SINCE, .fallback = "24h"}),
     .summary = "numbers in open gaps, and numbers lost",
     .details = "What an operator has accepted or skipped does not count as lost.",
     .run = run_gaps},
    {.name = "ledger",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     LEVELS("N", "1", "1", "from so many unexplained numbers on")),
     .summary = "numbers that the colony's ledger does not explain",
     .run = run_ledger},
    {.name = "disk",
     .arguments = "[PATH]",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL),
     .overrides = TIDE_CLI_OVERRIDES(
         LEVELS("FREE", "20%", "10%", "with less free than this: 20% or a size like 5GiB")),
     .summary = "free space where a store's file is, or PATH",
     .run = run_disk},
    {.name = "cert",
     .arguments = "[FILE|ADDR]",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     LEVELS("DURATION", "30d", "7d", "when it ends within this")),
     .summary = "until a certificate ends: of a PEM file, or of the service at HOST:PORT",
     .details = "Of several in a file the first that ends counts. Without an argument: the service "
                "of --address.",
     .run = run_cert},
    {.name = "ready",
     .arguments = "[ADDR]",
     .takes = TIDE_CLI_LIST(ADDRESS, SERVICE_CA, SERVICE_CERT, SERVICE_KEY),
     .summary = "whether the service at HOST:PORT is ready, as a container's health check asks",
     .details = "GET /readyz. A service that does not answer, or answers anything but 200, is "
                "critical. No token is sent,\n"
                "and a certificate is checked only with --service-ca. Without an argument: the "
                "service of --address.",
     .run = run_ready},
    {.name = NULL},
};

const tide_cli_command tide_cli_check = {
    .name = "check",
    .summary = "For monitoring: one line, figures, exit code 0, 1, 2 or 3.",
    .verbs = verbs,
    .failure_exit = TIDE_CHECK_UNKNOWN,
};
