/* replay.c - every fuzz target reads its corpus again. The program's argument names the target. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_targets.h"
#include "support/check.h"

enum { INPUT_MAX = 1 << 20 };

#define FUZZ_TARGET(name) int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS
#undef FUZZ_TARGET

typedef struct fuzz_target {
    const char *name;
    int (*read)(const uint8_t *data, size_t size);
} fuzz_target;

#define FUZZ_TARGET(name) {#name, fuzz_##name},
static const fuzz_target targets[] = {FUZZ_TARGETS};
#undef FUZZ_TARGET

static const fuzz_target *target;

static void replay_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    uint8_t *bytes = malloc(INPUT_MAX);
    assert_non_null(bytes);
    const size_t size = fread(bytes, 1, INPUT_MAX, in);
    (void)fclose(in);
    /* An exact copy, so that a sanitizer sees a read beyond the end. */
    uint8_t *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    free(bytes);
    assert_int_equal(0, target->read(exact, size));
    free(exact);
}

static void the_corpus_is_read_without_a_finding(void **state)
{
    (void)state;
    char directory[1024];
    (void)snprintf(directory, sizeof directory, "%s/fuzz/corpora/%s", getenv("TIDEMARK_SOURCE_DIR"),
                   target->name);
    DIR *list = opendir(directory);
    assert_non_null(list);
    int files = 0;
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        if (entry->d_name[0] == '.')
            continue;
        char path[2048];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        replay_file(path);
        files++;
    }
    (void)closedir(list);
    assert_true(files > 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(targets[i].name, argv[1]) == 0)
            target = &targets[i];
    if (target == NULL)
        return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_corpus_is_read_without_a_finding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
