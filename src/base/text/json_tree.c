#include "base/text/json_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/text/json_canon.h"

/* ---- building ---- */

typedef struct tree {
    tide_json_node root; /* first: the tree is known by it */
    tide_arena arena;
} tree;

/* Objects and arrays that are open, each with its last child. */
typedef struct builder {
    tree *tree;
    tide_buffer text; /* of an unescaped string */
    int depth;
    tide_json_node *open[TIDE_JSON_NESTING_MAX + 1];
    tide_json_node *last[TIDE_JSON_NESTING_MAX + 1];
    tide_view key; /* of the member under way */
} builder;

/* The content of a string in the tree's memory. */
static tide_status store_string(builder *b, const tide_json_token *token, tide_view *out,
                                tide_error *err)
{
    tide_view content = tide_view_bytes(token->text.ptr + 1, token->text.len - 2);
    if (token->has_escape) {
        tide_buffer_clear(&b->text);
        if (tide_json_unescape(&b->text, token->text) < TIDE_OK)
            return tide_no_memory(err);
        content = tide_buffer_view(&b->text);
    }
    char *copy = tide_arena_text(&b->tree->arena, content);
    TIDE_NEED_MEMORY(copy, err);
    *out = tide_view_bytes(copy, content.len);
    return TIDE_OK;
}

static tide_status store_number(builder *b, const tide_json_token *token, tide_json_node *node,
                                tide_error *err)
{
    char digits[24]; /* 20 digits and a sign are the longest that fit into 64 bits */
    char *copy = NULL;
    if (token->is_integer && token->text.len < sizeof digits) {
        memcpy(digits, token->text.ptr, token->text.len);
        digits[token->text.len] = '\0';
        errno = 0;
        node->integer = strtoll(digits, NULL, 10);
        node->type = TIDE_JSON_TYPE_INTEGER;
        if (errno == 0)
            return TIDE_OK;
    }
    node->type = TIDE_JSON_TYPE_REAL;
    copy = tide_arena_text(&b->tree->arena, token->text);
    TIDE_NEED_MEMORY(copy, err);
    node->text = tide_view_bytes(copy, token->text.len);
    if (!tide_json_scan_double(node->text, &node->real))
        return tide_fail(err, TIDE_E_INVALID, "a number is too large");
    return TIDE_OK;
}

/* A new value under what is open; the first is the root. */
static tide_json_node *add_node(builder *b)
{
    tide_json_node *node = &b->tree->root;
    if (b->depth > 0) {
        tide_json_node *parent = b->open[b->depth];
        tide_json_node *last = b->last[b->depth];
        node = tide_arena_alloc(&b->tree->arena, sizeof *node);
        if (!node)
            return NULL;
        *(last ? &last->next : &parent->first) = node;
        b->last[b->depth] = node;
        parent->count++;
    }
    *node = (tide_json_node){.key = b->key};
    b->key = (tide_view){NULL, 0};
    return node;
}

static tide_status add_value(builder *b, const tide_json_token *token, tide_error *err)
{
    tide_json_node *node = add_node(b);
    TIDE_NEED_MEMORY(node, err);
    switch (token->kind) {
    case TIDE_JSON_OBJECT_BEGIN:
    case TIDE_JSON_ARRAY_BEGIN:
        node->type =
            token->kind == TIDE_JSON_ARRAY_BEGIN ? TIDE_JSON_TYPE_ARRAY : TIDE_JSON_TYPE_OBJECT;
        b->depth++;
        b->open[b->depth] = node;
        b->last[b->depth] = NULL;
        return TIDE_OK;
    case TIDE_JSON_STRING:
        node->type = TIDE_JSON_TYPE_TEXT;
        return store_string(b, token, &node->text, err);
    case TIDE_JSON_NUMBER:
        return store_number(b, token, node, err);
    case TIDE_JSON_LITERAL:
        node->type = token->text.ptr[0] == 't'   ? TIDE_JSON_TYPE_TRUE
                     : token->text.ptr[0] == 'f' ? TIDE_JSON_TYPE_FALSE
                                                 : TIDE_JSON_TYPE_NULL;
        return TIDE_OK;
    case TIDE_JSON_OBJECT_END:
    case TIDE_JSON_ARRAY_END:
    case TIDE_JSON_KEY:
    case TIDE_JSON_END:
        break;
    }
    return TIDE_OK;
}

