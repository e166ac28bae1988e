/* json_canon_test.c - which texts are JSON, which mean the same, what they hash to. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"

enum { SWEEP_MAX = 1000, FORM_MAX = 1 << 20 };

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

static void expect_form(const char *text, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, FORM_MAX);
    tide_error err;
    assert_ok_err(tide_json_canonical(tide_view_of(text), &out, &err), &err);
    assert_string_equal(tide_buffer_text(&out), want);
}

/* check and canonical refuse alike, and name the place. */
static void expect_refused(tide_view text, const char *place)
{
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_json_check(text, &err));
    assert_contains(err.text, place);
    assert_status(TIDE_E_INVALID, tide_json_check(text, NULL));

    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, FORM_MAX);
    assert_ok(tide_buffer_append_text(&out, "before"));
    err = (tide_error){0};
    assert_status(TIDE_E_INVALID, tide_json_canonical(text, &out, &err));
    assert_contains(err.text, place);
    assert_string_equal(tide_buffer_text(&out), "before");
}

/* RFC 8259: any value may stand alone, white space may stand around everything. */
static void valid_texts_are_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        " true\n",
        "\t\r\n false ",
        "0",
        "-0",
        "12.5e+3",
        "1E5",
        "1e-400",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1, [2], {\"a\" : [ ] } ]",
        "\"\\u0000\\ud83c\\udf0a\\/\"",
        "\"\x7F \xC3\xBC \xE2\x82\xAC \xF0\x9F\x8C\x8A \xEF\xBF\xBF\"",
        "1.7976931348623157e308",
        "-1.7976931348623158e+308",
        "0e999999999999999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tide_error err;
        assert_ok_err(tide_json_check(tide_view_of(texts[i]), &err), &err);
    }
}

typedef struct refusal {
    const char *text;
    const char *place;
} refusal;

/* What is wrong is named by line and column, columns counted in characters. */
static void invalid_texts_are_refused_at_their_place(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"", "line 1, column 1: the text ends"},
        {" \n ", "line 2, column 2: the text ends"},
        {"nul", "line 1, column 1: this is not a value"},
        {"True", "column 1"},
        {"NaN", "column 1"},
        {"-Infinity", "column 2: a digit"},
        {"1 2", "column 3: something follows"},
        {"{}x", "column 3: something follows"},
        {"[1,]", "column 4: this is not a value"},
        {"[1 2]", "column 4: a comma or ]"},
        {"[,1]", "column 2"},
        {"[1}", "column 3: a comma or ]"},
        {"[", "column 2: the text ends"},
        {"]", "column 1"},
        {"{\"a\":1,}", "column 8: a key"},
        {"{\"a\" 1}", "column 6: a colon"},
        {"{\"a\":}", "column 6: this is not a value"},
        {"{a:1}", "column 2: a key"},
        {"{\"a\":1 \"b\":2}", "column 8: a comma or }"},
        {"{\"a\":1]", "column 7: a comma or }"},
        {"{,}", "column 2: a key"},
        {"{", "column 2: a key"},
        {"{\"a\"", "column 5: a colon"},
        {"01", "column 1: a number with a leading 0"},
        {"-01", "column 1: a number with a leading 0"},
        {"1.", "column 3: a digit"},
        {".5", "column 1"},
        {"+1", "column 1"},
        {"1e", "column 3: a digit"},
        {"1e+", "column 4: a digit"},
        {"-", "column 2: a digit"},
        {"0x10", "column 2: something follows"},
        {"1e400", "column 1: a number too large"},
        {"[-1e309]", "column 2: a number too large"},
        {"1.7976931348623159e308", "column 1: a number too large"},
        {"1e99999999999999999999999", "column 1: a number too large"},
        {"\"abc", "column 1: a string that does not end"},
        {"\"abc\\\"", "column 1: a string that does not end"},
        {"\"a\nb\"", "column 3: a control character"},
        {"\"\x1F\"", "column 2: a control character"},
        {"\"\\x41\"", "column 2: unknown escape"},
        {"\"\\u12g4\"", "column 2: unknown escape"},
        {"\"\\u123", "column 2: unknown escape"},
        {"\"\\", "column 2: unknown escape"},
        {"\"\\ud800\"", "column 2: half a surrogate pair"},
        {"\"\\ud800\\u0041\"", "column 2: half a surrogate pair"},
        {"\"\\udc00\\ud800\"", "column 2: half a surrogate pair"},
        {"\"\xC3\xBC\xFF\"", "column 3: invalid UTF-8"},
        {"\"\xC0\x80\"", "column 2: invalid UTF-8"},
        {"\"\xED\xA0\x80\"", "column 2: invalid UTF-8"},
        {"\"\xF4\x90\x80\x80\"", "column 2: invalid UTF-8"},
        {"\"\xE2\x82", "column 2: invalid UTF-8"},
        {"\xEF\xBB\xBFnull", "column 1: this is not a value"},
        {"\xA0", "column 1"},
        {"'a'", "column 1"},
        {"[1]//", "column 4"},
        {"{\n  \"\xC3\xBC\": [\n    1,\n    x\n", "line 4, column 5: this is not a value"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        expect_refused(tide_view_of(refusals[i].text), refusals[i].place);
    expect_refused((tide_view){0}, "the text ends");
    expect_refused(tide_view_bytes("1\0", 2), "column 2: something follows");
    expect_refused(tide_view_bytes("\"\0\"", 3), "column 2: a control character");
    expect_refused(tide_view_bytes("[\0]", 3), "column 2: this is not a value");
}

