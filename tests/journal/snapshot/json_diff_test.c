/* json_diff_test.c - what changed between two documents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "journal/snapshot/json_diff.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"

enum { SWEEP_MAX = 1000, TEXT_MAX = 128 << 20 };

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

/* One line per difference: "+ /path value", "- /path value", "~ /path before after". */
static tide_status write_line(void *arg, const tide_difference *d, tide_error *err)
{
    (void)err;
    tide_buffer *out = arg;
    assert_int_equal(d->before.ptr == NULL, d->kind == TIDE_DIFFERENCE_ADDED);
    assert_int_equal(d->after.ptr == NULL, d->kind == TIDE_DIFFERENCE_REMOVED);
    static const char *const SIGNS[] = {
        [TIDE_DIFFERENCE_ADDED] = "+",
        [TIDE_DIFFERENCE_REMOVED] = "-",
        [TIDE_DIFFERENCE_CHANGED] = "~",
    };
    return tide_buffer_printf(out, "%s %s %.*s%s%.*s\n", SIGNS[d->kind], d->path,
                              (int)d->before.len, d->before.ptr ? d->before.ptr : "",
                              d->before.len > 0 && d->after.len > 0 ? " " : "", (int)d->after.len,
                              d->after.ptr ? d->after.ptr : "");
}

static void expect_diff(const char *before, const char *after, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, TEXT_MAX);
    tide_error err = {0};
    assert_ok_err(tide_json_diff(tide_view_of(before), tide_view_of(after), write_line, &out, &err),
                  &err);
    assert_string_equal(tide_buffer_text(&out), want);
}

/* Equal is what means the same. */
static void equal_documents_have_no_difference(void **state)
{
    (void)state;
    expect_diff("null", " null", "");
    expect_diff("{\"a\":1,\"b\":[1,2]}", "{\"b\": [1.0, 2e0],\n \"\\u0061\": 1}", "");
    expect_diff("\"\\u00fc\"", "\"\xC3\xBC\"", "");
    expect_diff("[]", "[ ]", "");
}

/* Members by key, in the order of keys, at every depth. */
static void members_are_compared_by_key(void **state)
{
    (void)state;
    expect_diff("{\"log\":[\"a\",\"c\"],\"n\":1,\"x\":0}", "{\"n\":2,\"log\":[\"a\",\"b\",\"c\"]}",
                "+ /log/1 \"b\"\n~ /n 1 2\n- /x 0\n");
    expect_diff("{}", "{\"a\":{\"b\":1}}", "+ /a {\"b\":1}\n");
    expect_diff("{\"a\":{\"b\":1}}", "{}", "- /a {\"b\":1}\n");
    expect_diff("{\"a\":{\"b\":{\"c\":1,\"d\":2}}}", "{\"a\":{\"b\":{\"c\":1,\"d\":3}}}",
                "~ /a/b/d 2 3\n");
    expect_diff("{\"b\":1,\"d\":1}", "{\"a\":1,\"c\":1,\"e\":1}",
                "+ /a 1\n- /b 1\n+ /c 1\n- /d 1\n+ /e 1\n");
    expect_diff("{\"\\ue000\":1}", "{\"\\ud83d\\ude00\":1,\"\\ue000\":1}",
                "+ /\xF0\x9F\x98\x80 1\n");
}

/* Another kind of value is one change, of the whole. */
static void another_kind_is_one_change(void **state)
{
    (void)state;
    expect_diff("1", "2", "~  1 2\n");
    expect_diff("{\"a\":{\"b\":1}}", "{\"a\":[1]}", "~ /a {\"b\":1} [1]\n");
    expect_diff("[[1]]", "[{\"a\":1}]", "~ /0 [1] {\"a\":1}\n");
    expect_diff("{\"a\":null}", "{\"a\":false}", "~ /a null false\n");
    expect_diff("{\"a\":\"1\"}", "{\"a\":1}", "~ /a \"1\" 1\n");
    expect_diff("[]", "{}", "~  [] {}\n");
}

