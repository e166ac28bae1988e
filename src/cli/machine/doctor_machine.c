/* doctor_machine.c - libraries, clocks, and where this host keeps its own notes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/machine/doctor.h"
#include "store/duckdb/duckdb.h"
#include "store/engine.h"
#include "store/identity_marker.h"
#include "store/postgres/pq_library.h"

#define YEAR_2024_US INT64_C(1704067200000000)

enum {
    LIBPQ_LEAST = 140000, /* pipelines */
    LIBPQ_MAJOR = 10000,
};

/* SQLite releases that must not hold a store. */
typedef struct bad_release {
    int from;
    int until; /* the first that is sound again */
    const char *why;
} bad_release;

static const bad_release bad_sqlite[] = {
    {0, 3051003, "has the WAL-reset bug, which can damage a file that several connections write"},
};

static void check_sqlite(tide_doctor *doctor)
{
    const int version = tide_sqlite_version_number();
    for (size_t i = 0; i < sizeof bad_sqlite / sizeof bad_sqlite[0]; i++) {
        if (version >= bad_sqlite[i].from && version < bad_sqlite[i].until) {
            tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "sqlite",
                             "build with -Dsqlite=bundled, or with 3.51.3 or later", "%s %s",
                             tide_sqlite_version(), bad_sqlite[i].why);
            return;
        }
    }
    if (strcmp(tide_sqlite_version(), tide_sqlite_version_built()) != 0)
        tide_doctor_tell(
            doctor, TIDE_DOCTOR_WARN, "sqlite", "build tidemark against the library it runs with",
            "%s at run time, %s at build time", tide_sqlite_version(), tide_sqlite_version_built());
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "sqlite", "",
                         "%s, no known fault that concerns a store", tide_sqlite_version());
}

/* Only a postgres:// store needs it; there, the check of the server is bad as well. */
static void check_libpq(tide_doctor *doctor)
{
    tide_error err;
    if (tide_pq_load(&err) < TIDE_OK) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "libpq",
                         "needed for postgres:// stores alone: install it, or name its file in "
                         "TIDEMARK_LIBPQ",
                         "%s", err.text);
        return;
    }
    const int version = tide_pq.libVersion();
    const bool is_fit = version >= LIBPQ_LEAST;
    tide_doctor_tell(doctor, is_fit ? TIDE_DOCTOR_OK : TIDE_DOCTOR_BAD, "libpq",
                     is_fit ? "" : "14 or later is needed", "%d.%d", version / LIBPQ_MAJOR,
                     version % LIBPQ_MAJOR);
}

/* Only lakes and duckdb: stores need it. */
static void check_duckdb(tide_doctor *doctor)
{
    const char *version = NULL;
    tide_error err;
    if (tide_duckdb_find(&version, NULL, &err) < TIDE_OK)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "duckdb",
                         strstr(err.text, "make duckdb") /* the search names every remedy */
                             ? "only lakes and duckdb: stores need it"
                             : "only lakes and duckdb: stores need it; make duckdb downloads it in "
                               "a source tree, elsewhere install tidemark-libduckdb",
                         "%s", err.text);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "duckdb", "", "%s", version);
}

void tide_doctor_check_libraries(tide_doctor *doctor)
{
    check_sqlite(doctor);
    check_libpq(doctor);
    check_duckdb(doctor);
}

/* ---- clocks ---- */

static void check_synchronisation(tide_doctor *doctor)
{
    struct timex state = {.modes = 0}; /* only asks */
    const int code = adjtimex(&state);
    if (code < 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "clock sync", "", "cannot be asked: %s",
                         strerror(errno));
    else if (code == TIME_ERROR || (state.status & STA_UNSYNC))
        tide_doctor_tell(
            doctor, TIDE_DOCTOR_WARN, "clock sync",
            "run chrony or another NTP client; times beside numbers are only as good as the clock",
            "the kernel's clock is not synchronised");
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "clock sync", "",
                         "synchronised, error at most %ld ms", state.maxerror / 1000);
}

void tide_doctor_check_clock(tide_doctor *doctor)
{
    tide_env *env = doctor->env;
    char now[TIDE_CLI_TIME_SIZE];
    const int64_t wall_us = env->wall_us(env);
    tide_cli_time_text(now, wall_us);
    const bool is_plausible = wall_us >= YEAR_2024_US;
    tide_doctor_tell(doctor, is_plausible ? TIDE_DOCTOR_OK : TIDE_DOCTOR_BAD, "clock",
                     is_plausible ? "" : "set the clock", "%s", *now ? now : "no date at all");
    /* Mono first: boot time may only be larger, whatever happens between the two calls. */
    const int64_t mono_us = env->mono_us(env);
    const int64_t boot_us = env->boot_us(env);
    if (boot_us < mono_us)
        tide_doctor_tell(
            doctor, TIDE_DOCTOR_BAD, "boot clock", "leases cannot be trusted on this kernel",
            "stands %" PRId64 " ms behind the monotonic clock", (mono_us - boot_us) / 1000);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "boot clock", "", "up for %" PRId64 " s",
                         boot_us / 1000000);
    check_synchronisation(doctor);
}

/* ---- state directory ---- */

/* The directory is made on first use: what counts is the nearest one that exists. */
static int check_writable(const char *path)
{
    TIDE_CLEANUP(tide_freep) char *at = strdup(path);
    while (at && faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS) != 0) {
        if (errno != ENOENT)
            return errno;
        char *slash = strrchr(at, '/');
        if (!slash || slash == at)
            return slash && faccessat(AT_FDCWD, "/", W_OK | X_OK, AT_EACCESS) == 0 ? 0 : EACCES;
        *slash = '\0';
    }
    return at ? 0 : ENOMEM;
}

void tide_doctor_check_state_directory(tide_doctor *doctor)
{
    static const char advice[] =
        "without it a file put back to an earlier state, or a primary that "
        "returned, may go unnoticed; set TIDEMARK_STATE_DIR";
    char path[TIDE_IDENTITY_MARKER_PATH_SIZE];
    if (!tide_identity_marker_state_directory(NULL, path)) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "state directory", advice, "none");
        return;
    }
    const int problem = check_writable(path);
    char refused[TIDE_IDENTITY_MARKER_PATH_SIZE];
    if (problem != 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "state directory", advice, "%s: %s", path,
                         strerror(problem));
    else if (tide_identity_marker_find_refused(path, refused))
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "state directory",
                         "what it remembers is not used; give it to the user that runs tidemark, "
                         "or set TIDEMARK_STATE_DIR",
                         "%s: %s", refused, strerror(EACCES));
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "state directory", "", "%s can be written", path);
}