/* Every byte in every position of a word: the fast path over plain bytes misses none. */
static void no_byte_of_a_string_is_overlooked(void **state)
{
    (void)state;
    for (size_t at = 1; at < 34; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[36];
            memset(text, 'a', sizeof text);
            text[0] = '"';
            text[34] = '"';
            text[at] = (char)byte;
            const bool is_plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            const tide_status status = tide_json_check(tide_view_bytes(text, 35), NULL);
            /* a quote is followed by letters, a backslash by an a */
            if ((status == TIDE_OK) != is_plain)
                fail_msg("byte %d at %zu: %s", byte, at, tide_status_get(status)->name);
        }
    }
}

static void nest(tide_buffer *out, int depth, bool with_objects)
{
    for (int i = 0; i < depth; i++)
        assert_ok(tide_buffer_append_text(out, with_objects && i % 2 == 1 ? "{\"k\":" : "["));
    if (with_objects && depth % 2 == 0)
        assert_ok(tide_buffer_append_text(out, "1"));
    for (int i = depth - 1; i >= 0; i--)
        assert_ok(tide_buffer_append_text(out, with_objects && i % 2 == 1 ? "}" : "]"));
}

/* Promise 7 of the design: depth 100, no further. */
static void nesting_ends_at_the_limit(void **state)
{
    (void)state;
    for (int with_objects = 0; with_objects < 2; with_objects++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        tide_buffer_init(&text, FORM_MAX);
        nest(&text, TIDE_JSON_NESTING_MAX, with_objects);
        tide_error err;
        assert_ok_err(tide_json_check(tide_buffer_view(&text), &err), &err);
        expect_form(tide_buffer_text(&text), tide_buffer_text(&text));
        tide_buffer_clear(&text);
        nest(&text, TIDE_JSON_NESTING_MAX + 1, with_objects);
        expect_refused(tide_buffer_view(&text), "nested too deeply");
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer wide;
    tide_buffer_init(&wide, FORM_MAX);
    assert_ok(tide_buffer_append_text(&wide, "[[]"));
    for (int i = 0; i < 1000; i++)
        assert_ok(tide_buffer_append_text(&wide, ",[{\"a\":[]}]"));
    assert_ok(tide_buffer_append_text(&wide, "]"));
    expect_form(tide_buffer_text(&wide), tide_buffer_text(&wide)); /* siblings do not add up */
}

/* No white space, members in order, at every level. */
static void members_are_sorted_and_white_space_is_dropped(void **state)
{
    (void)state;
    expect_form(" { } ", "{}");
    expect_form("[ 1 , 2 ,\n3 ]", "[1,2,3]");
    expect_form("{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}");
    expect_form("{\"b\": {\"d\": [], \"c\": {}}, \"a\": [{\"y\": 0, \"x\": [{\"2\":2,\"1\":1}]}]}",
                "{\"a\":[{\"x\":[{\"1\":1,\"2\":2}],\"y\":0}],\"b\":{\"c\":{},\"d\":[]}}");
    expect_form("{\"aa\":1,\"a\":2,\"\":3,\"ab\":4,\"B\":5}",
                "{\"\":3,\"B\":5,\"a\":2,\"aa\":1,\"ab\":4}");
    expect_form("{\"3\":3,\"1\":{\"z\":0,\"y\":{\"b\":0,\"a\":0}},\"2\":[true,false,null]}",
                "{\"1\":{\"y\":{\"a\":0,\"b\":0},\"z\":0},\"2\":[true,false,null],\"3\":3}");
}

/* RFC 8785, 3.2.3: its own example, by UTF-16 code units; so U+1F600 stands before U+FB33. */
static void keys_are_compared_by_utf16_units(void **state)
{
    (void)state;
    expect_form("{\"\\u20ac\": \"Euro Sign\", \"\\r\": \"Carriage Return\","
                "\"\\ufb33\": \"Hebrew Letter Dalet With Dagesh\", \"1\": \"One\","
                "\"\\ud83d\\ude00\": \"Emoji: Grinning Face\", \"\\u0080\": \"Control\","
                "\"\\u00f6\": \"Latin Small Letter O With Diaeresis\"}",
                "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xC2\x80\":\"Control\","
                "\"\xC3\xB6\":\"Latin Small Letter O With Diaeresis\","
                "\"\xE2\x82\xAC\":\"Euro Sign\",\"\xF0\x9F\x98\x80\":\"Emoji: Grinning Face\","
                "\"\xEF\xAC\xB3\":\"Hebrew Letter Dalet With Dagesh\"}");
    /* escapes are compared as what they mean: U+0022 stands before A, the backslash behind it */
    expect_form("{\"\\\\\":1,\"A\":2,\"\\\"\":3,\"\\n\":4,\"\\u0001\":5}",
                "{\"\\u0001\":5,\"\\n\":4,\"\\\"\":3,\"A\":2,\"\\\\\":1}");
    expect_form(
        "{\"\\ud7ff\":1,\"\\ue000\":2,\"\\ud800\\udc00\":3,\"\\uffff\":4}",
        "{\"\xED\x9F\xBF\":1,\"\xF0\x90\x80\x80\":3,\"\xEE\x80\x80\":2,\"\xEF\xBF\xBF\":4}");
}

/* RFC 8785, 3.2.2.2: the short escapes, small letters, nothing else. */
static void strings_are_escaped_as_little_as_possible(void **state)
{
    (void)state;
    expect_form("\"\\u0022\\u005C\\u002f\\/\\u0008\\u0009\\u000A\\u000c\\u000D\"",
                "\"\\\"\\\\//\\b\\t\\n\\f\\r\"");
    expect_form("\"\\b\\t\\n\\f\\r\\\"\\\\\"", "\"\\b\\t\\n\\f\\r\\\"\\\\\"");
    expect_form("\"\\u0000\\u001F\\u007f\\u000B\"", "\"\\u0000\\u001f\x7F\\u000b\"");
    expect_form("\"a\\u00fcb\\u20ACc\\uD83C\\uDF0Ad\\u0041\"", "\"a\xC3\xBC"
                                                               "b\xE2\x82\xAC"
                                                               "c\xF0\x9F\x8C\x8A"
                                                               "dA\"");
    expect_form("\"\\u07ff\\u0800\\uffff\\ud800\\udc00\\udbff\\udfff\"",
                "\"\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"");
    expect_form("\"plain \xC3\xBC\"", "\"plain \xC3\xBC\"");
}

/* Integers of 64 bits exactly, other numbers as doubles; equal numbers have one form. */
static void numbers_have_one_form(void **state)
{
    (void)state;
    expect_form("[0,-0,0.0,-0.0,0e5,-0e-5,1e-400,-1e-400]", "[0,0,0,0,0,0,0,0]");
    expect_form("[1,1.0,10e-1,0.1e1,1E0,1e+0]", "[1,1,1,1,1,1]");
    expect_form("[1e3,1.5e3,-1.5E+03]", "[1000,1500,-1500]");
    expect_form("[9007199254740993,9007199254740992]", "[9007199254740993,9007199254740992]");
    expect_form("[9223372036854775807,-9223372036854775808]",
                "[9223372036854775807,-9223372036854775808]");
    expect_form("[18446744073709551615,18446744073709551614]",
                "[18446744073709551615,18446744073709551614]");
    expect_form("[1e15,1e18,-9e18,1e19]",
                "[1000000000000000,1000000000000000000,-9000000000000000000,10000000000000000000]");
    expect_form("[18446744073709551616,-9223372036854775809]",
                "[1.8446744073709552e+19,-9223372036854775808]");
    expect_form("[-1e19,1e20,100000000000000000000]", "[-1e+19,1e+20,1e+20]");
    expect_form("[0.1,0.10,1e-1,0.1000000000000000055511151231257827]", "[0.1,0.1,0.1,0.1]");
    expect_form("[0.30000000000000004,123456.789,-2.5]", "[0.30000000000000004,123456.789,-2.5]");
    expect_form("[1e-7,5e-324,2.2250738585072014e-308]", "[1e-07,5e-324,2.2250738585072014e-308]");
    expect_form("1.7976931348623157e308", "1.7976931348623157e+308");
}

/* The nearest double also of a number of a million digits, and of one on the edge between two. */
static void long_numbers_are_rounded_rightly(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 2 << 20);
    assert_ok(tide_buffer_append_text(&text, "0."));
    for (int i = 0; i < 1000000; i++)
        assert_ok(tide_buffer_append_byte(&text, '3'));
    expect_form(tide_buffer_text(&text), "0.3333333333333333");

    /* 2^-1 + 2^-54 lies between 0.5 and the next double: it goes to the even one, but a last digit
     * far behind decides otherwise. */
    tide_buffer_clear(&text);
    assert_ok(
        tide_buffer_append_text(&text, "0.500000000000000055511151231257827021181583404541015625"));
    expect_form(tide_buffer_text(&text), "0.5");
    for (int i = 0; i < 2000; i++)
        assert_ok(tide_buffer_append_byte(&text, '0'));
    expect_form(tide_buffer_text(&text), "0.5");
    assert_ok(tide_buffer_append_byte(&text, '1'));
    expect_form(tide_buffer_text(&text), "0.5000000000000001");

    tide_buffer_clear(&text);
    for (int i = 0; i < 309; i++)
        assert_ok(tide_buffer_append_byte(&text, '9'));
    expect_refused(tide_buffer_view(&text), "too large");
    assert_ok(tide_buffer_append_text(&text, "e-309"));
    expect_form(tide_buffer_text(&text), "1");
}

/* A user's language has no say in what a number means. */
static void a_locale_does_not_change_numbers(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        if (setlocale(LC_NUMERIC, locales[i]))
            expect_form("[1.50,2.5e-3]", "[1.5,0.0025]");
    }
    assert_non_null(setlocale(LC_NUMERIC, "C"));
    expect_form("[1.50,2.5e-3]", "[1.5,0.0025]");
}