/* RFC 6901: ~ and / are written ~0 and ~1; everything else stands for itself. */
static void paths_are_json_pointers(void **state)
{
    (void)state;
    expect_diff("{\"\":0,\"a/b\":1,\"c%d\":2,\"\\\\\\\"\\n\":3,\" \":4,\"m~n\":5,\"\\u00fc\":6}",
                "{}",
                "- / 0\n- /  4\n- /\\\"\n 3\n- /a~1b 1\n- /c%d 2\n- /m~0n 5\n- /\xC3\xBC 6\n");
    expect_diff("{\"a/b\":{\"~1\":[0,{\"x\":1}]}}", "{\"a/b\":{\"~1\":[0,{\"x\":2}]}}",
                "~ /a~1b/~01/1/x 1 2\n");
    expect_diff("{\"a\\u0000b\":1}", "{}", "- /a\\u0000b 1\n");
}

/* An insertion or removal in the middle is one, not a cascade. */
static void an_insertion_is_one_addition(void **state)
{
    (void)state;
    expect_diff("[1,2,3]", "[1,9,2,3]", "+ /1 9\n");
    expect_diff("[1,2,3]", "[0,1,2,3]", "+ /0 0\n");
    expect_diff("[1,2,3]", "[1,2,3,4]", "+ /3 4\n");
    expect_diff("[1,2,3]", "[1,3]", "- /1 2\n");
    expect_diff("[1,2,3]", "[]", "- /0 1\n- /1 2\n- /2 3\n");
    expect_diff("[]", "[1,2]", "+ /0 1\n+ /1 2\n");
    expect_diff("[1,2,3,4,5]", "[1,2,9,4,5]", "~ /2 3 9\n");
    expect_diff("[1,2,3,4,5,6]", "[0,2,3,5,6,7]", "~ /0 1 0\n- /3 4\n+ /5 7\n");
    expect_diff("[1,1,1]", "[1,1]", "- /2 1\n");
    expect_diff("[\"a,]\",\"b\\\"[\",{\"k]\":\"}\"}]", "[\"b\\\"[\",{\"k]\":\"}\"}]",
                "- /0 \"a,]\"\n");
}

/* Elements that were changed are compared inside; the path is where they stand now. */
static void changed_elements_are_compared_inside(void **state)
{
    (void)state;
    expect_diff("[{\"id\":1,\"n\":0},{\"id\":2,\"n\":0}]",
                "[{\"id\":1,\"n\":0},{\"id\":2,\"n\":5}]", "~ /1/n 0 5\n");
    expect_diff("[0,{\"a\":1,\"b\":[1,2]},7]", "[9,9,0,{\"a\":1,\"b\":[2],\"c\":3},7]",
                "+ /0 9\n+ /1 9\n- /1/b/0 1\n+ /3/c 3\n");
    expect_diff("[[1,2],[3,4]]", "[[1,2,0],[3,4]]", "+ /0/2 0\n");
}

/* --- the differences, applied, give the second document --- */

typedef struct applied {
    json_t *document;
    tide_difference_kind kinds[4096];
    char *paths[4096];
    json_t *before[4096];
    json_t *after[4096];
    size_t count;
} applied;

static json_t *load(tide_view text)
{
    return json_loadb(text.ptr, text.len, JSON_DECODE_ANY, NULL);
}

static tide_status keep(void *arg, const tide_difference *d, tide_error *err)
{
    (void)err;
    applied *a = arg;
    assert_true(a->count < 4096);
    a->kinds[a->count] = d->kind;
    a->paths[a->count] = strdup(d->path);
    a->before[a->count] = d->before.ptr ? load(d->before) : NULL;
    a->after[a->count] = d->after.ptr ? load(d->after) : NULL;
    a->count++;
    return TIDE_OK;
}

/* Cut the last part off a path and undo its escapes; returns it. */
static char *cut_last(char *path)
{
    char *last = strrchr(path, '/');
    assert_non_null(last);
    *last++ = '\0';
    char *to = last;
    for (const char *from = last; *from; from++) {
        if (*from == '~')
            *to++ = *++from == '0' ? '~' : '/';
        else
            *to++ = *from;
    }
    *to = '\0';
    return last;
}

static json_t *get_child(json_t *parent, const char *name)
{
    return json_is_array(parent) ? json_array_get(parent, strtoul(name, NULL, 10))
                                 : json_object_get(parent, name);
}

static json_t *find_place(json_t *document, const char *path)
{
    if (*path == '\0')
        return document;
    TIDE_CLEANUP(tide_freep) char *copy = strdup(path);
    const char *last = cut_last(copy);
    json_t *found = get_child(find_place(document, copy), last);
    assert_non_null(found);
    return found;
}

