/* sqlgen - compiles the files of sql/ into a C catalogue.
 *
 * Input is a list of files made of blocks. A block begins with a marker line and reaches to the next one:
 *
 *     -- statement: NAME                      the text serves every engine
 *     -- statement: NAME  engine: ENGINE      a variant; the other engines need one too
 *     -- statement: NAME  only: ENGINE        exists for this engine alone
 *     -- statement: NAME  bulk: ENGINE        a variant for tide_bulk: many rows at once; cannot be prepared everywhere
 *     -- migration: NUMBER  version: TEXT  name: NAME  engine: ENGINE
 *     -- migration: ...  engine: ENGINE  part: N      one of several blocks, in any file: joined in the order of N
 *     -- template: NAME                       SQLite alone; a text with {{holes}} (store/sql_template.h), TIDE_TEMPLATE_<NAME>
 *
 * In statements, :name is a parameter: it becomes ?N for SQLite and $N for PostgreSQL, numbered by first
 * appearance. Quoted text, comments and PostgreSQL's :: casts are left alone. Migrations are taken as they are. Templates keep :name.
 *
 * The build fails, naming file and line, on: a block given twice, a block missing for an engine, an unknown
 * engine or marker, a statement without text, migrations that do not count 1, 2, 3, ...
 *
 * Usage: sqlgen PREFIX HEADER SOURCE FILE...      (PREFIX: tide_sql gives tide_sql_catalogue, TIDE_SQL_<NAME>) */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 2, BLOCK_MAX = 4096, PARAM_MAX = 48, PART_MAX = 32, NAME_SIZE = 96 };

static const char *const engine_names[ENGINES] = {"sqlite", "postgres"};
static const char engine_marks[ENGINES] = {'?', '$'};

typedef struct variant {
    char *text; /* NULL: not given */
    char params[PARAM_MAX][NAME_SIZE];
    int param_count;
    const char *file;
    int line;
    char *parts[PART_MAX]; /* of a migration, until they are joined */
    int part_count;        /* the highest number */
} variant;

typedef struct block {
    char name[NAME_SIZE];
    char version[NAME_SIZE];
    int number; /* of a migration; 0: a statement */
    bool is_only;
    bool is_bulk;
    bool is_template;
    variant engine[ENGINES];
} block;

static block blocks[BLOCK_MAX];
static int block_count;

__attribute__((noreturn, format(printf, 3, 4))) static void die(const char *file, int line,
                                                                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "%s:%d: ", file, line);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void *grab(size_t len)
{
    void *memory = calloc(1, len);
    if (!memory)
        die("sqlgen", 0, "out of memory");
    return memory;
}

static char *read_whole(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        die(path, 0, "cannot open");
    (void)fseek(in, 0, SEEK_END);
    const long len = ftell(in);
    rewind(in);
    char *text = grab((size_t)len + 1);
    if (fread(text, 1, (size_t)len, in) != (size_t)len)
        die(path, 0, "cannot read");
    (void)fclose(in);
    return text;
}

/* The word after "key:" in a marker line; false when the key is not there. */
static bool find_field(char out[NAME_SIZE], const char *line, const char *key)
{
    const char *at = strstr(line, key);
    if (!at)
        return false;
    at += strlen(key);
    while (*at == ' ')
        at++;
    size_t len = 0;
    while (at[len] && !isspace((unsigned char)at[len]) && len + 1 < NAME_SIZE) {
        out[len] = at[len];
        len++;
    }
    out[len] = '\0';
    return len > 0;
}

static int find_engine(const char *file, int line, const char *name)
{
    for (int i = 0; i < ENGINES; i++)
        if (strcmp(engine_names[i], name) == 0)
            return i;
    die(file, line, "unknown engine '%s'", name);
}

static block *find_block(const char *name, int number)
{
    for (int i = 0; i < block_count; i++)
        if (strcmp(blocks[i].name, name) == 0 && blocks[i].number == number)
            return &blocks[i];
    if (block_count == BLOCK_MAX)
        die("sqlgen", 0, "more than %d blocks", BLOCK_MAX);
    block *fresh = &blocks[block_count++];
    (void)snprintf(fresh->name, sizeof fresh->name, "%s", name);
    fresh->number = number;
    return fresh;
}

static int number_param(variant *v, const char *name, size_t len)
{
    for (int i = 0; i < v->param_count; i++)
        if (strlen(v->params[i]) == len && strncmp(v->params[i], name, len) == 0)
            return i + 1;
    if (v->param_count == PARAM_MAX)
        die(v->file, v->line, "more than %d parameters", PARAM_MAX);
    if (len >= NAME_SIZE)
        die(v->file, v->line, "parameter name too long");
    memcpy(v->params[v->param_count], name, len);
    v->params[v->param_count][len] = '\0';
    return ++v->param_count;
}

