/* vtab_plan.c - which batches a query needs. See vtab_parts.h.
 *
 * SQLite offers the terms of a WHERE that compare a column with a value. Those that help become two letters each in the plan's text,
 * one for what is compared and one for how; their values come later, with the scan, in the same order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/timefmt.h"
#include "feed/vtab_parts.h"

enum {
    PLAN_DOWN = 1, /* from the highest number on */
    PLAN_BODY = 2, /* records are looked into */
    TERMS_MAX = 32,
    VERSION_OF_IN = 3038000, /* the first SQLite that hands over a whole IN (...) */
};

/* What is compared. */
enum {
    TERM_NONE = 0,
    TERM_SEQ = 'q',
    TERM_TIME = 't',
    TERM_ARRIVED = 'a',
    TERM_SERVICE = 's',
    TERM_SERVICES = 'S', /* IN (...), all at once */
    TERM_SKIP_DAMAGED = 'd',
};

/* How. */
enum {
    HOW_NONE = 0,
    HOW_EQUAL = '=',
    HOW_ABOVE = '>',
    HOW_FROM = 'g',
    HOW_BELOW = '<',
    HOW_TO = 'l'
};

static char what_of(const tide_vtab *table, int column)
{
    const tide_stream_type *type = table->type;
    if (column <= 0) /* -1 is the rowid, which is the number */
        return TERM_SEQ;
    if (column == type->time_column + 1)
        return TERM_TIME;
    if (type->service_column >= 0 && column == type->service_column + 1)
        return TERM_SERVICE;
    if (column == type->column_count + TIDE_VTAB_ARRIVED_AT)
        return TERM_ARRIVED;
    return column == type->column_count + TIDE_VTAB_SKIP_DAMAGED ? TERM_SKIP_DAMAGED : TERM_NONE;
}

static char how_of(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return HOW_EQUAL;
    case SQLITE_INDEX_CONSTRAINT_GT:
        return HOW_ABOVE;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return HOW_FROM;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return HOW_BELOW;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return HOW_TO;
    default:
        return HOW_NONE;
    }
}

/* Texts are compared byte by byte here; a query may ask for another way. */
static bool is_plain_order(sqlite3_index_info *info, int term)
{
    const char *collation = sqlite3_vtab_collation(info, term);
    return collation && sqlite3_stricmp(collation, "BINARY") == 0;
}

static bool is_helpful(sqlite3_index_info *info, int term, char what, char how)
{
    if (what == TERM_NONE || how == HOW_NONE)
        return false;
    if (what == TERM_SERVICE)
        return how == HOW_EQUAL && is_plain_order(info, term);
    if (what == TERM_ARRIVED)
        return is_plain_order(info, term);
    return what != TERM_SKIP_DAMAGED || how == HOW_EQUAL;
}

/* A whole IN (...) of services is one scan, not one for each. */
static bool takes_whole_list(sqlite3_index_info *info, int term)
{
    return sqlite3_libversion_number() >= VERSION_OF_IN && sqlite3_vtab_in(info, term, -1) &&
           sqlite3_vtab_in(info, term, 1);
}

/* What the terms leave of a million rows, as a guess that orders plans. */
typedef struct estimate {
    bool has_number;
    bool has_first;
    bool has_last;
    double rows;
} estimate;

static void narrow(estimate *guess, char what, char how)
{
    if (what == TERM_SEQ) {
        guess->has_number = guess->has_number || how == HOW_EQUAL;
        guess->has_first = guess->has_first || how == HOW_ABOVE || how == HOW_FROM;
        guess->has_last = guess->has_last || how == HOW_BELOW || how == HOW_TO;
    } else if (what != TERM_SKIP_DAMAGED) {
        guess->rows /= how == HOW_EQUAL ? 10 : 2;
    }
}

static void tell_cost(sqlite3_index_info *info, const estimate *guess, bool needs_body)
{
    double rows = guess->rows;
    if (guess->has_first)
        rows /= 10;
    if (guess->has_last)
        rows /= 10;
    if (guess->has_number) {
        rows = 1;
        info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
    }
    info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
    /* One number still costs its whole batch. */
    info->estimatedCost = needs_body ? 500 + rows : 5 + rows / 100;
}