static void apply_one(applied *a, size_t i)
{
    if (a->paths[i][0] == '\0') {
        assert_int_equal(a->kinds[i], TIDE_DIFFERENCE_CHANGED);
        assert_true(json_equal(a->document, a->before[i]));
        json_decref(a->document);
        a->document = json_incref(a->after[i]);
        return;
    }
    TIDE_CLEANUP(tide_freep) char *path = strdup(a->paths[i]);
    const char *name = cut_last(path);
    json_t *parent = find_place(a->document, path);
    const size_t index = json_is_array(parent) ? strtoul(name, NULL, 10) : 0;
    if (a->kinds[i] == TIDE_DIFFERENCE_ADDED) {
        assert_true(json_is_array(parent) || !json_object_get(parent, name));
        assert_int_equal(0, json_is_array(parent) ? json_array_insert(parent, index, a->after[i])
                                                  : json_object_set(parent, name, a->after[i]));
        return;
    }
    assert_true(json_equal(get_child(parent, name), a->before[i]));
    if (a->kinds[i] == TIDE_DIFFERENCE_REMOVED)
        assert_int_equal(0, json_is_array(parent) ? json_array_remove(parent, index)
                                                  : json_object_del(parent, name));
    else
        assert_int_equal(0, json_is_array(parent) ? json_array_set(parent, index, a->after[i])
                                                  : json_object_set(parent, name, a->after[i]));
}

static void apply_all(applied *a)
{
    for (size_t i = a->count; i-- > 0;) {
        if (a->kinds[i] == TIDE_DIFFERENCE_REMOVED)
            apply_one(a, i);
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->kinds[i] == TIDE_DIFFERENCE_ADDED)
            apply_one(a, i);
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->kinds[i] == TIDE_DIFFERENCE_CHANGED)
            apply_one(a, i);
    }
    for (size_t i = 0; i < a->count; i++) {
        free(a->paths[i]);
        json_decref(a->before[i]);
        json_decref(a->after[i]);
    }
}

/* Returns how many differences there are. */
static size_t check_differences(const char *before, const char *after)
{
    static applied a;
    a.count = 0;
    a.document = load(tide_view_of(before));
    tide_error err;
    assert_ok_err(tide_json_diff(tide_view_of(before), tide_view_of(after), keep, &a, &err), &err);
    const size_t count = a.count;
    apply_all(&a);
    json_t *want = load(tide_view_of(after));
    if (!json_equal(a.document, want))
        fail_msg("not the same:\n%s\n%s", before, after);
    json_decref(want);
    json_decref(a.document);
    return count;
}

static json_t *make_value(prng *random, int depth);

static json_t *make_container(prng *random, int depth)
{
    static const char *const KEYS[] = {
        "a",   "b", "c", "/", "~", "~1", "\n", "", "\xC3\xBC", "\xF0\x9F\x98\x80", "\xEF\xAC\xB3",
        "\"\\"};
    const bool is_object = prng_chance(random, 1, 2);
    json_t *made = is_object ? json_object() : json_array();
    for (uint64_t i = prng_below(random, 8); i > 0; i--) {
        json_t *value = make_value(random, depth + 1);
        assert_int_equal(0, is_object
                                ? json_object_set_new(made, KEYS[prng_below(random, 12)], value)
                                : json_array_append_new(made, value));
    }
    return made;
}

static json_t *make_value(prng *random, int depth)
{
    switch (prng_below(random, depth < 5 ? 7 : 4)) {
    case 0:
        return json_null();
    case 1:
        return json_string(prng_chance(random, 1, 2) ? "],\"[" : "}\\\"{");
    case 2:
    case 3:
        return json_integer((json_int_t)prng_below(random, 4));
    default:
        return make_container(random, depth);
    }
}

/* Change something somewhere below. */
static void mutate(prng *random, json_t *value)
{
    if (json_is_array(value) && json_array_size(value) > 0) {
        const size_t at = prng_below(random, json_array_size(value));
        switch (prng_below(random, 4)) {
        case 0:
            assert_int_equal(0, json_array_insert_new(value, at, make_value(random, 4)));
            return;
        case 1:
            assert_int_equal(0, json_array_remove(value, at));
            return;
        case 2:
            assert_int_equal(0, json_array_set_new(value, at, make_value(random, 4)));
            return;
        default:
            mutate(random, json_array_get(value, at));
            return;
        }
    }
    if (json_is_object(value) && json_object_size(value) > 0) {
        void *at = json_object_iter(value);
        for (uint64_t i = prng_below(random, json_object_size(value)); i > 0; i--)
            at = json_object_iter_next(value, at);
        switch (prng_below(random, 4)) {
        case 0:
            assert_int_equal(0, json_object_del(value, json_object_iter_key(at)));
            return;
        case 1:
            assert_int_equal(0, json_object_iter_set_new(value, at, make_value(random, 4)));
            return;
        default:
            mutate(random, json_object_iter_value(at));
            return;
        }
    }
}