/* Length of the quoted text or comment at `at`, or 0. */
static size_t skip_len(const char *at)
{
    if (at[0] == '\'' || at[0] == '"') {
        size_t len = 1;
        while (at[len] && at[len] != at[0])
            len++;
        return at[len] ? len + 1 : len;
    }
    if (at[0] == '-' && at[1] == '-')
        return strcspn(at, "\n");
    return 0;
}

/* Fold white space, drop comments, number the parameters. */
static char *compile_text(variant *v, const char *source, size_t source_len, char mark)
{
    char *text = grab(source_len * 4 + 16);
    size_t out = 0;
    const char *end = source + source_len;
    for (const char *at = source; at < end;) {
        const size_t skip = skip_len(at);
        if (skip > 0) {
            if (at[0] != '-') {
                memcpy(text + out, at, skip);
                out += skip;
            }
            at += skip;
        } else if (at[0] == ':' && at[1] == ':') {
            text[out++] = *at++;
            text[out++] = *at++;
        } else if (mark && at[0] == ':' && (isalpha((unsigned char)at[1]) || at[1] == '_')) {
            size_t len = 1;
            while (isalnum((unsigned char)at[len]) || at[len] == '_')
                len++;
            out += (size_t)sprintf(text + out, "%c%d", mark, number_param(v, at + 1, len - 1));
            at += len;
        } else if (isspace((unsigned char)*at)) {
            if (out > 0 && text[out - 1] != ' ')
                text[out++] = ' ';
            at++;
        } else {
            text[out++] = *at++;
        }
    }
    while (out > 0 && (text[out - 1] == ' ' || text[out - 1] == ';'))
        out--;
    text[out] = '\0';
    return text;
}

static void add_variant(block *b, int engine, const char *file, int line, const char *source,
                        size_t len)
{
    variant *v = &b->engine[engine];
    if (v->text)
        die(file, line, "'%s' is given twice for %s (first at %s:%d)", b->name,
            engine_names[engine], v->file, v->line);
    v->file = file;
    v->line = line;
    if (b->number > 0) {
        v->text = grab(len + 1);
        memcpy(v->text, source, len);
    } else {
        v->text = compile_text(v, source, len, b->is_template ? '\0' : engine_marks[engine]);
    }
    if (v->text[strspn(v->text, " \n\t")] == '\0')
        die(file, line, "'%s' has no text", b->name);
}

static void add_part(block *b, int engine, int part, const char *file, int line, const char *source,
                     size_t len)
{
    variant *v = &b->engine[engine];
    if (part < 1 || part > PART_MAX)
        die(file, line, "part %d, want 1 to %d", part, PART_MAX);
    if (v->text || v->parts[part - 1])
        die(file, line, "part %d of '%s' is given twice for %s", part, b->name,
            engine_names[engine]);
    v->file = file;
    v->line = line;
    v->parts[part - 1] = grab(len + 1);
    memcpy(v->parts[part - 1], source, len);
    v->part_count = part > v->part_count ? part : v->part_count;
}

static void join_parts(variant *v, const char *name)
{
    size_t len = 0;
    for (int i = 0; i < v->part_count; i++) {
        if (!v->parts[i])
            die(v->file, v->line, "part %d of '%s' is missing", i + 1, name);
        len += strlen(v->parts[i]);
    }
    v->text = grab(len + 1);
    char *end = v->text;
    for (int i = 0; i < v->part_count; i++) {
        const size_t part_len = strlen(v->parts[i]);
        memcpy(end, v->parts[i], part_len + 1);
        end += part_len;
        free(v->parts[i]);
    }
}

/* Every hole is closed, and every {{each}} and {{if}} has its {{end}}. */
static void check_holes(const variant *v)
{
    int depth = 0;
    for (const char *at = strstr(v->text, "{{"); at; at = strstr(at, "{{")) {
        const char *end = strstr(at, "}}");
        if (!end)
            die(v->file, v->line, "a hole is not closed: %.40s", at);
        depth += strncmp(at, "{{each ", 7) == 0 || strncmp(at, "{{if ", 5) == 0;
        depth -= strncmp(at, "{{end}}", 7) == 0;
        if (depth < 0)
            die(v->file, v->line, "{{end}} without a beginning");
        at = end + 2;
    }
    if (depth > 0)
        die(v->file, v->line, "{{end}} is missing");
}