static tide_status build(builder *b, tide_view text, tide_error *err)
{
    tide_json_scan scan;
    tide_json_token token;
    tide_json_scan_init(&scan, text);
    for (;;) {
        TIDE_TRY(tide_json_scan_next(&scan, &token, err));
        if (token.kind == TIDE_JSON_END)
            return TIDE_OK;
        if (token.kind == TIDE_JSON_KEY)
            TIDE_TRY(store_string(b, &token, &b->key, err));
        else if (token.kind == TIDE_JSON_OBJECT_END || token.kind == TIDE_JSON_ARRAY_END)
            b->depth--;
        else
            TIDE_TRY(add_value(b, &token, err));
    }
}

tide_status tide_json_tree_read(tide_json_node **root, tide_view text, tide_error *err)
{
    builder b = {.tree = calloc(1, sizeof *b.tree)};
    TIDE_NEED_MEMORY(b.tree, err);
    tide_arena_init(&b.tree->arena, text.len * 40 + 4096);
    tide_buffer_init(&b.text, text.len);
    const tide_status status = build(&b, text, err);
    tide_buffer_done(&b.text);
    if (status < TIDE_OK)
        tide_json_tree_free(&b.tree->root);
    else
        *root = &b.tree->root;
    return status;
}

void tide_json_tree_free(tide_json_node *root)
{
    tree *owner = (tree *)(void *)root;
    if (!owner)
        return;
    tide_arena_done(&owner->arena);
    free(owner);
}

void tide_json_tree_freep(tide_json_node **root)
{
    tide_json_tree_free(*root);
    *root = NULL;
}

/* ---- reading ---- */

bool tide_json_node_is(const tide_json_node *node, tide_json_type type)
{
    return node && node->type == type;
}

static const tide_json_node *get_first(const tide_json_node *parent)
{
    return tide_json_node_count(parent) > 0 ? parent->first : NULL;
}

static const tide_json_node *find(const tide_json_node *object, tide_view key)
{
    const tide_json_node *found = NULL;
    if (tide_json_node_is(object, TIDE_JSON_TYPE_OBJECT))
        for (const tide_json_node *at = get_first(object); at; at = at->next)
            if (tide_view_equal(at->key, key))
                found = at;
    return found;
}

const tide_json_node *tide_json_node_find(const tide_json_node *object, const char *key)
{
    return find(object, tide_view_of(key));
}

const tide_json_node *tide_json_node_at(const tide_json_node *parent, size_t index)
{
    const tide_json_node *at = get_first(parent);
    for (; at && index > 0; index--)
        at = at->next;
    return at;
}

size_t tide_json_node_count(const tide_json_node *parent)
{
    return parent ? parent->count : 0;
}

const char *tide_json_node_text(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_TEXT) ? node->text.ptr : NULL;
}

int64_t tide_json_node_integer(const tide_json_node *node)
{
    return tide_json_node_is(node, TIDE_JSON_TYPE_INTEGER) ? node->integer : 0;
}

double tide_json_node_real(const tide_json_node *node)
{
    if (tide_json_node_is(node, TIDE_JSON_TYPE_INTEGER))
        return (double)node->integer;
    return tide_json_node_is(node, TIDE_JSON_TYPE_REAL) ? node->real : 0;
}

/* Every member of a is the one of b; with as many members that is all. Nesting is bounded. */
static bool has_equal_children(const tide_json_node *a, const tide_json_node *b)
{
    const tide_json_node *other = get_first(b);
    if (a->count != b->count)
        return false;
    for (const tide_json_node *at = get_first(a); at; at = at->next) {
        if (!tide_json_node_equal(at, at->key.ptr ? find(b, at->key) : other))
            return false;
        other = other->next;
    }
    return true;
}

bool tide_json_node_equal(const tide_json_node *a, const tide_json_node *b)
{
    if (!a || !b || a->type != b->type)
        return false;
    switch (a->type) {
    case TIDE_JSON_TYPE_INTEGER:
        return a->integer == b->integer;
    case TIDE_JSON_TYPE_REAL:
        return a->real >= b->real && a->real <= b->real;
    case TIDE_JSON_TYPE_TEXT:
        return tide_view_equal(a->text, b->text);
    case TIDE_JSON_TYPE_ARRAY:
    case TIDE_JSON_TYPE_OBJECT:
        return has_equal_children(a, b);
    case TIDE_JSON_TYPE_NULL:
    case TIDE_JSON_TYPE_FALSE:
    case TIDE_JSON_TYPE_TRUE:
        break;
    }
    return true;
}