/* The promise of the header, for documents that resemble each other and for those that do not. */
static void applied_differences_give_the_second_document(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(6901));
    for (int round = 0; round < 3000; round++) {
        json_t *value = make_value(&random, 0);
        TIDE_CLEANUP(tide_freep) char *before = json_dumps(value, JSON_ENCODE_ANY);
        if (prng_chance(&random, 1, 10)) {
            json_decref(value);
            value = make_value(&random, 0);
        }
        for (uint64_t i = prng_below(&random, 5); i > 0; i--)
            mutate(&random, value);
        TIDE_CLEANUP(tide_freep) char *after = json_dumps(value, JSON_ENCODE_ANY);
        json_decref(value);
        const size_t there = check_differences(before, after);
        const size_t back = check_differences(after, before);
        assert_int_equal(there == 0, back == 0);
        assert_int_equal(check_differences(after, after), 0);
    }
}

/* --- sizes --- */

static void append_numbers(tide_buffer *text, int first, int count, int step)
{
    for (int i = 0; i < count; i++)
        assert_ok(tide_buffer_printf(text, "%s%d", text->len > 1 ? "," : "", first + i * step));
}

static void make_array(tide_buffer *text, int count, int inserted_at)
{
    tide_buffer_init(text, TEXT_MAX);
    assert_ok(tide_buffer_append_byte(text, '['));
    append_numbers(text, 0, inserted_at, 1);
    if (inserted_at < count)
        append_numbers(text, -1, 1, 1);
    append_numbers(text, inserted_at, count - inserted_at, 1);
    assert_ok(tide_buffer_append_byte(text, ']'));
}

static size_t count_in_array(int count, int inserted_at)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
    make_array(&before, count, count);
    make_array(&after, count, inserted_at);
    return check_differences(before.ptr, after.ptr);
}

/* Also in long arrays: equal ends do not count against the limit of what is aligned. */
static void an_insertion_into_a_long_array_is_one_addition(void **state)
{
    (void)state;
    assert_int_equal(count_in_array(1999, 1000), 1);
    assert_int_equal(count_in_array(5000, 0), 1);
    assert_int_equal(count_in_array(TIDE_JSON_DIFF_TRIM_MAX - 1, 30000), 1);
}

/* Every second element of one array stands in the other: aligned up to the limit, by position
 * beyond. */
static void alignment_ends_at_its_limit(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        const int count = TIDE_JSON_DIFF_ALIGN_MAX + over;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
        tide_buffer_init(&before, TEXT_MAX);
        tide_buffer_init(&after, TEXT_MAX);
        assert_ok(tide_buffer_append_byte(&before, '['));
        append_numbers(&before, 1, count, 1);
        assert_ok(tide_buffer_append_byte(&before, ']'));
        assert_ok(tide_buffer_append_byte(&after, '['));
        append_numbers(&after, 2, 900, 2);
        assert_ok(tide_buffer_append_byte(&after, ']'));
        const size_t differences = check_differences(before.ptr, after.ptr);
        assert_int_equal(differences, over ? count : count - 900);
    }
}

static tide_status count_one(void *arg, const tide_difference *d, tide_error *err)
{
    (void)d;
    (void)err;
    (*(size_t *)arg)++;
    return TIDE_OK;
}

/* Above the limit of elements that are kept at once, by position and without memory for them. */
static void very_long_arrays_are_compared_by_position(void **state)
{
    (void)state;
    const int count = 3 * TIDE_JSON_DIFF_TRIM_MAX;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
    make_array(&before, count, count);
    make_array(&after, count, count - 10);
    size_t differences = 0;
    assert_ok(tide_json_diff(tide_buffer_view(&before), tide_buffer_view(&after), count_one,
                             &differences, NULL));
    assert_int_equal(differences, 11); /* ten moved by one, and one more */
    differences = 0;
    assert_ok(tide_json_diff(tide_buffer_view(&after), tide_buffer_view(&before), count_one,
                             &differences, NULL));
    assert_int_equal(differences, 11);
}