static void add_block(const char *file, int line, const char *marker, const char *source,
                      size_t len)
{
    char name[NAME_SIZE];
    char engine[NAME_SIZE];
    char number[NAME_SIZE];
    if (find_field(number, marker, "-- migration:")) {
        if (!find_field(name, marker, " name:") || !find_field(engine, marker, " engine:"))
            die(file, line, "a migration needs name: and engine:");
        block *b = find_block(name, (int)strtol(number, NULL, 10));
        if (b->number < 1 || !find_field(b->version, marker, " version:"))
            die(file, line, "a migration needs a number from 1 and a version:");
        if (find_field(number, marker, " part:"))
            add_part(b, find_engine(file, line, engine), (int)strtol(number, NULL, 10), file, line,
                     source, len);
        else
            add_variant(b, find_engine(file, line, engine), file, line, source, len);
        return;
    }
    if (find_field(name, marker, "-- template:")) {
        block *b = find_block(name, 0);
        b->is_only = true;
        b->is_template = true;
        add_variant(b, 0, file, line, source, len);
        check_holes(&b->engine[0]);
        return;
    }
    if (!find_field(name, marker, "-- statement:"))
        die(file, line, "unknown marker: %.60s", marker);
    block *b = find_block(name, 0);
    if (find_field(engine, marker, " only:")) {
        b->is_only = true;
        add_variant(b, find_engine(file, line, engine), file, line, source, len);
    } else if (find_field(engine, marker, " bulk:")) {
        b->is_bulk = true;
        add_variant(b, find_engine(file, line, engine), file, line, source, len);
    } else if (find_field(engine, marker, " engine:")) {
        add_variant(b, find_engine(file, line, engine), file, line, source, len);
    } else {
        for (int i = 0; i < ENGINES; i++)
            add_variant(b, i, file, line, source, len);
    }
}

static bool is_marker(const char *line)
{
    return strncmp(line, "-- statement:", 13) == 0 || strncmp(line, "-- migration:", 13) == 0 ||
           strncmp(line, "-- template:", 12) == 0;
}

static void read_file(const char *file)
{
    char *text = read_whole(file);
    char marker[512] = "";
    int marker_line = 0;
    int line = 1;
    const char *body = NULL;
    for (char *at = text; *at;) {
        char *next = strchr(at, '\n');
        next = next ? next + 1 : at + strlen(at);
        if (is_marker(at)) {
            if (body)
                add_block(file, marker_line, marker, body, (size_t)(at - body));
            (void)snprintf(marker, sizeof marker, "%.*s", (int)strcspn(at, "\n"), at);
            marker_line = line;
            body = next;
        }
        at = next;
        line++;
    }
    if (!body)
        die(file, line, "no blocks in this file");
    add_block(file, marker_line, marker, body, strlen(body));
    free(text);
}

static void check_complete(void)
{
    int migrations = 0;
    for (int i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        for (int e = 0; e < ENGINES; e++)
            if (b->engine[e].part_count > 0)
                join_parts(&b->engine[e], b->name);
        const variant *given = b->engine[0].text ? &b->engine[0] : &b->engine[1];
        for (int e = 0; e < ENGINES; e++)
            if (!b->engine[e].text && !b->is_only)
                die(given->file, given->line, "'%s' has no block for %s", b->name, engine_names[e]);
        if (b->number > 0 && b->number != ++migrations)
            die(given->file, given->line, "migration %d out of order, want %d", b->number,
                migrations);
    }
}

static void emit_string(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const char *at = text; *at; at++) {
        if (*at == '\n')
            (void)fputs(at[1] ? "\\n\"\n    \"" : "\\n", out);
        else if (*at == '"' || *at == '\\')
            (void)fprintf(out, "\\%c", *at);
        else
            (void)fputc(*at, out);
    }
    (void)fputc('"', out);
}

static void emit_upper(FILE *out, const char *text)
{
    for (; *text; text++)
        (void)fputc(toupper((unsigned char)*text), out);
}

static bool is_statement(const block *b)
{
    return b->number == 0 && !b->is_template;
}

static int count_blocks(bool migrations)
{
    int count = 0;
    for (int i = 0; i < block_count; i++)
        count += migrations ? blocks[i].number > 0 : is_statement(&blocks[i]);
    return count;
}

static void emit_template_names(FILE *out, const char *prefix)
{
    int index = 0;
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].is_template)
            continue;
        if (index == 0)
            (void)fprintf(out,
                          "#include \"store/sql_template.h\"\n"
                          "extern const tide_template %s_templates[];\n\n",
                          prefix);
        (void)fprintf(out, "#define TIDE_TEMPLATE_");
        emit_upper(out, blocks[i].name);
        (void)fprintf(out, " (&%s_templates[%d])\n", prefix, index++);
    }
}

