/* cmd_doctor.c - tidemark doctor: is this machine, and this store, fit to keep a promise? */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/machine/doctor.h"
#include "store/url.h"

typedef struct level_row {
    const char *name;
    tide_cli_style style;
} level_row;

static const level_row levels[] = {
    [TIDE_DOCTOR_OK] = {"ok", TIDE_CLI_GREEN},
    [TIDE_DOCTOR_WARN] = {"warn", TIDE_CLI_YELLOW},
    [TIDE_DOCTOR_BAD] = {"bad", TIDE_CLI_RED},
};

void tide_doctor_tell(tide_doctor *doctor, tide_doctor_level level, const char *what,
                      const char *advice, const char *format, ...)
{
    char found[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(found, sizeof found, format, args);
    va_end(args);
    if (level == TIDE_DOCTOR_BAD)
        doctor->bad_count++;
    tide_cli_output *out = &doctor->cli->out;
    if (!out->is_json) {
        tide_cli_print_styled(out, levels[level].style, levels[level].name);
        tide_cli_print(out->file, "%*s%-16s %s%s%s\n", (int)(6 - strlen(levels[level].name)), "",
                       what, found, *advice ? "; " : "", advice);
        return;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "level", levels[level].name);
    tide_cli_json_text(out, "check", what);
    tide_cli_json_text(out, "found", found);
    tide_cli_json_text(out, "advice", advice);
    if (doctor->failure >= TIDE_OK)
        doctor->failure = tide_cli_json_end(out, &doctor->error);
}

/* ---- the store itself ---- */

static tide_status read_clock(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_now(tx, arg, err);
}

/* Only to be known: no decision subtracts one machine's clock from another's. */
static void tell_clock_difference(tide_doctor *doctor, tide_store *store)
{
    int64_t server_us = 0;
    const int64_t before_us = doctor->env->wall_us(doctor->env);
    tide_error err = {.status = TIDE_OK};
    if (tide_store_read_local(store, read_clock, &server_us, &err) < TIDE_OK)
        return;
    const int64_t after_us = doctor->env->wall_us(doctor->env);
    const int64_t middle_us = before_us + (after_us - before_us) / 2;
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "server clock", "",
                     "%+" PRId64 " ms against this machine; only the server's counts",
                     (server_us - middle_us) / 1000);
}

typedef struct mode {
    char commit[64];
    char pooler[64];
    char identity[160];
    char lag_bytes[32];
    char lag_seconds[32];
} mode;

static void note_fact(void *arg, const char *name, const char *value)
{
    mode *found = arg;
    const struct {
        const char *name;
        char *out;
        size_t size;
    } facts[] = {{"commit_mode", found->commit, sizeof found->commit},
                 {"pooler", found->pooler, sizeof found->pooler},
                 {"identity", found->identity, sizeof found->identity},
                 {"standby_lag_bytes", found->lag_bytes, sizeof found->lag_bytes},
                 {"standby_lag_seconds", found->lag_seconds, sizeof found->lag_seconds}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (strcmp(facts[i].name, name) == 0)
            (void)snprintf(facts[i].out, facts[i].size, "%s", value);
}

/* How commits reach the disk, and by what the store is known. */
static void tell_mode(tide_doctor *doctor, tide_store *store)
{
    mode found = {.commit = ""};
    tide_error err = {.status = TIDE_OK};
    if (tide_store_describe(store, note_fact, &found, &err) < TIDE_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "commit mode", "", "%s", err.text);
        return;
    }
    const bool is_reduced = strncmp(found.identity, "reduced", 7) == 0;
    const bool is_pooled = strcmp(found.pooler, "none") != 0;
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "commit mode",
                     is_pooled ? "a direct connection shares flushes, and is faster" : "", "%s",
                     found.commit);
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "pooler", "", "%s", found.pooler);
    tide_doctor_tell(doctor, is_reduced ? TIDE_DOCTOR_WARN : TIDE_DOCTOR_OK, "identity",
                     is_reduced ? "grant the functions that are named under privileges" : "", "%s",
                     found.identity);
    if (found.lag_bytes[0])
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "standby lag", "", "%s bytes, %s s",
                         found.lag_bytes, found.lag_seconds);
}

static void check_store(tide_doctor *doctor, tide_engine engine)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    tide_error err = {.status = TIDE_OK};
    const tide_status status = tide_cli_open_store(doctor->cli, &store, TIDE_STORE_AS_IS, &err);
    if (status == TIDE_E_NOT_FOUND) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "store", "", "none yet; it is made on first use");
        return;
    }
    if (status < TIDE_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "store", tide_status_get(status)->next, "%s",
                         err.text);
        return;
    }
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "store", "'tidemark store verify' reads all of it",
                     "%s can be opened", tide_store_name(store));
    if (engine == TIDE_ENGINE_POSTGRES) {
        tell_clock_difference(doctor, store);
        tell_mode(doctor, store);
    }
}

static tide_status examine(tide_cli *cli, tide_error *err)
{
    tide_store_url url;
    TIDE_TRY(tide_store_url_parse(&url, tide_cli_text(cli, TIDE_CLI_STORE), err));
    tide_doctor doctor = {.cli = cli, .env = tide_env_system()};
    tide_doctor_check_libraries(&doctor);
    tide_doctor_check_clock(&doctor);
    bool can_open = true;
    switch (url.engine) {
    case TIDE_ENGINE_SQLITE:
        tide_doctor_check_state_directory(&doctor);
        tide_doctor_check_directory(&doctor, url.target);
        tide_doctor_check_file(&doctor, url.target);
        break;
    case TIDE_ENGINE_POSTGRES:
        tide_doctor_check_state_directory(&doctor);
        can_open = tide_doctor_check_server(&doctor, url.target);
        break;
    }
    if (can_open)
        check_store(&doctor, url.engine);
    if (doctor.failure < TIDE_OK)
        return tide_fail(err, doctor.failure, "%s", doctor.error.text);
    if (doctor.bad_count == 0)
        return TIDE_OK;
    cli->is_told = true; /* line by line */
    return tide_fail(err, TIDE_E_FAILED, "%d checks are bad", doctor.bad_count);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .summary = "check versions, disk, clock and permissions around a store",
     .details =
         "One line per check: ok, warn or bad, what was found, what to do. Ends with 1 when "
         "something is\n"
         "bad. Nothing is changed; the sync check writes to a nameless file beside the store.",
     .run = examine},
    {.name = NULL},
};

const tide_cli_command tide_cli_doctor = {
    .name = "doctor",
    .summary = "check versions, disk, clock and permissions around a store",
    .verbs = verbs,
};
