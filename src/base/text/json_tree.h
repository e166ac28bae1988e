/* json_tree.h - a JSON text as values that refer to each other: for what is small and read by name.
 *
 *     TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = NULL;
 *     TIDE_TRY(tide_json_tree_read(&root, text, err));
 *     const char *name = tide_json_node_text(tide_json_node_find(root, "name"));
 *
 * json_scan.h decides what valid JSON is. The tree owns everything that it refers to; the text may
 * go. Every function takes NULL for a value that is not there, so that a path is read without a
 * check at each step.
 *
 * Numbers: written without point and exponent and within 64 bits, an integer; otherwise the nearest
 * double. A text may contain the character U+0000; text.len counts it. Of members with the same key
 * all are kept and the last counts.
 *
 * Memory: 64 bytes per value and the texts, at most 40 times the length of the document.
 *
 * Threads: a tree can be read by several threads at once. Limits: TIDE_JSON_NESTING_MAX. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"

typedef enum tide_json_type {
    TIDE_JSON_TYPE_NULL,
    TIDE_JSON_TYPE_FALSE,
    TIDE_JSON_TYPE_TRUE,
    TIDE_JSON_TYPE_INTEGER,
    TIDE_JSON_TYPE_REAL,
    TIDE_JSON_TYPE_TEXT,
    TIDE_JSON_TYPE_ARRAY,
    TIDE_JSON_TYPE_OBJECT,
} tide_json_type;

typedef struct tide_json_node {
    tide_json_type type;
    uint32_t count; /* members or elements */
    tide_view key;  /* of a member: its content, with a NUL behind it; ptr NULL: no member */
    tide_view text; /* TEXT: its content, with a NUL behind it; REAL: as it was written */
    union {
        int64_t integer;              /* INTEGER */
        double real;                  /* REAL */
        struct tide_json_node *first; /* ARRAY, OBJECT; NULL: empty */
    };
    struct tide_json_node *next; /* of the same array or object */
} tide_json_node;

/* TIDE_OK: *root is the caller's. TIDE_E_INVALID: not JSON; the words say where and why.
 * TIDE_E_NOMEM. *root is written only on TIDE_OK. */
TIDE_MUST_CHECK tide_status tide_json_tree_read(tide_json_node **root, tide_view text,
                                                tide_error *err);

/* The root of a tree, or NULL. */
void tide_json_tree_free(tide_json_node *root);
void tide_json_tree_freep(tide_json_node **root);

/* The value of a member. NULL: no object, or no such member. */
const tide_json_node *tide_json_node_find(const tide_json_node *object, const char *key);

/* An element, or a member in the order of the text, from 0. NULL: there is none. */
const tide_json_node *tide_json_node_at(const tide_json_node *parent, size_t index);

size_t tide_json_node_count(const tide_json_node *parent); /* 0: neither array nor object */

bool tide_json_node_is(const tide_json_node *node, tide_json_type type); /* NULL: false */

/* NULL: no text. Ends for C at the first U+0000. */
const char *tide_json_node_text(const tide_json_node *node);

int64_t tide_json_node_integer(const tide_json_node *node); /* 0: no integer */
double tide_json_node_real(const tide_json_node *node);     /* of both kinds; 0: no number */

/* Do both say the same? The order of members counts for nothing, 1 and 1.0 differ. */
bool tide_json_node_equal(const tide_json_node *a, const tide_json_node *b);
