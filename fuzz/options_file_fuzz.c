/* Settings files: parsed or refused with a line; names and values are what they may be. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "runtime/options_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tide_options_file file;
    tide_error err = {.status = TIDE_OK};
    const tide_status status =
        tide_options_file_parse(&file, tide_view_bytes(data, size), "f", &err);
    if (status < TIDE_OK)
        assert(strncmp(err.text, "f:", 2) == 0);
    int line = 0;
    for (int i = 0; status == TIDE_OK && i < file.count; i++) {
        const tide_setting *setting = &file.settings[i];
        const size_t name_len = strlen(setting->name);
        assert(name_len >= 1 && name_len <= TIDE_OPTIONS_NAME_MAX);
        assert(strspn(setting->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == name_len);
        assert(strlen(setting->value) <= TIDE_OPTIONS_VALUE_MAX);
        assert(!strpbrk(setting->value, "\r\n"));
        assert(setting->line > line);
        line = setting->line;
    }
    tide_options_file_done(&file);
    return 0;
}