static void expect_twice(const char *text, const char *place)
{
    tide_error err = {0};
    assert_ok(tide_json_check(tide_view_of(text), &err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, FORM_MAX);
    assert_status(TIDE_E_INVALID, tide_json_canonical(tide_view_of(text), &out, &err));
    assert_contains(err.text, place);
    assert_contains(err.text, "a key that this object has already");
    assert_int_equal(out.len, 0);
}

/* Readers disagree about which of two members counts: refused, at the second one. */
static void a_key_that_appears_twice_is_refused(void **state)
{
    (void)state;
    expect_twice("{\"a\":1,\"a\":1}", "column 8:");
    expect_twice("{\"b\":1,\n\"a\":1,\"b\":2}", "line 2, column 7:");
    expect_twice("{\"a\":1,\"c\":1,\"b\":1,\"\\u0061\":2}", "column 20:");
    expect_twice("[{\"x\":{\"\":0,\"\":0}}]", "column 13:");
    expect_form("{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}",
                "{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}"); /* of different objects */
}

/* Over the maximum: an error, and what was in the buffer stays as it was. */
static void a_form_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    const tide_view text = tide_view_of("{\"b\":[1,2,3],\"a\":{\"y\":\"\\u00fc\",\"x\":1e3}}");
    const size_t want_len = strlen("{\"a\":{\"x\":1000,\"y\":\"\xC3\xBC\"},\"b\":[1,2,3]}");
    for (size_t max = 6; max < 6 + want_len; max++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, max);
        assert_ok(tide_buffer_append_text(&out, "before"));
        tide_error err = {0};
        assert_status(TIDE_E_LIMIT, tide_json_canonical(text, &out, &err));
        assert_contains(err.text, "longer than");
        assert_string_equal(tide_buffer_text(&out), "before");
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 6 + want_len);
    assert_ok(tide_buffer_append_text(&out, "before"));
    assert_ok(tide_json_canonical(text, &out, NULL));
    assert_string_equal(tide_buffer_text(&out),
                        "before{\"a\":{\"x\":1000,\"y\":\"\xC3\xBC\"},\"b\":[1,2,3]}");
}

