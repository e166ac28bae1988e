/* json.h - JSON that a program printed, as trees (base/text/json_tree.h). What is not as it should
 * be fails the test.
 *
 * Threads: one. */
#pragma once

#include "base/text/json_tree.h"

/* One value, in which no object has a key twice; give it back with tide_json_tree_free. */
tide_json_node *json_read(tide_view text);

/* One object per line, each with its line break, as the elements of an array. */
tide_json_node *json_lines(const char *text);

/* A member that is a text, a whole number. */
const char *json_text(const tide_json_node *object, const char *key);
int64_t json_number(const tide_json_node *object, const char *key);

/* The value without white space, its members sorted by key; free(). */
char *json_dump(const tide_json_node *node);

static inline bool json_is_true(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_TRUE);
}

static inline bool json_is_false(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_FALSE);
}

static inline bool json_is_null(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_NULL);
}

static inline bool json_is_string(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_TEXT);
}

static inline bool json_is_array(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_ARRAY);
}

static inline bool json_is_object(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_OBJECT);
}

static inline bool json_is_number(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_INTEGER) ||
           tide_json_node_is(node, TIDE_JSON_TYPE_REAL);
}
