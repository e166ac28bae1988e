/* doctor.h - what a check of the surroundings finds, and how it is told.
 *
 * Each check looks at one thing that durability rests on and calls tide_doctor_tell once:
 *
 *     ok    fine, or only to be known
 *     warn  works today, will hurt some day
 *     bad   numbers can be lost, or nothing will work
 *
 * A check changes nothing, except that the sync check writes to a file without a name, which is gone when it ends. A
 * check that cannot look says so as a warning; it never fails the program.
 *
 * Threads: one. */
#pragma once

#include "cli/frame/cli.h"

typedef enum tide_doctor_level {
    TIDE_DOCTOR_OK,
    TIDE_DOCTOR_WARN,
    TIDE_DOCTOR_BAD,
} tide_doctor_level;

typedef struct tide_doctor {
    tide_cli *cli;
    tide_env *env;
    int bad_count;
    tide_status failure; /* of printing */
    tide_error error;
} tide_doctor;

/* One line. advice: "" where there is nothing to do. */
void tide_doctor_tell(tide_doctor *doctor, tide_doctor_level level, const char *what,
                      const char *advice, const char *format, ...) TIDE_PRINTF(5, 6);

/* doctor_machine.c: libraries, clocks, the state directory. */
void tide_doctor_check_libraries(tide_doctor *doctor);
void tide_doctor_check_clock(tide_doctor *doctor);
void tide_doctor_check_state_directory(tide_doctor *doctor);

/* doctor_disk.c: the file of a SQLite store and the directory it is in. */
void tide_doctor_check_file(tide_doctor *doctor, const char *path);
void tide_doctor_check_directory(tide_doctor *doctor, const char *path);

/* doctor_postgres.c: the server, as far as it lets us look. False: it does not answer. */
bool tide_doctor_check_server(tide_doctor *doctor, const char *url);
