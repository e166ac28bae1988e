#include "store/sql_template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { DEPTH_MAX = 8, WORD_SIZE = 64 };

typedef struct filler {
    tide_buffer *out;
    const tide_template_context *context;
    const tide_template_item *items[DEPTH_MAX]; /* of the lists around, innermost last */
    int depth;
} filler;

tide_status tide_template_quote(tide_buffer *out, const char *name)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    for (; *name; name++) {
        if (*name == '"')
            TIDE_TRY(tide_buffer_append_byte(out, '"'));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*name));
    }
    return tide_buffer_append_byte(out, '"');
}

static bool has_keyword(const char *words, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

static bool is_set(const filler *f, const char *flag)
{
    const bool wanted = *flag != '!';
    const char *words = f->context->flags;
    for (int i = 0; i < f->depth; i++)
        if (f->items[i]->flags)
            words = f->items[i]->flags;
    return has_keyword(words, wanted ? flag : flag + 1) == wanted;
}

static const tide_template_list *find_in(const tide_template_list *lists, int count,
                                         const char *hole)
{
    for (int i = 0; i < count; i++)
        if (strcmp(lists[i].hole, hole) == 0)
            return &lists[i];
    return NULL;
}

static const tide_template_list *find_list(const filler *f, const char *hole)
{
    const tide_template_list *list = NULL;
    for (int i = f->depth - 1; i >= 0 && !list; i--)
        list = find_in(f->items[i]->lists, f->items[i]->list_count, hole);
    return list ? list : find_in(f->context->lists, f->context->list_count, hole);
}

/* Behind the {{end}} that belongs to the block which begins at text. */
static const char *find_end(const char *text, const char **after)
{
    int depth = 1;
    const char *at = text;
    for (;;) {
        at = strstr(at, "{{");
        assert(at && "sqlgen has checked the blocks");
        if (strncmp(at, "{{each ", 7) == 0 || strncmp(at, "{{if ", 5) == 0)
            depth++;
        else if (strncmp(at, "{{end}}", 7) == 0 && --depth == 0)
            break;
        at += 2;
    }
    *after = at + 7;
    return at;
}

static tide_status fill_hole(filler *f, const char *hole)
{
    const tide_template_item *item = f->depth > 0 ? f->items[f->depth - 1] : NULL;
    if (item && strcmp(hole, "name") == 0)
        return tide_template_quote(f->out, item->name);
    if (item && strcmp(hole, "n") == 0)
        return tide_buffer_printf(f->out, "%" PRId64, item->n);
    if (item && strcmp(hole, "p") == 0)
        return tide_buffer_printf(f->out, "%" PRId64, item->p);
    if (item && strcmp(hole, "bit") == 0)
        return tide_buffer_printf(f->out, "%" PRId64, item->bit);
    if (item && strcmp(hole, "sql") == 0)
        return tide_buffer_append_text(f->out, item->sql);
    for (int i = 0; i < f->context->value_count; i++) {
        const tide_template_value *value = &f->context->values[i];
        if (strcmp(value->hole, hole) == 0)
            return value->name ? tide_template_quote(f->out, value->name)
                               : tide_buffer_printf(f->out, "%" PRId64, value->number);
    }
    assert(false && "the template has a hole that is not known");
    return TIDE_E_FAILED;
}

static tide_status fill(filler *f, const char *text, const char *end);

/* `each LIST SEP` */
static tide_status fill_each(filler *f, const char *words, const char *body, const char *end)
{
    char hole[WORD_SIZE];
    const size_t len = strcspn(words, " ");
    assert(len < sizeof hole && f->depth < DEPTH_MAX);
    memcpy(hole, words, len);
    hole[len] = '\0';
    const char *between = words[len] ? words + len + 1 : "";
    const tide_template_list *list = find_list(f, hole);
    assert(list && "the template has a list that is not known");
    for (int i = 0; i < list->count; i++) {
        if (i > 0 && *between)
            TIDE_TRY(tide_buffer_printf(f->out, " %s ", between));
        f->items[f->depth++] = &list->items[i];
        const tide_status status = fill(f, body, end);
        f->depth--;
        TIDE_TRY(status);
    }
    return TIDE_OK;
}

static tide_status fill(filler *f, const char *text, const char *end)
{
    while (text < end) {
        const char *at = strstr(text, "{{");
        if (!at || at >= end)
            return tide_buffer_append(f->out, text, (size_t)(end - text));
        TIDE_TRY(tide_buffer_append(f->out, text, (size_t)(at - text)));
        const char *close = strstr(at, "}}");
        char hole[WORD_SIZE];
        const size_t len = (size_t)(close - at) - 2;
        assert(len < sizeof hole);
        memcpy(hole, at + 2, len);
        hole[len] = '\0';
        text = close + 2;
        const bool is_each = strncmp(hole, "each ", 5) == 0;
        if (!is_each && strncmp(hole, "if ", 3) != 0) {
            TIDE_TRY(fill_hole(f, hole));
            continue;
        }
        const char *body = text;
        const char *body_end = find_end(body, &text);
        if (is_each)
            TIDE_TRY(fill_each(f, hole + 5, body, body_end));
        else if (is_set(f, hole + 3))
            TIDE_TRY(fill(f, body, body_end));
    }
    return TIDE_OK;
}

tide_status tide_template_fill(tide_buffer *out, const tide_template *template,
                               const tide_template_context *context, tide_error *err)
{
    filler f = {.out = out, .context = context};
    const tide_status status = fill(&f, template->text, template->text + strlen(template->text));
    return status < TIDE_OK ? tide_fail(err, status, "the statement %s is too long", template->name)
                            : TIDE_OK;
}
