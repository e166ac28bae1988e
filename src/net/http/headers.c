#include "net/http/headers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "base/text/base64.h"

void tide_headers_init(tide_headers *head, size_t max)
{
    *head = (tide_headers){.max = max};
}

void tide_headers_done(tide_headers *head)
{
    for (size_t i = 0; i < head->count; i++)
        free(head->fields[i].name);
    free(head->fields);
    tide_headers_init(head, head->max);
}

bool tide_headers_is_binary(tide_view name)
{
    return name.len > 4 && strncasecmp(name.ptr + name.len - 4, "-bin", 4) == 0;
}

tide_status tide_headers_add(tide_headers *head, tide_view name, tide_view value)
{
    const size_t cost = name.len + value.len + TIDE_HEADERS_FIELD_COST;
    if (cost > head->max - head->cost)
        return TIDE_E_LIMIT;
    TIDE_TRY(tide_list_room(&head->fields, (int64_t)head->count, sizeof *head->fields,
                            TIDE_LIST_MAX, NULL));
    char *copy = malloc(name.len + value.len + 2);
    if (!copy)
        return TIDE_E_NOMEM;
    for (size_t i = 0; i < name.len; i++)
        copy[i] = (char)tolower((unsigned char)name.ptr[i]);
    copy[name.len] = '\0';
    char *text = copy + name.len + 1;
    if (value.len > 0)
        memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    head->fields[head->count++] = (tide_header_field){
        .name = copy, .value = text, .name_len = name.len, .value_len = value.len};
    head->cost += cost;
    return TIDE_OK;
}

void tide_headers_drop(tide_headers *head, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < head->count; i++) {
        const tide_header_field field = head->fields[i];
        if (strcmp(field.name, name) != 0) {
            head->fields[kept++] = field;
            continue;
        }
        head->cost -= field.name_len + field.value_len + TIDE_HEADERS_FIELD_COST;
        free(field.name);
    }
    head->count = kept;
}

const tide_header_field *tide_headers_find(const tide_headers *head, const char *name)
{
    for (size_t i = 0; i < head->count; i++) {
        if (strcmp(head->fields[i].name, name) == 0)
            return &head->fields[i];
    }
    return NULL;
}

const char *tide_headers_text(const tide_headers *head, const char *name)
{
    const tide_header_field *field = tide_headers_find(head, name);
    return field ? field->value : NULL;
}

size_t tide_headers_count(const tide_headers *head, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->count; i++)
        count += strcmp(head->fields[i].name, name) == 0;
    return count;
}

/* ";q=0", ";q=0.0" and their like. */
static bool is_unwanted(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == ';'))
        at++;
    if (end - at < 3 || (*at != 'q' && *at != 'Q') || at[1] != '=')
        return false;
    for (at += 2; at < end; at++) {
        if (*at >= '1' && *at <= '9')
            return false;
    }
    return true;
}

bool tide_headers_lists(const char *list, const char *token)
{
    const size_t len = strlen(token);
    while (list && *list != '\0') {
        while (*list == ' ' || *list == '\t' || *list == ',')
            list++;
        const char *end = strchrnul(list, ',');
        if (strncasecmp(list, token, len) == 0 && strchr(" \t,;", list[len]))
            return !is_unwanted(list + len, end);
        list = end;
    }
    return false;
}
