#include "colony/poller_parts.h"

void tide_poll_page_init(tide_poll_page *page, const tide_colony_type *type)
{
    page->records_max = type->stream->page;
    page->records = page->records_max;
    page->bytes = TIDE_ASK_BYTES_DEFAULT;
}

static int64_t at_most(int64_t value, int64_t max)
{
    return value < max ? value : max;
}

static int64_t at_least(int64_t value, int64_t min)
{
    return value > min ? value : min;
}

void tide_poll_page_grow(tide_poll_page *page, int64_t elapsed_us)
{
    if (elapsed_us > TIDE_POLL_PAGE_AIM_US) {
        page->records = at_least(page->records / 2, 1);
        page->bytes = at_least(page->bytes / 2, TIDE_POLL_PAGE_BYTES_MIN);
        return;
    }
    const int64_t bytes_max =
        elapsed_us <= TIDE_POLL_PAGE_QUICK_US ? TIDE_POLL_PAGE_BYTES_MAX : TIDE_ASK_BYTES_DEFAULT;
    page->records = at_most(page->records * 2, page->records_max);
    page->bytes = at_most(page->bytes * 2, at_least(bytes_max, page->bytes));
}

bool tide_poll_page_shrink(tide_poll_page *page)
{
    if (page->records == 1)
        return false;
    page->records = at_least(page->records / 4, 1);
    page->bytes = at_least(page->bytes / 4, TIDE_POLL_PAGE_BYTES_MIN);
    return true;
}

int64_t tide_poll_page_message_max(const tide_poll_page *page)
{
    return page->records == 1 ? TIDE_REPLY_BYTES_MAX : TIDE_ASK_BYTES_MAX;
}
