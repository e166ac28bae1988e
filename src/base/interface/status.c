/* status.c - the status table as data. */
#include <tidemark/status.h>

#include <stddef.h>

static const tide_status_row rows[] = {
#define TIDE_STATUS_ROW(name_, value_, retryable_, grpc_, http_, exit_, text_, next_)              \
    {.status = TIDE_##name_,                                                                       \
     .name = #name_,                                                                               \
     .text = (text_),                                                                              \
     .next = (next_),                                                                              \
     .is_retryable = (retryable_),                                                                 \
     .grpc_code = (grpc_),                                                                         \
     .http_code = (http_),                                                                         \
     .exit_code = TIDE_EXIT_##exit_},
    TIDE_STATUS_TABLE(TIDE_STATUS_ROW)
#undef TIDE_STATUS_ROW
};

static const tide_status_row *find_row(tide_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].status == status)
            return &rows[i];
    }
    return NULL;
}

const tide_status_row *tide_status_get(tide_status status)
{
    const tide_status_row *row = find_row(status);
    return row ? row : find_row(TIDE_E_FAILED);
}