/* --- random documents, with jansson as the second opinion --- */

static json_t *make_value(prng *random, int depth);

static json_t *make_key(prng *random)
{
    static const char *const pieces[] = {"a",
                                         "b",
                                         "~",
                                         "/",
                                         "\"",
                                         "\\",
                                         "\n",
                                         "\x01",
                                         "\xC3\xBC",
                                         "\xEF\xAC\xB3",
                                         "\xF0\x9F\x98\x80",
                                         "\x7F",
                                         "key"};
    char key[64] = "";
    size_t len = 0;
    for (uint64_t i = prng_below(random, 5); i > 0; i--) {
        const char *piece = pieces[prng_below(random, sizeof pieces / sizeof pieces[0])];
        len += (size_t)snprintf(key + len, sizeof key - len, "%s", piece);
    }
    return json_string(key);
}

static json_t *make_container(prng *random, int depth)
{
    const bool is_object = prng_chance(random, 1, 2);
    json_t *made = is_object ? json_object() : json_array();
    for (uint64_t i = prng_below(random, 7); i > 0; i--) {
        if (is_object) {
            json_t *key = make_key(random);
            assert_int_equal(0, json_object_set_new(made, json_string_value(key),
                                                    make_value(random, depth + 1)));
            json_decref(key);
        } else {
            assert_int_equal(0, json_array_append_new(made, make_value(random, depth + 1)));
        }
    }
    return made;
}

