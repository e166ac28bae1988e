#include "otlp_fixture.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"

enum { REQUEST_MAX = 80 << 20 };

int64_t otlp_now_ms(void)
{
    return INT64_C(1700000009000);
}

void otlp_test_begin(otlp_test *t, const tide_otlp_options *options)
{
    const tide_otlp_options usual = {.sample_fraction = 1, .hash_seed = 7};
    memset(t, 0, sizeof *t);
    assert_ok_err(tide_otlp_new(&t->otlp, options ? options : &usual, &t->err), &t->err);
    tide_otlp_output_init(&t->output);
    tide_buffer_init(&t->request, REQUEST_MAX);
    tide_buffer_init(&t->shown, REQUEST_MAX);
}

void otlp_test_end(otlp_test *t)
{
    tide_otlp_output_done(&t->output);
    tide_otlp_free(t->otlp);
    tide_buffer_done(&t->request);
    tide_buffer_done(&t->shown);
}

/* ---- notation ---- */

static void put_tag(tide_buffer *out, uint64_t number, unsigned wire)
{
    assert_ok(tide_buffer_append_varint(out, number << 3 | wire));
}

static uint64_t double_bits(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* A number without its tag; returns its wire type. */
static unsigned put_number(tide_buffer *out, const char **at)
{
    const char kind = *(*at)++;
    char *end = NULL;
    if (kind == '~') {
        const double number = strtod(*at, &end);
        assert_ok(tide_buffer_append_u64(out, double_bits(number)));
    } else if (kind == '@') {
        const uint64_t number =
            **at == '-' ? (uint64_t)strtoll(*at, &end, 10) : strtoull(*at, &end, 10);
        assert_ok(tide_buffer_append_u64(out, number));
    } else if (kind == '%') {
        assert_ok(tide_buffer_append_zigzag(out, strtoll(*at, &end, 10)));
    } else {
        assert_int_equal(kind, '#');
        assert_ok(tide_buffer_append_varint(out, (uint64_t)strtoll(*at, &end, 10)));
    }
    assert_ptr_not_equal(end, *at);
    *at = end;
    return kind == '~' || kind == '@' ? 1 : 0;
}

static void skip_space(const char **at)
{
    while (isspace((unsigned char)**at))
        (*at)++;
}

static void put_fields(tide_buffer *out, const char **at);

static uint8_t read_byte(const char **at)
{
    uint8_t byte;
    assert_ok(tide_hex_decode(&byte, 1, tide_view_bytes(*at, 2)));
    *at += 2;
    return byte;
}

static void put_body(tide_buffer *body, const char **at)
{
    const char kind = *(*at)++;
    if (kind == '{') {
        put_fields(body, at);
        assert_int_equal(*(*at)++, '}');
    } else if (kind == '$') {
        while (isxdigit((unsigned char)**at))
            assert_ok(tide_buffer_append_byte(body, read_byte(at)));
    } else if (kind == '\'') {
        while (**at != '\'') {
            assert_int_not_equal(**at, '\0');
            const bool is_byte = **at == '\\';
            *at += is_byte ? 1 : 0;
            assert_ok(tide_buffer_append_byte(body, is_byte ? read_byte(at) : (uint8_t) * (*at)++));
        }
        (*at)++;
    } else {
        assert_int_equal(kind, '[');
        for (skip_space(at); **at != ']'; skip_space(at))
            (void)put_number(body, at);
        (*at)++;
    }
}

static void put_fields(tide_buffer *out, const char **at)
{
    for (skip_space(at); isdigit((unsigned char)**at); skip_space(at)) {
        char *end;
        const uint64_t number = strtoull(*at, &end, 10);
        *at = end;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer body;
        tide_buffer_init(&body, REQUEST_MAX);
        if (strchr("{$'[", **at)) {
            put_body(&body, at);
            put_tag(out, number, 2);
            assert_ok(tide_buffer_append_varint(out, body.len));
        } else {
            put_tag(out, number, put_number(&body, at));
        }
        assert_ok(tide_buffer_append_view(out, tide_buffer_view(&body)));
    }
}

void otlp_write(tide_buffer *out, const char *notation)
{
    put_fields(out, &notation);
    assert_int_equal(*notation, '\0');
}

/* ---- decoding ---- */

tide_status otlp_decode_bytes(otlp_test *t, tide_otlp_signal signal, tide_otlp_format format,
                              tide_view bytes)
{
    /* An exact copy: a sanitizer sees a read beyond the end. */
    TIDE_CLEANUP(tide_freep) char *copy = malloc(bytes.len ? bytes.len : 1);
    if (!copy)
        return TIDE_E_NOMEM;
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    return tide_otlp_decode(t->otlp, signal, format, tide_view_bytes(copy, bytes.len),
                            otlp_now_ms(), &t->output, &t->err);
}

tide_status otlp_decode_notation(otlp_test *t, tide_otlp_signal signal, const char *notation)
{
    tide_buffer_clear(&t->request);
    otlp_write(&t->request, notation);
    return otlp_decode_bytes(t, signal, TIDE_OTLP_PROTOBUF, tide_buffer_view(&t->request));
}

tide_status otlp_decode_json(otlp_test *t, tide_otlp_signal signal, const char *json)
{
    return otlp_decode_bytes(t, signal, TIDE_OTLP_JSON, tide_view_of(json));
}

/* ---- showing ---- */

const char *otlp_show(otlp_test *t, tide_stream_kind kind)
{
    const tide_stream_type *type = tide_stream_type_of(kind);
    tide_view rest = tide_buffer_view(&t->output.batches[kind].bytes);
    tide_buffer_clear(&t->shown);
    static const char seq[] = "{\"seq_id\":0,";
    tide_record record;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_error err;
        assert_ok_err(tide_record_check(type, &record, &err), &err);
        tide_record_row row;
        assert_ok(tide_record_decode(type, record.message, &row));
        TIDE_CLEANUP(tide_buffer_done) tide_buffer line;
        tide_buffer_init(&line, REQUEST_MAX);
        assert_ok(tide_record_row_json(&line, type, &row));
        assert_memory_equal(line.ptr, seq, sizeof seq - 1);
        assert_ok(tide_buffer_append_byte(&t->shown, '{'));
        assert_ok(tide_buffer_append_text(&t->shown, line.ptr + sizeof seq - 1));
        assert_ok(tide_buffer_append_byte(&t->shown, '\n'));
    }
    assert_int_equal(rest.len, 0);
    return tide_buffer_text(&t->shown);
}

void otlp_assert_same(tide_otlp_signal signal, const char *notation, const char *json)
{
    otlp_test a;
    otlp_test b;
    otlp_test_begin(&a, NULL);
    otlp_test_begin(&b, NULL);
    assert_ok_err(otlp_decode_notation(&a, signal, notation), &a.err);
    assert_ok_err(otlp_decode_json(&b, signal, json), &b.err);
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++) {
        const tide_view left = tide_buffer_view(&a.output.batches[kind].bytes);
        const tide_view right = tide_buffer_view(&b.output.batches[kind].bytes);
        if (!tide_view_equal(left, right)) {
            print_message("protobuf: %s", otlp_show(&a, (tide_stream_kind)kind));
            print_message("JSON:     %s", otlp_show(&b, (tide_stream_kind)kind));
            fail_msg("the records of %s differ", tide_stream_type_of((tide_stream_kind)kind)->name);
        }
    }
    assert_int_equal(a.output.rejected, b.output.rejected);
    assert_int_equal(a.output.received, b.output.received);
    otlp_test_end(&a);
    otlp_test_end(&b);
}