static bool needs_body(const tide_vtab *table, const sqlite3_index_info *info)
{
    const sqlite3_uint64 records = (((sqlite3_uint64)1 << table->type->column_count) - 1) << 1;
    return (info->colUsed & records) != 0;
}

int tide_vtab_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const tide_vtab *table = (const tide_vtab *)base;
    char terms[2 * TERMS_MAX + 1] = "";
    int count = 0;
    estimate guess = {.rows = 1000000};
    for (int i = 0; i < info->nConstraint && count < TERMS_MAX; i++) {
        const char what = what_of(table, info->aConstraint[i].iColumn);
        const char how = how_of(info->aConstraint[i].op);
        if (!is_helpful(info, i, what, how))
            continue;
        if (!info->aConstraint[i].usable) {
            /* What to do about damage must be known before the scan begins. */
            if (what == TERM_SKIP_DAMAGED)
                return SQLITE_CONSTRAINT;
            continue;
        }
        narrow(&guess, what, how);
        info->aConstraintUsage[i].argvIndex = count + 1;
        info->aConstraintUsage[i].omit = what == TERM_SKIP_DAMAGED;
        terms[2 * count] =
            what == TERM_SERVICE && takes_whole_list(info, i) ? (char)TERM_SERVICES : what;
        terms[2 * count + 1] = how;
        count++;
    }
    const bool is_opening = needs_body(table, info);
    info->idxNum = is_opening ? PLAN_BODY : 0;
    /* Numbers are unique: what else the order says does not matter. */
    if (info->nOrderBy > 0 && what_of(table, info->aOrderBy[0].iColumn) == TERM_SEQ) {
        info->orderByConsumed = 1;
        if (info->aOrderBy[0].desc)
            info->idxNum |= PLAN_DOWN;
    }
    tell_cost(info, &guess, is_opening);
    info->idxStr = sqlite3_mprintf("%s", terms);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- with values ---- */

static int64_t clamp(double number)
{
    if (!(number > -9.2e18))
        return INT64_MIN;
    return number < 9.2e18 ? (int64_t)number : INT64_MAX;
}

/* Narrow [*first, *last] by a comparison with a number. A fraction is rounded outwards; what is no number narrows nothing. */
static void bound_number(int64_t *first, int64_t *last, char how, sqlite3_value *value)
{
    int64_t low = INT64_MIN;
    int64_t high = INT64_MAX;
    const int type = sqlite3_value_numeric_type(value);
    if (type == SQLITE_INTEGER) {
        low = high = sqlite3_value_int64(value);
    } else if (type == SQLITE_FLOAT) {
        low = clamp(floor(sqlite3_value_double(value)));
        high = clamp(ceil(sqlite3_value_double(value)));
    } else {
        return;
    }
    if (how == HOW_ABOVE && type == SQLITE_INTEGER && low < INT64_MAX)
        low++;
    if (how == HOW_BELOW && type == SQLITE_INTEGER && high > INT64_MIN)
        high--;
    if ((how == HOW_EQUAL || how == HOW_ABOVE || how == HOW_FROM) && low > *first)
        *first = low;
    if ((how == HOW_EQUAL || how == HOW_BELOW || how == HOW_TO) && high < *last)
        *last = high;
}

/* A text that can be kept, without a NUL inside; NULL: it cannot. */
static const char *text_of(sqlite3_value *value)
{
    if (sqlite3_value_type(value) != SQLITE_TEXT)
        return NULL;
    const char *text = (const char *)sqlite3_value_text(value);
    const int len = sqlite3_value_bytes(value);
    return text && len <= TIDE_VTAB_VALUE_MAX && strlen(text) == (size_t)len ? text : NULL;
}

static void bound_arrival(tide_vtab_scan *scan, char how, sqlite3_value *value)
{
    const char *text = text_of(value);
    if (!text)
        return;
    if (how != HOW_BELOW && how != HOW_TO && strcmp(text, scan->first_arrived) > 0)
        (void)snprintf(scan->first_arrived, sizeof scan->first_arrived, "%s", text);
    if (how != HOW_ABOVE && how != HOW_FROM &&
        (!scan->has_last_arrived || strcmp(text, scan->last_arrived) < 0)) {
        (void)snprintf(scan->last_arrived, sizeof scan->last_arrived, "%s", text);
        scan->has_last_arrived = true;
    }
}