static json_t *make_value(prng *random, int depth)
{
    switch (prng_below(random, depth < 6 ? 9 : 6)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(prng_chance(random, 1, 2));
    case 2:
        return json_integer((json_int_t)(prng_u64(random) >> prng_below(random, 64)));
    case 3:
        return json_real((double)(int64_t)prng_below(random, 1000000) / 1024);
    case 4:
    case 5:
        return make_key(random);
    default:
        return make_container(random, depth);
    }
}

/* The same value in another writing: members in any order, spaces, needless escapes. */
static void write_differently(prng *random, tide_buffer *out, const json_t *value);

static void write_space(prng *random, tide_buffer *out)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t\r"};
    assert_ok(tide_buffer_append_text(out, spaces[prng_below(random, 6)]));
}

static void write_text(prng *random, tide_buffer *out, const char *text)
{
    assert_ok(tide_buffer_append_byte(out, '"'));
    for (; *text; text++) {
        const uint8_t byte = (uint8_t)*text;
        if (byte < 0x20 || byte == '"' || byte == '\\' ||
            (byte < 0x80 && prng_chance(random, 1, 4)))
            assert_ok(tide_buffer_printf(out, prng_chance(random, 1, 2) ? "\\u%04x" : "\\u%04X",
                                         (unsigned)byte));
        else
            assert_ok(tide_buffer_append_byte(out, byte));
    }
    assert_ok(tide_buffer_append_byte(out, '"'));
}

