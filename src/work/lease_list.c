#include "work/lease_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

tide_status tide_lease_list_check(const tide_lease_list *list, int count, tide_error *err)
{
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_item_check_id("a work item's id", list[i].id, err));
    return TIDE_OK;
}

static int compare_held(const void *a, const void *b)
{
    const tide_lease_list *x = a;
    const tide_lease_list *y = b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

void tide_lease_list_sort(tide_lease_list *list, int count)
{
    qsort(list, (size_t)count, sizeof *list, compare_held);
}

bool tide_lease_list_has_twins(const tide_lease_list *list, int count)
{
    for (int i = 1; i < count; i++)
        if (strcmp(list[i - 1].id, list[i].id) == 0)
            return true;
    return false;
}

void tide_lease_list_reset(const tide_lease_list *list, int count)
{
    for (int i = 0; i < count; i++)
        *list[i].is_lost = true;
}

tide_status tide_lease_list_bind(tide_query *query, const char *name, const tide_lease_list *list,
                                 int count, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer buffer = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    tide_json json;
    tide_json_init(&json, &buffer);
    tide_json_array_begin(&json);
    for (int i = 0; i < count; i++) {
        if (!*list[i].is_lost)
            continue;
        tide_json_object_begin(&json);
        tide_json_key(&json, "id");
        tide_json_text(&json, list[i].id);
        tide_json_key(&json, "token");
        tide_json_i64(&json, list[i].token);
        if (list[i].output) {
            tide_json_key(&json, "output");
            tide_json_text(&json, list[i].output);
        }
        tide_json_key(&json, "digest");
        tide_json_i64(&json, tide_item_output_digest(list[i].id, list[i].output));
        tide_json_object_end(&json);
    }
    tide_json_array_end(&json);
    return tide_item_bind_list(query, name, &json, err);
}

tide_status tide_lease_list_put_element(tide_buffer *array, const char *text)
{
    if (!text)
        return tide_buffer_append_text(array, "NULL");
    TIDE_TRY(tide_buffer_append_byte(array, '"'));
    while (*text) {
        const size_t plain = strcspn(text, "\"\\");
        TIDE_TRY(tide_buffer_append(array, text, plain));
        text += plain;
        if (*text) {
            TIDE_TRY(tide_buffer_append_byte(array, '\\'));
            TIDE_TRY(tide_buffer_append_byte(array, (uint8_t)*text++));
        }
    }
    return tide_buffer_append_byte(array, '"');
}

typedef enum list_column { LIST_IDS, LIST_TOKENS, LIST_DIGESTS, LIST_OUTPUTS } list_column;

static tide_status put_column(tide_buffer *array, const tide_lease_list *held, list_column column)
{
    switch (column) {
    case LIST_TOKENS:
        return tide_buffer_append_decimal(array, held->token);
    case LIST_DIGESTS:
        return tide_buffer_append_decimal(array, tide_item_output_digest(held->id, held->output));
    case LIST_IDS:
        return tide_lease_list_put_element(array, held->id);
    case LIST_OUTPUTS:
        break;
    }
    return tide_lease_list_put_element(array, held->output);
}

static tide_status put_array(tide_buffer *array, const tide_lease_list *list, int count,
                             list_column column)
{
    TIDE_TRY(tide_buffer_append_byte(array, '{'));
    for (int i = 0; i < count; i++) {
        if (i > 0)
            TIDE_TRY(tide_buffer_append_byte(array, ','));
        TIDE_TRY(put_column(array, &list[i], column));
    }
    return tide_buffer_append_byte(array, '}');
}

tide_status tide_lease_list_bind_arrays(tide_query *query, const tide_lease_list *list, int count,
                                        tide_error *err)
{
    static const char *const names[] = {[LIST_IDS] = "ids",
                                        [LIST_TOKENS] = "tokens",
                                        [LIST_DIGESTS] = "digests",
                                        [LIST_OUTPUTS] = "outputs"};
    for (list_column column = LIST_IDS; column <= LIST_OUTPUTS; column++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer array = tide_buffer_of(TIDE_ITEM_LIST_MAX);
        const tide_status status = put_array(&array, list, count, column);
        TIDE_TRY(tide_item_check_list(status, err));
        tide_query_bind_text_view(query, names[column], tide_buffer_view(&array));
    }
    return TIDE_OK;
}

static int compare_view(tide_view a, tide_view b)
{
    const int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

const tide_lease_list *tide_lease_list_mark(const tide_lease_list *list, int count, tide_view id,
                                            int64_t token)
{
    const tide_lease_list *marked = NULL;
    int low = 0;
    int high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (compare_view(tide_view_of(list[middle].id), id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && tide_view_equal(tide_view_of(list[low].id), id); low++)
        if (list[low].token == token) {
            *list[low].is_lost = false;
            marked = &list[low];
        }
    return marked;
}

int tide_lease_list_count_lost(const tide_lease_list *list, int count)
{
    int lost = 0;
    for (int i = 0; i < count; i++)
        lost += *list[i].is_lost;
    return lost;
}
