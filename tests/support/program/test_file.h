/* test_file.h - the entry of a file of test cases. One program holds the files of a folder.
 *
 *     TEST_FILE()
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_only_rise)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * A process runs one file, so files cannot disturb each other and a crash names its file:
 *
 *     store-tests                             list the files
 *     store-tests FILE                        run a file: store/sqlite/group, or group
 *     store-tests FILE 'a_closure*'           only the cases that match the pattern (* and ?)
 *     store-tests FILE -- ARGUMENT...         what a file passes to itself in a process of its own
 *
 * Threads: none. Files are registered before main. */
#pragma once

#include <stddef.h>

typedef struct test_file {
    const char *source;     /* as the compiler was given it */
    const char *skip;       /* pattern of cases that are left out; NULL: none */
    int (*run)(void);       /* 0: every case passed */
    struct test_file *next; /* in the list of the program */
} test_file;

#define TEST_FILE() TEST_FILE_WITHOUT(NULL)

/* The same, without the cases that match a pattern. */
#define TEST_FILE_WITHOUT(pattern)                                                                 \
    static int run_test_file(void);                                                                \
    __attribute__((constructor)) static void add_this_test_file(void)                              \
    {                                                                                              \
        static test_file file = {.source = __BASE_FILE__, .skip = (pattern)};                      \
        file.run = run_test_file;                                                                  \
        test_file_add(&file);                                                                      \
    }                                                                                              \
    static int run_test_file(void)

void test_file_add(test_file *file);

/* Run what the arguments of main name: its result is the program's. */
int test_file_main(int argc, char **argv);

/* The file that runs, as a FILE of its program; "" in a program without files. */
const char *test_file_name(void);

/* What repeats this run in a shell: "PROGRAM FILE". */
const char *test_file_command(void);

/* The argument behind --, from 0; NULL: there are no more. */
const char *test_file_argument(int index);