static void write_object(prng *random, tide_buffer *out, const json_t *object)
{
    const char *keys[64];
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) keys[count++] = key;
    for (size_t i = count; i > 1; i--) {
        const size_t other = prng_below(random, i);
        const char *taken = keys[other];
        keys[other] = keys[i - 1];
        keys[i - 1] = taken;
    }
    for (size_t i = 0; i < count; i++) {
        assert_ok(tide_buffer_append_text(out, i > 0 ? "," : ""));
        write_space(random, out);
        write_text(random, out, keys[i]);
        write_space(random, out);
        assert_ok(tide_buffer_append_byte(out, ':'));
        write_differently(random, out, json_object_get(object, keys[i]));
    }
}

static void write_differently(prng *random, tide_buffer *out, const json_t *value)
{
    write_space(random, out);
    if (json_is_object(value)) {
        assert_ok(tide_buffer_append_byte(out, '{'));
        write_object(random, out, value);
        write_space(random, out);
        assert_ok(tide_buffer_append_byte(out, '}'));
    } else if (json_is_array(value)) {
        assert_ok(tide_buffer_append_byte(out, '['));
        for (size_t i = 0; i < json_array_size(value); i++) {
            assert_ok(tide_buffer_append_text(out, i > 0 ? "," : ""));
            write_differently(random, out, json_array_get(value, i));
        }
        assert_ok(tide_buffer_append_byte(out, ']'));
    } else if (json_is_string(value)) {
        write_text(random, out, json_string_value(value));
    } else if (json_is_real(value)) {
        assert_ok(tide_buffer_printf(out, "%.*e", 20, json_real_value(value)));
    } else {
        TIDE_CLEANUP(tide_freep) char *text = json_dumps(value, JSON_ENCODE_ANY);
        assert_ok(tide_buffer_append_text(out, text));
    }
    write_space(random, out);
}

/* However a value is written, it has one form; the form says the same, and is its own form. */
static void all_writings_of_a_value_have_one_form(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(8785));
    for (int round = 0; round < 1500; round++) {
        json_t *value = make_value(&random, 0);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer form;
        tide_buffer_init(&form, FORM_MAX);
        for (int i = 0; i < 3; i++) {
            TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
            tide_buffer_init(&text, FORM_MAX);
            write_differently(&random, &text, value);
            assert_ok(tide_json_check(tide_buffer_view(&text), NULL));
            if (i == 0)
                assert_ok(tide_json_canonical(tide_buffer_view(&text), &form, NULL));
            expect_form(tide_buffer_text(&text), tide_buffer_text(&form));
        }
        expect_form(tide_buffer_text(&form), tide_buffer_text(&form));
        /* 2.0 became 2: compared as reals */
        json_t *said = json_loadb(form.ptr, form.len,
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        TIDE_CLEANUP(tide_freep) char *dumped = json_dumps(value, JSON_ENCODE_ANY);
        json_t *meant = json_loads(dumped, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        assert_non_null(said);
        assert_true(json_equal(said, meant));
        json_decref(said);
        json_decref(meant);
        json_decref(value);
    }
}

static bool jansson_accepts(tide_view text)
{
    json_t *value = json_loadb(text.ptr, text.len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    const bool is_accepted = value != NULL;
    json_decref(value);
    return is_accepted;
}

static void damage(prng *random, tide_buffer *text)
{
    static const char LIKELY[] = "{}[]\",:\\0123456789.eE+-utfn \n\x80\xC3\xED\xF4";
    for (uint64_t i = prng_below(random, 4); i > 0 && text->len > 0; i--)
        text->ptr[prng_below(random, text->len)] = LIKELY[prng_below(random, sizeof LIKELY - 1)];
    if (prng_chance(random, 1, 8))
        tide_buffer_truncate(text, prng_below(random, text->len + 1));
}

/* A second implementation agrees about what is JSON and what is not. */
static void another_parser_agrees_about_damaged_texts(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(8259));
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        json_t *value = make_value(&random, 3);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        tide_buffer_init(&text, FORM_MAX);
        write_differently(&random, &text, value);
        json_decref(value);
        damage(&random, &text);
        if (strstr(tide_buffer_text(&text), "\\u0000"))
            continue; /* jansson has no NUL in keys */
        const bool is_accepted = tide_json_check(tide_buffer_view(&text), NULL) == TIDE_OK;
        if (is_accepted != jansson_accepts(tide_buffer_view(&text)))
            fail_msg("%s: %s", is_accepted ? "accepted" : "refused", tide_buffer_text(&text));
        refused += is_accepted ? 0 : 1;
    }
    assert_true(refused > 2000 && refused < 18000);
}

