#include "journal/transfer/export_line.h"

#include "base/interface/caller.h"
#include "base/text/timefmt.h"
#include "journal/transfer/import_reader.h"

tide_status tide_export_fail_line(tide_status status, tide_error *err)
{
    return tide_fail(err, status, "a line of the export does not fit into %d bytes",
                     TIDE_EXPORT_LINE_MAX);
}

tide_status tide_export_send(tide_exporter *e, tide_json *json, bool is_last, tide_error *err)
{
    tide_status status = tide_json_finish(json);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&e->line, '\n');
    if (status < TIDE_OK)
        return tide_export_fail_line(status, err);
    if (!is_last)
        TIDE_TRY(tide_sha256_add(&e->sha, tide_buffer_view(&e->line), err));
    TIDE_TRY(tide_callback_check(e->write(e->arg, tide_buffer_view(&e->line), err), err));
    tide_buffer_clear(&e->line);
    return TIDE_OK;
}

void tide_export_put_text(tide_json *json, const char *key, const char *text)
{
    tide_json_key(json, key);
    tide_json_text(json, text);
}

void tide_export_put_number(tide_json *json, const char *key, int64_t number)
{
    tide_json_key(json, key);
    tide_json_i64(json, number);
}

void tide_export_put_time(tide_json *json, const char *key, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    const bool is_time = us != 0 && us != INT64_MIN && tide_time_format(us, text) == TIDE_OK;
    tide_export_put_text(json, key, is_time ? text : NULL);
}

void tide_export_open_record(tide_json *json, tide_buffer *line, const char *kind)
{
    tide_json_init(json, line);
    tide_json_object_begin(json);
    tide_json_key(json, kind);
    tide_json_object_begin(json);
}

tide_status tide_export_close_record(tide_exporter *e, tide_json *json, bool is_last,
                                     tide_error *err)
{
    tide_json_object_end(json);
    tide_json_object_end(json);
    return tide_export_send(e, json, is_last, err);
}
