#include "support/disk/flips.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "support/prng.h"

enum { FLIPS = 200, FLIPS_SOAK = 2000 };

/* ---- the file ---- */

typedef struct image {
    const char *path;
    char *bytes;
    size_t len;
} image;

static image read_image(const char *path)
{
    image i = {.path = path};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(0, fseek(file, 0, SEEK_END));
    i.len = (size_t)ftell(file);
    i.bytes = malloc(i.len);
    assert_non_null(i.bytes);
    rewind(file);
    assert_int_equal(i.len, fread(i.bytes, 1, i.len, file));
    (void)fclose(file);
    return i;
}

/* In its place, so that it is no copy to the store; with one bit changed. */
static void put_back(const image *i, size_t bit)
{
    char name[4096];
    static const char *const beside[] = {"-wal", "-shm"};
    for (int n = 0; n < 2; n++) {
        (void)snprintf(name, sizeof name, "%s%s", i->path, beside[n]);
        (void)unlink(name);
    }
    FILE *file = fopen(i->path, "r+b");
    assert_non_null(file);
    i->bytes[bit / 8] = (char)(i->bytes[bit / 8] ^ (1 << bit % 8));
    assert_int_equal(i->len, fwrite(i->bytes, 1, i->len, file));
    i->bytes[bit / 8] = (char)(i->bytes[bit / 8] ^ (1 << bit % 8));
    assert_int_equal(0, fflush(file));
    assert_int_equal(0, ftruncate(fileno(file), (off_t)i->len));
    (void)fclose(file);
}

static size_t draw_bit(const image *i, prng *p)
{
    size_t byte = 0;
    const bool is_used = prng_chance(p, 1, 2);
    do
        byte = prng_below(p, i->len);
    while (is_used && i->bytes[byte] == 0);
    return byte * 8 + prng_below(p, 8);
}

/* ---- answers ---- */

void flip_report(flip_answers *a, const char *text)
{
    if (a->reports++ == 0)
        (void)snprintf(a->report, sizeof a->report, "%s", text);
}

bool flip_is_told(flip_answers *a, tide_status status, const tide_error *err)
{
    if (status < TIDE_OK)
        flip_report(a, err->text);
    return status < TIDE_OK;
}

void flip_say(flip_answers *a, const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    for (char *at = line; *at; at++)
        if (*at == '\n')
            *at = ' ';
    assert_ok(tide_buffer_printf(&a->lines, "%s\n", line));
}

void flip_say_bytes(flip_answers *a, const char *what, int64_t number, tide_view bytes)
{
    char text[TIDE_DIGEST128_TEXT_SIZE];
    const tide_digest128 digest = tide_digest128_of(bytes);
    tide_hex_encode(text, digest.bytes, sizeof digest.bytes);
    flip_say(a, "V %s %lld %s", what, (long long)number, text);
}

/* The first line of these kinds in found that the truth does not have; NULL: there is none. */
static const char *find_wrong(const flip_answers *truth, const flip_answers *found,
                              const char *kinds, char line[1024])
{
    const char *at = tide_buffer_text(&found->lines);
    while (*at) {
        const size_t len = strcspn(at, "\n") + 1;
        assert_true(len < 1024);
        memcpy(line, at, len);
        line[len] = '\0';
        if (strchr(kinds, line[0]) && !strstr(tide_buffer_text(&truth->lines), line))
            return line;
        at += len;
    }
    return NULL;
}

static bool is_equal(const flip_answers *a, const flip_answers *b)
{
    return strcmp(tide_buffer_text(&a->lines), tide_buffer_text(&b->lines)) == 0;
}

static flip_answers ask(const flip_kind *k, void *scene)
{
    flip_answers a = {.lines = tide_buffer_of((size_t)64 << 20)};
    flip_say(&a, "R answers");
    k->ask(scene, &a);
    return a;
}

void flip_sweep(const flip_kind *k, void *scene)
{
    prng p;
    char line[1024];
    char missing[1024];
    int equal = 0;
    int by_read = 0;
    int by_verify = 0;
    int wrong = 0;
    const char *wanted = getenv("TIDEMARK_FLIPS");
    const int flips = wanted ? (int)strtol(wanted, NULL, 10) : is_soak() ? FLIPS_SOAK : FLIPS;
    image file = read_image(k->path);
    prng_init(&p, prng_seed_from_env(7));
    flip_answers truth = ask(k, scene);
    assert_string_equal("", truth.report);
    for (int n = 0; n < flips; n++) {
        const size_t bit = draw_bit(&file, &p);
        put_back(&file, bit);
        flip_answers found = ask(k, scene);
        const char *bad = find_wrong(&truth, &found, "V", line);
        const bool is_same = is_equal(&truth, &found);
        if (found.reports > 0) {
            by_read++;
        } else if (!is_same) {
            put_back(&file, bit);
            k->verify(scene, &found);
            by_verify += found.reports > 0;
        }
        equal += is_same && found.reports == 0;
        if (bad || (!is_same && found.reports == 0)) {
            const char *other = bad ? bad : find_wrong(&truth, &found, "VR", line);
            const char *gone = find_wrong(&found, &truth, "VR", missing);
            wrong++;
            print_error("%s: byte %zu, bit %zu: %s %s and not %s", k->name, bit / 8, bit % 8,
                        bad ? "served" : "nothing is reported of", other ? other : "nothing\n",
                        gone ? gone : "nothing\n");
        }
        tide_buffer_done(&found.lines);
    }
    print_message("%s: %d flips of %zu bytes: %d reported by reads, %d by verification, %d equal\n",
                  k->name, flips, file.len, by_read, by_verify, equal);
    tide_buffer_done(&truth.lines);
    free(file.bytes);
    assert_int_equal(0, wrong);
}