/* --- hashes --- */

static void expect_hash(tide_view request, const char *want)
{
    char hash[TIDE_JSON_REQUEST_HASH_SIZE];
    assert_ok(tide_json_request_hash(hash, request));
    assert_string_equal(hash, want);
}

/* Stored hashes outlive programs: these are for ever (sha256sum of the canonical forms). */
static void request_hashes_are_pinned(void **state)
{
    (void)state;
    const char *const object =
        "sha256:43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777";
    expect_hash(tide_view_of("{\"b\":2,\"a\":1}"), object);
    expect_hash(tide_view_of(" { \"a\" : 1.0, \"\\u0062\": 20e-1 }\n"), object);
    expect_hash(tide_view_of("{\"a\":1,\"b\":2}"), object);
    /* no JSON, a key twice: the bytes themselves */
    expect_hash(tide_view_of("hello"),
                "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    expect_hash((tide_view){0},
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hash(tide_view_of("{\"a\":1,\"a\":1}"),
                "sha256:e0921f1cf7632d7464378881cc0d323779c1f0812953b740093128741b4fb94d");
    char one[TIDE_JSON_REQUEST_HASH_SIZE];
    char other[TIDE_JSON_REQUEST_HASH_SIZE];
    assert_ok(tide_json_request_hash(one, tide_view_of("{\"id\":18446744073709551615}")));
    assert_ok(tide_json_request_hash(other, tide_view_of("{\"id\":18446744073709551614}")));
    assert_string_not_equal(one, other);
}

/* --- cost --- */

static void fill_with_records(tide_buffer *text, size_t len)
{
    assert_ok(tide_buffer_append_byte(text, '['));
    for (int i = 0; text->len < len; i++)
        assert_ok(tide_buffer_printf(text,
                                     "%s{\"id\":%d,\"name\":\"item number %d\",\"done\":false,"
                                     "\"note\":\"some words that are not long\",\"size\":%d.5}",
                                     i > 0 ? "," : "", i, i, i % 100));
    assert_ok(tide_buffer_append_byte(text, ']'));
}

/* It runs on every append: it takes no memory at all, whatever the text. */
static void checking_allocates_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 8 << 20);
    fill_with_records(&text, 4 << 20);
    alloc_fault_from(1);
    const tide_status status = tide_json_check(tide_buffer_view(&text), NULL);
    const tide_status refused =
        tide_json_check(tide_view_bytes(text.ptr, text.len - 1), &(tide_error){0});
    alloc_fault_off();
    assert_ok(status);
    assert_status(TIDE_E_INVALID, refused);
    assert_int_equal(alloc_fault_count(), 0);
}