/* False: it cannot be kept, and the services narrow nothing. */
static bool add_service(tide_vtab_scan *scan, sqlite3_value *value)
{
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return true;
    const char *text = text_of(value);
    if (!text || scan->service_count == TIDE_VTAB_SERVICES_MAX)
        return false;
    (void)snprintf(scan->services[scan->service_count++], sizeof scan->services[0], "%s", text);
    return true;
}

static bool add_services(tide_vtab_scan *scan, sqlite3_value *list)
{
    sqlite3_value *value = NULL;
    int code = sqlite3_vtab_in_first(list, &value);
    while (code == SQLITE_OK && value) {
        if (!add_service(scan, value))
            return false;
        code = sqlite3_vtab_in_next(list, &value);
    }
    return code == SQLITE_OK || code == SQLITE_DONE;
}

static void apply_term(tide_vtab_scan *scan, char what, char how, sqlite3_value *value)
{
    switch (what) {
    case TERM_SEQ:
        bound_number(&scan->first_seq, &scan->last_seq, how, value);
        break;
    case TERM_TIME:
        bound_number(&scan->first_time_ms, &scan->last_time_ms, how, value);
        break;
    case TERM_ARRIVED:
        bound_arrival(scan, how, value);
        break;
    case TERM_SKIP_DAMAGED:
        scan->skips_damaged = sqlite3_value_int(value) != 0;
        break;
    case TERM_SERVICE:
    case TERM_SERVICES:
        /* Of two terms both would have to hold; one is enough to pass over batches. */
        if (scan->has_services)
            break;
        scan->service_count = 0;
        scan->has_services =
            what == TERM_SERVICES ? add_services(scan, value) : add_service(scan, value);
        break;
    default:
        break;
    }
}

void tide_vtab_scan_of(tide_vtab_scan *scan, int plan, const char *terms, sqlite3_value **values)
{
    scan->is_empty = false;
    scan->is_down = (plan & PLAN_DOWN) != 0;
    scan->needs_body = (plan & PLAN_BODY) != 0;
    scan->skips_damaged = false;
    scan->first_seq = 1;
    scan->last_seq = INT64_MAX;
    scan->first_time_ms = INT64_MIN;
    scan->last_time_ms = INT64_MAX;
    scan->first_arrived[0] = '\0';
    scan->has_last_arrived = false;
    scan->has_services = false;
    scan->service_count = 0;
    for (int i = 0; terms && terms[2 * i]; i++) {
        /* Nothing compares with NULL; a list is judged by its members. */
        if (terms[2 * i] != TERM_SERVICES && terms[2 * i] != TERM_SKIP_DAMAGED &&
            sqlite3_value_type(values[i]) == SQLITE_NULL)
            scan->is_empty = true;
        else
            apply_term(scan, terms[2 * i], terms[2 * i + 1], values[i]);
    }
    if (scan->first_seq > scan->last_seq || scan->first_time_ms > scan->last_time_ms)
        scan->is_empty = true;
}

static bool wants_arrival(const tide_vtab_scan *scan, int64_t arrived_us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (!scan->first_arrived[0] && !scan->has_last_arrived)
        return true;
    if (tide_time_format(arrived_us, text) != TIDE_OK)
        return true;
    return strcmp(text, scan->first_arrived) >= 0 &&
           (!scan->has_last_arrived || strcmp(text, scan->last_arrived) <= 0);
}

bool tide_vtab_scan_wants(const tide_vtab_scan *scan, const tide_batch_head *head)
{
    if (head->max_time_ms < scan->first_time_ms || head->min_time_ms > scan->last_time_ms ||
        !wants_arrival(scan, head->arrived_us))
        return false;
    const char *names[TIDE_VTAB_SERVICES_MAX];
    for (int i = 0; i < scan->service_count; i++)
        names[i] = scan->services[i];
    return !scan->has_services ||
           tide_record_services_may_hold(head->services, names, scan->service_count);
}
