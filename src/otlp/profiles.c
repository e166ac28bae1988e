/* profiles.c - profiles: a record per sample. A profile is taken whole or not at all, so it is checked before its first record. */
#include "base/cleanup.h"
#include "otlp/decode.h"

#include "feed/record.h"

#include <assert.h>

typedef enum profile_kind {
    PROFILE_OTHER,
    PROFILE_SAMPLES,  /* cpu_profile: a count */
    PROFILE_CPU_TIME, /* cpu_profile: nanoseconds, which are samples by the period */
    PROFILE_ALLOC_BYTES,
    PROFILE_ALLOC_OBJECTS,
} profile_kind;

typedef struct profile {
    profile_kind kind;
    int64_t unit_ns; /* of CPU time */
    int64_t period_ns;
    uint64_t time_ns;
    int32_t pid;
} profile;

typedef struct sample {
    uint64_t stack;
    uint64_t time_ns; /* the first */
    int64_t values;   /* their sum */
    int value_count;
    int time_count;
    int32_t pid;
    tide_otlp_reason flaw;
    uint64_t ids[TIDE_OTLP_STACK_MAX];
    int id_count;
} sample;

/* ---- types ---- */

static bool is_one_of(tide_view text, const char *const *names)
{
    for (; *names; names++)
        if (tide_view_equal(text, tide_view_of(*names)))
            return true;
    return false;
}

static int64_t time_unit_ns(tide_view unit)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"nanoseconds", 1},        {"ns", 1},       {"microseconds", 1000},  {"us", 1000},
        {"milliseconds", 1000000}, {"ms", 1000000}, {"seconds", 1000000000}, {"s", 1000000000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (tide_view_equal(unit, tide_view_of(units[i].name)))
            return units[i].ns;
    return 0;
}

static void classify(profile *p, tide_view type, tide_view unit)
{
    static const char *const cpu[] = {"samples", "cpu", "on_cpu", "on-cpu", NULL};
    static const char *const space[] = {"alloc_space", "allocated_space", "alloc_bytes", NULL};
    static const char *const objects[] = {"alloc_objects", "allocated_objects", NULL};
    static const char *const counts[] = {"count", "1", "", NULL};
    static const char *const bytes[] = {"bytes", "By", "byte", NULL};
    p->kind = PROFILE_OTHER;
    p->unit_ns = time_unit_ns(unit);
    if (is_one_of(type, cpu) && (p->unit_ns > 0 || is_one_of(unit, counts)))
        p->kind = p->unit_ns > 0 ? PROFILE_CPU_TIME : PROFILE_SAMPLES;
    else if (is_one_of(type, space) && is_one_of(unit, bytes))
        p->kind = PROFILE_ALLOC_BYTES;
    else if (is_one_of(type, objects) && is_one_of(unit, counts))
        p->kind = PROFILE_ALLOC_OBJECTS;
}

static tide_status read_type(tide_otlp *otlp, const tide_otlp_message *message,
                             const tide_otlp_field *field, profile *p)
{
    tide_otlp_message type;
    tide_otlp_enter(&type, message, field);
    uint64_t name = 0;
    uint64_t unit = 0;
    tide_otlp_field part;
    TIDE_EACH(tide_otlp_next(&type, &part)) {
        if (part.number == TIDE_OTLP_TYPE_NAME)
            name = part.u64;
        else
            unit = part.u64;
    }
    classify(p, tide_otlp_dictionary_string(&otlp->dictionary, name),
             tide_otlp_dictionary_string(&otlp->dictionary, unit));
    return TIDE_OK;
}

/* Converters of pprof tell samples twice, by count and by CPU time: the counts count. */
tide_status tide_otlp_look_at_profiles(tide_otlp *otlp, const tide_otlp_message *scope)
{
    otlp->has_counts = false;
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, scope);
    tide_otlp_field field;
    tide_status status = TIDE_OK;
    while (!otlp->has_counts && (status = tide_otlp_next(&ahead.message, &field)) == TIDE_OK) {
        if (field.number != TIDE_OTLP_GROUP_MEMBERS)
            continue;
        tide_otlp_message message;
        tide_otlp_enter(&message, &ahead.message, &field);
        profile p = {.kind = PROFILE_OTHER};
        while ((status = tide_otlp_next(&message, &field)) == TIDE_OK)
            if (field.number == TIDE_OTLP_PROFILE_TYPE)
                TIDE_TRY(read_type(otlp, &message, &field, &p));
        TIDE_TRY(status);
        otlp->has_counts = p.kind == PROFILE_SAMPLES;
    }
    return otlp->has_counts ? TIDE_OK : status;
}

