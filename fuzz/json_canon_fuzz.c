/* json_canon_fuzz.c - texts that claim to be JSON.
 *
 * A second parser (jansson) agrees about what is valid, up to the limits that are ours; what has a
 * canonical form means the same in it, and the form is its own form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"

enum { FORM_MAX = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static json_t *load(tide_view text, size_t flags)
{
    return json_loadb(text.ptr, text.len,
                      JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | flags, NULL);
}

/* jansson stops at a NUL here and there, and has none in keys. */
static bool has_nul(tide_view text)
{
    return memchr(text.ptr, '\0', text.len) || memmem(text.ptr, text.len, "\\u0000", 6);
}

static void check_second_opinion(tide_view text, bool is_valid, const tide_error *err)
{
    json_t *value = load(text, 0);
    if (is_valid)
        require(value);
    else
        require(!value || strstr(err->text, "nested too deeply"));
    json_decref(value);
}

static void check_form(tide_view text, tide_view form)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&again, FORM_MAX);
    require(tide_json_check(form, NULL) == TIDE_OK);
    require(tide_json_canonical(form, &again, NULL) == TIDE_OK);
    require(tide_view_equal(tide_buffer_view(&again), form));
    if (has_nul(text))
        return;
    json_t *meant = load(text, JSON_REJECT_DUPLICATES);
    json_t *said = load(form, JSON_REJECT_DUPLICATES);
    require(meant && said && json_equal(meant, said));
    json_decref(meant);
    json_decref(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    const tide_view text = tide_view_bytes(data, len);
    tide_error err = {0};
    const bool is_valid = tide_json_check(text, &err) == TIDE_OK;
    if (!has_nul(text))
        check_second_opinion(text, is_valid, &err);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer form;
    tide_buffer_init(&form, FORM_MAX);
    const tide_status status = tide_json_canonical(text, &form, &err);
    if (status == TIDE_OK) {
        require(is_valid);
        check_form(text, tide_buffer_view(&form));
    } else {
        require(form.len == 0);
        require(!is_valid || strstr(err.text, "already") || status == TIDE_E_LIMIT);
    }
    char hash[TIDE_JSON_REQUEST_HASH_SIZE];
    require(tide_json_request_hash(hash, text) == TIDE_OK && strlen(hash) == sizeof hash - 1);
    return 0;
}