/* Arrays as long as can be aligned, without a common element in the second document's; and at the
 * end the numbers to 1000, or only the even ones. */
static void make_arrays(tide_buffer *text, int arrays, bool is_second)
{
    tide_buffer_init(text, TEXT_MAX);
    for (int i = 0; i < arrays; i++) {
        assert_ok(tide_buffer_append_text(text, i == 0 ? "[" : ","));
        for (int j = 0; j < TIDE_JSON_DIFF_ALIGN_MAX; j++)
            assert_ok(tide_buffer_printf(text, "%s%d", j == 0 ? "[" : ",",
                                         (i + j) % 4 * 2 + (is_second ? 1 : 0)));
        assert_ok(tide_buffer_append_text(text, "]"));
    }
    for (int i = is_second ? 2 : 1; i <= 1000; i += is_second ? 2 : 1)
        assert_ok(tide_buffer_printf(text, "%s%d", i <= (is_second ? 2 : 1) ? ",[" : ",", i));
    assert_ok(tide_buffer_append_text(text, "]]"));
}

static size_t count_in_arrays(int arrays)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
    make_arrays(&before, arrays, false);
    make_arrays(&after, arrays, true);
    size_t differences = 0;
    assert_ok(tide_json_diff(tide_buffer_view(&before), tide_buffer_view(&after), count_one,
                             &differences, NULL));
    return differences - (size_t)arrays * TIDE_JSON_DIFF_ALIGN_MAX;
}

/* Many arrays that have nothing in common use up the effort that is allowed: the last array is then
 * compared by position. The answer is still right. */
static void the_effort_for_alignments_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(count_in_arrays(3), 500);
    assert_int_equal(count_in_arrays(70), 999); /* both end in 1000 */
}

static void make_deep(tide_buffer *text, const char *innermost)
{
    tide_buffer_init(text, TEXT_MAX);
    for (int i = 0; i < TIDE_JSON_NESTING_MAX; i++)
        assert_ok(tide_buffer_append_text(text, i % 2 ? "{\"k\":" : "[0,"));
    assert_ok(tide_buffer_append_text(text, innermost));
    for (int i = TIDE_JSON_NESTING_MAX - 1; i >= 0; i--)
        assert_ok(tide_buffer_append_text(text, i % 2 ? "}" : "]"));
}

/* As deep as documents may be. */
static void deep_documents_are_compared(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer want;
    make_deep(&before, "1");
    make_deep(&after, "2");
    tide_buffer_init(&want, TEXT_MAX);
    assert_ok(tide_buffer_append_text(&want, "~ "));
    for (int i = 0; i < TIDE_JSON_NESTING_MAX; i++)
        assert_ok(tide_buffer_append_text(&want, i % 2 ? "/k" : "/1"));
    assert_ok(tide_buffer_append_text(&want, " 1 2\n"));
    expect_diff(tide_buffer_text(&before), tide_buffer_text(&after), tide_buffer_text(&want));
}

/* Pairs of long arrays side by side, the second's with one element more in front. */
static void make_siblings(tide_buffer *text, int arrays, bool is_second)
{
    tide_buffer_init(text, TEXT_MAX);
    for (int i = 0; i < arrays; i++) {
        assert_ok(tide_buffer_append_text(text, i == 0 ? "[" : ","));
        assert_ok(tide_buffer_append_text(text, is_second ? "[9,0" : "[0"));
        for (int j = 1; j < 60000; j++)
            assert_ok(tide_buffer_append_text(text, j % 3 ? ",1" : ",2"));
        assert_ok(tide_buffer_append_text(text, "]"));
    }
    assert_ok(tide_buffer_append_text(text, "]"));
}

/* What was kept of an array is given back behind it: 6 million elements fit, one array at a time.
 * */
static void long_arrays_side_by_side_do_not_add_up(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer before;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer after;
    make_siblings(&before, 50, false);
    make_siblings(&after, 50, true);
    size_t differences = 0;
    assert_ok(tide_json_diff(tide_buffer_view(&before), tide_buffer_view(&after), count_one,
                             &differences, NULL));
    assert_int_equal(differences, 50);
}

/* --- failures --- */

