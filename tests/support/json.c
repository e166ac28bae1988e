#include "support/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_canon.h"
#include "support/check.h"

tide_json_node *json_read(tide_view text)
{
    tide_error err = {0};
    tide_json_node *root = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer canonical;
    tide_buffer_init(&canonical, TIDE_JSON_CANONICAL_MAX);
    if (tide_json_canonical(text, &canonical, &err) <
            TIDE_OK || /* refuses a key that is there twice */
        tide_json_tree_read(&root, text, &err) < TIDE_OK)
        fail_msg("not JSON: %s: %.*s", err.text, (int)text.len, text.ptr);
    return root;
}

tide_json_node *json_lines(const char *text)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer all;
    tide_buffer_init(&all, TIDE_JSON_TEXT_MAX);
    assert_ok(tide_buffer_append_byte(&all, '['));
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, "\n");
        if (*at != '{' || at[len] != '\n')
            fail_msg("not one JSON object per line: %s", text);
        if (at != text)
            assert_ok(tide_buffer_append_byte(&all, ','));
        assert_ok(tide_buffer_append(&all, at, len));
        at += len + 1;
    }
    assert_ok(tide_buffer_append_byte(&all, ']'));
    return json_read(tide_buffer_view(&all));
}

const char *json_text(const tide_json_node *object, const char *key)
{
    const char *text = tide_json_node_text(tide_json_node_find(object, key));
    if (!text)
        fail_msg("%s is no text", key);
    return text;
}

int64_t json_number(const tide_json_node *object, const char *key)
{
    const tide_json_node *value = tide_json_node_find(object, key);
    if (!tide_json_node_is(value, TIDE_JSON_TYPE_INTEGER))
        fail_msg("%s is no number", key);
    return tide_json_node_integer(value);
}

static void put_node(tide_json *json, const tide_json_node *node)
{
    switch (node->type) {
    case TIDE_JSON_TYPE_NULL:
        tide_json_null(json);
        return;
    case TIDE_JSON_TYPE_FALSE:
    case TIDE_JSON_TYPE_TRUE:
        tide_json_bool(json, node->type == TIDE_JSON_TYPE_TRUE);
        return;
    case TIDE_JSON_TYPE_INTEGER:
        tide_json_i64(json, node->integer);
        return;
    case TIDE_JSON_TYPE_REAL:
        tide_json_double(json, node->real);
        return;
    case TIDE_JSON_TYPE_TEXT:
        tide_json_view(json, node->text);
        return;
    case TIDE_JSON_TYPE_ARRAY:
        tide_json_array_begin(json);
        for (const tide_json_node *one = node->first; one; one = one->next)
            put_node(json, one);
        tide_json_array_end(json);
        return;
    case TIDE_JSON_TYPE_OBJECT:
        break;
    }
    tide_json_object_begin(json);
    for (const tide_json_node *one = node->first; one; one = one->next) {
        tide_json_key(json, one->key.ptr);
        put_node(json, one);
    }
    tide_json_object_end(json);
}

char *json_dump(const tide_json_node *node)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer canonical;
    tide_buffer_init(&text, TIDE_JSON_TEXT_MAX);
    tide_buffer_init(&canonical, TIDE_JSON_CANONICAL_MAX);
    tide_json json;
    tide_json_init(&json, &text);
    put_node(&json, node);
    assert_ok(tide_json_finish(&json));
    assert_ok(tide_json_canonical(tide_buffer_view(&text), &canonical, NULL));
    return TIDE_TAKE(canonical.ptr);
}