static void canonicalise_without_memory(void *arg)
{
    const tide_view text = *(const tide_view *)arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, FORM_MAX);
    tide_error err = {0};
    const tide_status status = tide_json_canonical(text, &out, &err);
    if (status == TIDE_OK) {
        assert_int_equal(out.ptr[0], '{');
        assert_non_null(strstr(out.ptr, "\"a0\":[{\"x\":1000,\"y\":\"\xC3\xBC\"}],\"a1\":"));
    } else {
        assert_status(TIDE_E_NOMEM, status);
        assert_contains(err.text, "no memory");
        assert_int_equal(out.len, 0);
    }
    char hash[TIDE_JSON_REQUEST_HASH_SIZE];
    const tide_status hashed = tide_json_request_hash(hash, text);
    if (hashed == TIDE_OK)
        assert_string_equal(
            hash, "sha256:d86797e33f9fd30d8f2f3e058378c9c4558808978708bf1c612dec5654cd0390");
    else
        assert_status(TIDE_E_NOMEM, hashed);
}

/* Without memory there is an error, never another form or another hash. */
static void memory_that_runs_out_changes_no_form(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, FORM_MAX);
    assert_ok(tide_buffer_append_byte(&text, '{'));
    for (int i = 99; i >= 0; i--)
        assert_ok(tide_buffer_printf(&text, "%s\"a%d\":[{\"y\":\"\\u00fc\",\"x\":1e3}]",
                                     i < 99 ? "," : "", i));
    assert_ok(tide_buffer_append_byte(&text, '}'));
    tide_view view = tide_buffer_view(&text);
    ALLOC_FAULT_SWEEP(canonicalise_without_memory, &view, SWEEP_MAX);
}

/* Longer texts have no form, and their bytes are hashed. */
static void texts_over_the_limit_have_no_form(void **state)
{
    (void)state;
    const size_t len = (size_t)TIDE_JSON_TEXT_MAX + 1;
    TIDE_CLEANUP(tide_freep) char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    text[0] = '1';
    assert_ok(tide_json_check(tide_view_bytes(text, len), NULL));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, FORM_MAX);
    assert_status(TIDE_E_LIMIT, tide_json_canonical(tide_view_bytes(text, len), &out, NULL));
    assert_ok(tide_json_canonical(tide_view_bytes(text, len - 1), &out, NULL));
    assert_string_equal(tide_buffer_text(&out), "1");
    char over[TIDE_JSON_REQUEST_HASH_SIZE];
    char at_limit[TIDE_JSON_REQUEST_HASH_SIZE];
    assert_ok(tide_json_request_hash(over, tide_view_bytes(text, len)));
    assert_ok(tide_json_request_hash(at_limit, tide_view_bytes(text, len - 1)));
    assert_string_not_equal(over, at_limit);
    expect_hash(tide_view_of("1"), at_limit);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_are_accepted),
        cmocka_unit_test(invalid_texts_are_refused_at_their_place),
        cmocka_unit_test(no_byte_of_a_string_is_overlooked),
        cmocka_unit_test(nesting_ends_at_the_limit),
        cmocka_unit_test(members_are_sorted_and_white_space_is_dropped),
        cmocka_unit_test(keys_are_compared_by_utf16_units),
        cmocka_unit_test(strings_are_escaped_as_little_as_possible),
        cmocka_unit_test(numbers_have_one_form),
        cmocka_unit_test(long_numbers_are_rounded_rightly),
        cmocka_unit_test(a_locale_does_not_change_numbers),
        cmocka_unit_test(a_key_that_appears_twice_is_refused),
        cmocka_unit_test(a_form_that_does_not_fit_changes_nothing),
        cmocka_unit_test(all_writings_of_a_value_have_one_form),
        cmocka_unit_test(another_parser_agrees_about_damaged_texts),
        cmocka_unit_test(request_hashes_are_pinned),
        cmocka_unit_test_teardown(checking_allocates_nothing, disarm),
        cmocka_unit_test_teardown(memory_that_runs_out_changes_no_form, disarm),
        cmocka_unit_test(texts_over_the_limit_have_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