/* The words say which document is bad, and where. */
static void bad_documents_are_refused(void **state)
{
    (void)state;
    tide_error err = {0};
    size_t calls = 0;
    assert_status(TIDE_E_INVALID,
                  tide_json_diff(tide_view_of("[1,"), tide_view_of("[]"), count_one, &calls, &err));
    assert_contains(err.text, "the first document: line 1, column 4");
    assert_status(TIDE_E_INVALID,
                  tide_json_diff(tide_view_of("[]"), tide_view_of("{\"a\":1,\n\"a\":2}"), count_one,
                                 &calls, &err));
    assert_contains(err.text, "the second document: line 2, column 1");
    assert_status(TIDE_E_INVALID,
                  tide_json_diff(tide_view_of("1"), (tide_view){0}, count_one, &calls, NULL));
    assert_int_equal(calls, 0);
}

static tide_status refuse_second(void *arg, const tide_difference *d, tide_error *err)
{
    (void)d;
    int *calls = arg;
    return ++*calls == 2 ? tide_fail(err, TIDE_E_INTERRUPTED, "enough") : TIDE_OK;
}

/* Whoever is told may end it. */
static void a_failing_callback_ends_it(void **state)
{
    (void)state;
    int calls = 0;
    tide_error err = {0};
    assert_status(TIDE_E_INTERRUPTED,
                  tide_json_diff(tide_view_of("{\"a\":1,\"b\":[1,2],\"c\":3}"), tide_view_of("{}"),
                                 refuse_second, &calls, &err));
    assert_string_equal(err.text, "enough");
    assert_int_equal(calls, 2);
    calls = 0;
    assert_status(TIDE_E_INTERRUPTED,
                  tide_json_diff(tide_view_of("[[1,2,3]]"), tide_view_of("[[]]"), refuse_second,
                                 &calls, NULL));
    assert_int_equal(calls, 2);
}

typedef struct documents {
    tide_buffer before;
    tide_buffer after;
} documents;

static void diff_without_memory(void *arg)
{
    const documents *pair = arg;
    size_t differences = 0;
    tide_error err = {0};
    const tide_status status =
        tide_json_diff(tide_buffer_view(&pair->before), tide_buffer_view(&pair->after), count_one,
                       &differences, &err);
    if (status == TIDE_OK) {
        assert_int_equal(differences, 51);
    } else {
        assert_status(TIDE_E_NOMEM, status);
        assert_contains(err.text, "no memory");
        assert_true(differences <= 51);
    }
}

/* Without memory: an error, nothing lost. */
static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    documents pair;
    tide_buffer_init(&pair.before, TEXT_MAX);
    tide_buffer_init(&pair.after, TEXT_MAX);
    for (int i = 0; i < 50; i++) {
        const char *lead = i == 0 ? "[{\"a long key, to make paths grow beyond their first room, "
                                    "which is 64 bytes\":[0],"
                                  : ",{";
        assert_ok(tide_buffer_printf(&pair.before, "%s\"b\":%d,\"a\":[%d,1,2,3]}", lead, i, i));
        assert_ok(tide_buffer_printf(&pair.after, "%s\"b\":%d,\"a\":[%d,1,7,2,3]}", lead, i, i));
    }
    assert_ok(tide_buffer_append_text(&pair.before, "]"));
    assert_ok(tide_buffer_append_text(&pair.after, ",0]"));
    ALLOC_FAULT_SWEEP(diff_without_memory, &pair, SWEEP_MAX);
    tide_buffer_done(&pair.before);
    tide_buffer_done(&pair.after);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_documents_have_no_difference),
        cmocka_unit_test(members_are_compared_by_key),
        cmocka_unit_test(another_kind_is_one_change),
        cmocka_unit_test(paths_are_json_pointers),
        cmocka_unit_test(an_insertion_is_one_addition),
        cmocka_unit_test(changed_elements_are_compared_inside),
        cmocka_unit_test(applied_differences_give_the_second_document),
        cmocka_unit_test(an_insertion_into_a_long_array_is_one_addition),
        cmocka_unit_test(alignment_ends_at_its_limit),
        cmocka_unit_test(very_long_arrays_are_compared_by_position),
        cmocka_unit_test(the_effort_for_alignments_is_bounded),
        cmocka_unit_test(deep_documents_are_compared),
        cmocka_unit_test(long_arrays_side_by_side_do_not_add_up),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(a_failing_callback_ends_it),
        cmocka_unit_test_teardown(memory_that_runs_out_is_an_error, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