/* ---- a sample ---- */

/* The process that an attribute names; as before where it is another attribute. */
static void take_attribute(const tide_otlp *otlp, uint64_t index, int32_t *pid,
                           tide_otlp_reason *flaw)
{
    const tide_otlp_pair *pair = tide_otlp_dictionary_pair(&otlp->dictionary, index);
    if (!pair)
        *flaw = TIDE_OTLP_REASON_REFERENCE;
    else if (tide_view_equal(pair->key, tide_view_of("process.pid")))
        *pid = tide_otlp_text_number(pair->value);
}

static void take_value(sample *s, uint64_t bits)
{
    const int64_t value = (int64_t)bits;
    s->value_count++;
    if (value < 0 || __builtin_add_overflow(s->values, value, &s->values))
        s->flaw = TIDE_OTLP_REASON_NO_VALUE;
}

static tide_status read_sample(tide_otlp *otlp, const tide_otlp_message *message,
                               const tide_otlp_field *field, sample *s)
{
    tide_otlp_message entry;
    tide_otlp_enter(&entry, message, field);
    s->stack = 0;
    s->time_ns = 0;
    s->values = 0;
    s->value_count = 0;
    s->time_count = 0;
    s->pid = 0;
    s->flaw = TIDE_OTLP_REASON_NONE;
    s->id_count = 0; /* a sample with a flaw has no stack */
    tide_otlp_field part;
    TIDE_EACH(tide_otlp_next(&entry, &part)) {
        if (part.number == TIDE_OTLP_SAMPLE_STACK)
            s->stack = part.u64;
        else if (part.number == TIDE_OTLP_SAMPLE_ATTRIBUTES)
            take_attribute(otlp, part.u64, &s->pid, &s->flaw);
        else if (part.number == TIDE_OTLP_SAMPLE_VALUES)
            take_value(s, part.u64);
        else if (s->time_count++ == 0)
            s->time_ns = part.u64;
    }
    if (s->value_count + s->time_count == 0 ||
        (s->value_count > 0 && s->time_count > 0 && s->value_count != s->time_count))
        s->flaw = TIDE_OTLP_REASON_NO_VALUE;
    if (s->flaw == TIDE_OTLP_REASON_NONE)
        s->flaw = tide_otlp_dictionary_stack(&otlp->dictionary, s->stack, s->ids, &s->id_count);
    return TIDE_OK;
}

/* ---- records ---- */

/* How often, how much. Without values each time counts as one. */
static int64_t amount_of(const profile *p, const sample *s)
{
    const int64_t events = s->value_count > 0 ? s->value_count : s->time_count;
    if (s->value_count == 0)
        return events;
    if (p->kind != PROFILE_CPU_TIME)
        return s->values;
    if (p->period_ns <= 0)
        return events;
    const int64_t ns = s->values > INT64_MAX / p->unit_ns ? INT64_MAX : s->values * p->unit_ns;
    return ns < p->period_ns ? 1 : ns / p->period_ns;
}

static tide_view find_build_id(const tide_otlp *otlp, const sample *s)
{
    static const char *const keys[] = {"process.executable.build_id.gnu",
                                       "process.executable.build_id.go",
                                       "process.executable.build_id.htlhash", NULL};
    const tide_view own = tide_otlp_find_attribute(otlp, keys);
    return own.len > 0 ? own : tide_otlp_dictionary_build_id(&otlp->dictionary, s->stack);
}

static tide_status write_cpu(tide_otlp *otlp, const profile *p, const sample *s)
{
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_CPU_PROFILE);
    tide_record_i64(batch, TIDE_CPU_PROFILE_TIMESTAMP,
                    tide_otlp_time_ms(otlp, s->time_ns ? s->time_ns : p->time_ns));
    tide_record_text(batch, TIDE_CPU_PROFILE_SERVICE_ID, otlp->service_name);
    tide_record_text(batch, TIDE_CPU_PROFILE_BUILD_ID, find_build_id(otlp, s));
    tide_record_i64(batch, TIDE_CPU_PROFILE_TGID, s->pid ? s->pid : p->pid);
    tide_record_u64(batch, TIDE_CPU_PROFILE_STACK_HASH,
                    tide_record_stack_hash(s->ids, s->id_count));
    tide_record_ids(batch, TIDE_CPU_PROFILE_STACK_FRAME_IDS, s->ids, s->id_count);
    tide_record_i64(batch, TIDE_CPU_PROFILE_SAMPLE_COUNT, amount_of(p, s));
    return tide_otlp_record_end(otlp, batch, -1);
}