static void emit_templates(FILE *out, const char *prefix)
{
    (void)fprintf(out, "\nconst tide_template %s_templates[] = {\n", prefix);
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].is_template)
            continue;
        (void)fprintf(out, "    {.name = \"%s\", .text = ", blocks[i].name);
        emit_string(out, blocks[i].engine[0].text);
        (void)fprintf(out, "},\n");
    }
    (void)fprintf(out, "    {.name = 0},\n};\n");
}

static void emit_header(FILE *out, const char *prefix)
{
    (void)fprintf(out, "/* Written by sqlgen; do not edit. */\n#pragma once\n");
    (void)fprintf(out, "#include <tidemark/store.h>\n#include \"store/migration.h\"\n\nenum { ");
    emit_upper(out, prefix);
    (void)fprintf(out, "_COUNT = %d, ", count_blocks(false));
    emit_upper(out, prefix);
    (void)fprintf(out, "_MIGRATION_COUNT = %d };\n", count_blocks(true));
    (void)fprintf(out, "extern const tide_sql %s_catalogue[];\n", prefix);
    (void)fprintf(out, "extern const tide_migration %s_migrations[];\n\n", prefix);
    int index = 0;
    for (int i = 0; i < block_count; i++) {
        if (!is_statement(&blocks[i]))
            continue;
        (void)fprintf(out, "#define ");
        emit_upper(out, prefix);
        (void)fputc('_', out);
        emit_upper(out, blocks[i].name);
        (void)fprintf(out, " (&%s_catalogue[%d])\n", prefix, index++);
    }
    emit_template_names(out, prefix);
}

static void emit_statement(FILE *out, const block *b)
{
    (void)fprintf(out, "    {TIDE_SQL_INIT, .name = \"%s\", .is_bulk = %d, .engine = {", b->name,
                  b->is_bulk);
    for (int e = 0; e < ENGINES; e++) {
        const variant *v = &b->engine[e];
        (void)fprintf(out, "\n        {");
        if (v->text) {
            (void)fprintf(out, ".text = ");
            emit_string(out, v->text);
            (void)fprintf(out, ",\n         .params = (const char *const[]){");
            for (int p = 0; p < v->param_count; p++)
                (void)fprintf(out, "\"%s\", ", v->params[p]);
            (void)fprintf(out, "0}, .param_count = %d", v->param_count);
        } else {
            (void)fprintf(out, ".text = 0");
        }
        (void)fprintf(out, "},");
    }
    (void)fprintf(out, "\n    }},\n");
}

static void emit_source(FILE *out, const char *prefix, const char *header)
{
    const char *slash = strrchr(header, '/');
    (void)fprintf(out, "/* Written by sqlgen; do not edit. */\n#include \"%s\"\n\n",
                  slash ? slash + 1 : header);
    (void)fprintf(out, "const tide_sql %s_catalogue[] = {\n", prefix);
    for (int i = 0; i < block_count; i++)
        if (is_statement(&blocks[i]))
            emit_statement(out, &blocks[i]);
    (void)fprintf(out, "    {TIDE_SQL_INIT},\n};\n\nconst tide_migration %s_migrations[] = {\n",
                  prefix);
    for (int i = 0; i < block_count; i++) {
        const block *b = &blocks[i];
        if (b->number == 0)
            continue;
        (void)fprintf(out, "    {.number = %d, .version = \"%s\", .name = \"%s\", .text = {\n    ",
                      b->number, b->version, b->name);
        for (int e = 0; e < ENGINES; e++) {
            emit_string(out, b->engine[e].text);
            (void)fprintf(out, ",\n    ");
        }
        (void)fprintf(out, "}},\n");
    }
    (void)fprintf(out, "    {.number = 0},\n};\n");
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].is_template)
            continue;
        emit_templates(out, prefix);
        break;
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fprintf(stderr, "usage: sqlgen PREFIX OUT.h OUT.c FILE...\n");
        return 2;
    }
    for (int i = 4; i < argc; i++)
        read_file(argv[i]);
    check_complete();
    FILE *header = fopen(argv[2], "w");
    FILE *source = fopen(argv[3], "w");
    if (!header || !source)
        die(argv[2], 0, "cannot write");
    emit_header(header, argv[1]);
    emit_source(source, argv[1], argv[2]);
    if (fclose(header) || fclose(source))
        die(argv[2], 0, "cannot write");
    return 0;
}
