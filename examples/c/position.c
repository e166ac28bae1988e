#include "position.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

void position_load(const char *path, int64_t *numbers, int count)
{
    FILE *file = fopen(path, "r");
    memset(numbers, 0, (size_t)count * sizeof *numbers);
    for (int i = 0; file && i < count; i++)
        if (fscanf(file, "%" SCNd64, &numbers[i]) != 1)
            numbers[i] = 0;
    if (file)
        (void)fclose(file);
}

tide_status position_save(const char *path, const int64_t *numbers, int count, tide_error *err)
{
    char made[PATH_SIZE];
    (void)snprintf(made, sizeof made, "%s.new", path);
    FILE *file = fopen(made, "w");
    if (!file)
        return tide_fail(err, TIDE_E_IO, "%s cannot be written", made);
    for (int i = 0; i < count; i++)
        (void)fprintf(file, "%" PRId64 "\n", numbers[i]);
    const bool is_synced = fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (fclose(file) != 0 || !is_synced || rename(made, path) != 0)
        return tide_fail(err, TIDE_E_IO, "%s cannot be written", path);
    return TIDE_OK;
}