static tide_status write_memory(tide_otlp *otlp, const profile *p, const sample *s)
{
    const int64_t amount = amount_of(p, s);
    const bool is_bytes = p->kind == PROFILE_ALLOC_BYTES;
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_MEMORY_PROFILE);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_TIMESTAMP,
                    tide_otlp_time_ms(otlp, s->time_ns ? s->time_ns : p->time_ns));
    tide_record_text(batch, TIDE_MEMORY_PROFILE_SERVICE_ID, otlp->service_name);
    tide_record_text(batch, TIDE_MEMORY_PROFILE_BUILD_ID, find_build_id(otlp, s));
    tide_record_u64(batch, TIDE_MEMORY_PROFILE_STACK_HASH,
                    tide_record_stack_hash(s->ids, s->id_count));
    tide_record_ids(batch, TIDE_MEMORY_PROFILE_STACK_FRAME_IDS, s->ids, s->id_count);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_BYTES, is_bytes ? amount : 0);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_OBJECTS, is_bytes ? 0 : amount);
    return tide_otlp_record_end(otlp, batch, -1);
}

/* ---- a profile ---- */

static tide_status check_field(tide_otlp *otlp, const tide_otlp_message *message,
                               const tide_otlp_field *field, profile *p, sample *s)
{
    tide_otlp_reason flaw = TIDE_OTLP_REASON_NONE;
    switch (field->number) {
    case TIDE_OTLP_PROFILE_TYPE:
        return read_type(otlp, message, field, p);
    case TIDE_OTLP_PROFILE_TIME:
        p->time_ns = field->u64;
        return TIDE_OK;
    case TIDE_OTLP_PROFILE_PERIOD:
        p->period_ns = (int64_t)field->u64;
        return TIDE_OK;
    case TIDE_OTLP_PROFILE_ATTRIBUTES:
        take_attribute(otlp, field->u64, &p->pid, &flaw);
        break;
    default: /* TIDE_OTLP_PROFILE_SAMPLES */
        TIDE_TRY(read_sample(otlp, message, field, s));
        flaw = s->flaw;
        break;
    }
    if (flaw != TIDE_OTLP_REASON_NONE)
        tide_otlp_note_flaw(otlp, flaw);
    return TIDE_OK;
}

/* All of it, before anything is written: what samples need may stand behind them. */
static tide_status check_profile(tide_otlp *otlp, const tide_otlp_message *message, profile *p,
                                 sample *s)
{
    static const char *const pid_keys[] = {"process.pid", NULL};
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, message);
    *p = (profile){.pid = tide_otlp_find_number(otlp, pid_keys)};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(&ahead.message, &field))
        TIDE_TRY(check_field(otlp, &ahead.message, &field, p, s));
    if (p->kind == PROFILE_OTHER)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_PROFILE_TYPE);
    return TIDE_OK;
}

tide_status tide_otlp_read_profile(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_begin_member(otlp);
    sample s;
    profile p;
    TIDE_TRY(check_profile(otlp, message, &p, &s));
    if (!tide_otlp_accept(otlp, otlp->service_name.len))
        return TIDE_OK;
    if (p.kind == PROFILE_CPU_TIME && otlp->has_counts) {
        otlp->output->unchanged++;
        return TIDE_OK;
    }
    const bool is_memory = p.kind == PROFILE_ALLOC_BYTES || p.kind == PROFILE_ALLOC_OBJECTS;
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(message, &field)) == TIDE_OK) {
        if (field.number != TIDE_OTLP_PROFILE_SAMPLES)
            continue;
        TIDE_TRY(read_sample(otlp, message, &field, &s));
        assert(s.flaw == TIDE_OTLP_REASON_NONE); /* check_profile has read the same bytes */
        TIDE_TRY(is_memory ? write_memory(otlp, &p, &s) : write_cpu(otlp, &p, &s));
    }
    return status;
}
