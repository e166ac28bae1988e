"""Writes a C program that calls every public function as a caller in another language may by mistake.

    misuse.py INCLUDE_DIR > misuse.c

Prototypes and structs are read from the headers, so a new function is covered without a line here. Each call
has sound arguments but for one: NULL, a number out of range, a view without bytes, a struct of another size, or
a struct with one member out of range while its arrays are NULL. A call that has to be refused returns a
failure; every other one returns a status that exists. None may end the process: a child makes the calls, and
its parent names those by which it was ended.
"""

import pathlib
import re
import sys

HANDLES = "store feed lake colony replica watch worker cursor".split()
# What has no sound argument here: a job exists while its worker runs it, a worker runs until it is stopped.
ONLY_NULL = {"tide_job", "tide_buffer"}
NULL_ONLY_CALLS = {"tide_worker_run"}
# Ends what it is given, of which there is one for all calls.
ENDS = re.compile(r"_(close|closep|done|end|endp)$")
NUMBERS = {"int": ["-1", "INT_MIN", "INT_MAX"], "int64_t": ["-1", "INT64_MIN", "INT64_MAX"], "unsigned": ["UINT_MAX"],
           "uint64_t": ["UINT64_MAX"], "size_t": ["SIZE_MAX"], "double": ["-1.0"], "bool": ["true"]}
ENUM_NUMBERS = ["-1", "99", "INT_MAX"]
# Waiting for ever is what the caller asked for; a length that is the caller's word for its own memory.
NOT_LARGE = {"timeout_us", "count"}


def bare(text):
    return re.sub(r"/\*.*?\*/|^#[^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.S | re.M)


class Headers:
    def __init__(self, folder):
        paths = sorted(pathlib.Path(folder).glob("*.h"))
        whole = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        text = "\n".join(bare(path.read_text(encoding="utf-8")) for path in paths)
        self.sized = {s: m for m, s in re.findall(r"#define (TIDE_\w+_INIT) \.size = sizeof\((tide_\w+)\)", whole)}
        self.enums = set(re.findall(r"\}\s*(tide_\w+);", "".join(
            m.group() for m in re.finditer(r"typedef enum \w+ \{.*?\}\s*tide_\w+;", text, re.S)))) | {"tide_status"}
        self.callbacks = {name: (kind.strip(), arguments) for kind, name, arguments in
                          re.findall(r"typedef ([\w ]+?\*?)\s*(tide_\w+_fn)\(([^;]*?)\);", text)}
        self.members = {name: self.read_members(body) for name, body in
                        re.findall(r"\bstruct (tide_\w+) \{(.*?)\n\}", text, re.S)}
        self.arrays = {name: re.findall(r"const char \*const \*(\w+);", body) for name, body in
                       re.findall(r"\bstruct (tide_\w+) \{(.*?)\n\}", text, re.S)}
        self.functions = [self.read_function(found) for found in re.finditer(
            r"TIDE_API\s+(?:TIDE_MUST_CHECK\s+)?([^;()]*?)\b(tide_\w+)\(([^;]*?)\)\s*(?:TIDE_PRINTF\([^)]*\)\s*)?;", text)]

    @staticmethod
    def read_members(body):
        """The numbers and texts of a struct, by name."""
        found = []
        for kind, names in re.findall(r"^\s*((?:const )?[\w]+(?: \*)?)\s*(\w[\w, ]*);", body, re.M):
            found += [(kind, name.strip()) for name in names.split(",")]
        found += [("const char *", name) for name in re.findall(r"const char \*(\w+);", body)]
        return found

    @staticmethod
    def read_function(found):
        parameters = []
        text = " ".join(found[3].split())
        for part in [] if text == "void" else text.split(", "):
            if part == "...":
                continue
            array = re.match(r"(.*?)\b(\w+)\[.*\]$", part)
            name = array[2] if array else re.search(r"(\w+)$", part)[1]
            kind = array[1] + "*" if array else part[: -len(name)]
            parameters.append((re.sub(r"\s*\*", " *", kind).strip(), name))
        return " ".join(found[1].split()), found[2], parameters


class Writer:
    def __init__(self, headers):
        self.headers, self.out, self.cases = headers, [], []

    def numbers_of(self, kind, name):
        values = ENUM_NUMBERS if kind in self.headers.enums else NUMBERS.get(kind, [])
        return [v for v in values if not (name in NOT_LARGE and "MAX" in v)]

    def sound(self, kind, name):
        """A declaration and an argument that fit, or None."""
        base = kind.replace("const ", "").replace("struct ", "").rstrip(" *")
        stars = kind.count("*")
        if kind == "tide_error *":
            return "", "&refusal"
        if kind.endswith("_fn *"):
            return "", f"stub_{base}"
        if base in ("tide_tx", "tide_query"):
            return "", {"tide_tx *": "tx", "tide_query *": "query", "tide_query * *": "&query"}[kind.replace("const ", "")]
        if stars == 1 and base[5:] in HANDLES and base.startswith("tide_"):
            return "", f"world.{base[5:]}"
        if base in ONLY_NULL:
            return None
        if kind == "const char *":
            return "", '"1"'
        if kind == "char *":
            return f"    char {name}[4096] = {{0}};\n", name
        if kind == "void *":
            return "", "NULL"
        if kind == "tide_view":
            return "", 'tide_view_of("1")'
        if stars == 0:
            return "", {"bool": "true", "double": "1.0"}.get(kind, f"({kind})1")
        if stars == 2:
            return f"    {base} *{name} = NULL;\n", f"&{name}"
        if base in self.headers.sized:
            return f"    {base} {name} = {{{self.headers.sized[base]}}};\n    (void){name};\n", f"&{name}"
        return f"    {base} {name}[4];\n    memset({name}, 0, sizeof {name});\n", name

    def call(self, function, title, changed, prepared="", is_refused=False):
        """One case: sound arguments, but for those of changed."""
        kind, name, parameters = function
        declared, arguments, ended = "", [], ""
        for type_, parameter in parameters:
            sound = self.sound(type_, parameter)
            if parameter in changed or sound is None:
                declared += sound[0] if sound and changed.get(parameter, "").startswith("&") else ""
                arguments.append(changed.get(parameter, "NULL"))
                continue
            declared += sound[0]
            arguments.append(sound[1])
            base = type_.rstrip(" *")
            if type_.endswith("* *") and base[5:] in HANDLES and name.endswith("_open"):
                ended += f"    {base}_close({parameter});\n"
        number = len(self.cases)
        in_tx = any(re.search(r"\btide_(tx|query)\b", type_) for type_, _ in parameters)
        call = f"{name}({', '.join(arguments)})"
        has_status = kind == "tide_status"
        run = f"    const tide_status status = {call};\n" if has_status else f"    (void){call};\n" if kind != "void" else f"    {call};\n"
        check = f"    check(\"{title}\", status, {int(is_refused)});\n" if has_status else ""
        if in_tx:
            self.out.append(f"""static tide_status in_{number}(tide_tx *tx, void *arg, tide_error *err)
{{
    tide_query *query = NULL;
    (void)arg;
    if (tide_query_begin(&query, tx, &select_one, err) < TIDE_OK)
        return TIDE_E_FAILED;
{declared}{prepared}{run}{check}{ended}    return TIDE_E_CONFLICT;
}}
static void case_{number}(void)
{{
    (void)!tide_store_write(world.store, in_{number}, NULL, NULL);
    (void)!tide_store_read(world.store, in_{number}, NULL, NULL);
}}
""")
        else:
            self.out.append(f"static void case_{number}(void)\n{{\n{declared}{prepared}{run}{check}{ended}}}\n")
        self.cases.append((title, f"case_{number}"))

    def write_function(self, function):
        kind, name, parameters = function
        own = [(t, p) for t, p in parameters if p != "err" and t != "void *"]
        pointers = [(t, p) for t, p in own if "*" in t]
        self.call(function, f"{name}: NULL and 0 alone", {p: "NULL" if "*" in t else "(tide_view){0}" if t == "tide_view" else f"({t})0"
                                                          for t, p in parameters}, is_refused=bool(pointers) and kind == "tide_status")
        if ENDS.search(name) or name in NULL_ONLY_CALLS or any(t.rstrip(" *").replace("const ", "") in ONLY_NULL for t, _ in own):
            return
        for type_, parameter in pointers:
            handle = type_.replace("const ", "").rstrip(" *")[5:] in HANDLES + ["tx", "query"]
            self.call(function, f"{name}: {parameter} NULL", {parameter: "NULL"}, is_refused=handle)
        for type_, parameter in own:
            if type_ == "tide_view":
                self.call(function, f"{name}: {parameter} without bytes", {parameter: "(tide_view){.ptr = NULL, .len = 9}"})
            for value in self.numbers_of(type_, parameter):
                self.call(function, f"{name}: {parameter} {value}", {parameter: f"({type_}){value}"},
                          is_refused=type_ in self.headers.enums and kind == "tide_status")
            base = type_.replace("const ", "").rstrip(" *")
            if base in self.headers.sized and type_.count("*") == 1:
                self.write_struct(function, base, parameter)

    def write_struct(self, function, struct, parameter):
        name = function[1]
        for size in ("0", "7", "SIZE_MAX"):
            self.call(function, f"{name}: {parameter}.size {size}", {parameter: f"&{parameter}"}, f"    {parameter}.size = {size};\n",
                      is_refused=True)
        texts = "".join(f"    {parameter}.{m} = \"1\";\n" for k, m in self.headers.members[struct] if k == "const char *")
        self.call(function, f"{name}: {parameter} with texts", {parameter: f"&{parameter}"}, texts)
        for array in self.headers.arrays[struct]:
            count = next(m for k, m in self.headers.members[struct] if k == "int" and m.startswith(array.rstrip("s")))
            self.call(function, f"{name}: {parameter}.{array} of NULL", {parameter: f"&{parameter}"},
                      texts + f"    {parameter}.{array} = no_texts;\n    {parameter}.{count} = 1;\n", is_refused=True)
        for kind, member in self.headers.members[struct]:
            for value in [] if member == "size" else self.numbers_of(kind, "") + (["1"] if kind in NUMBERS else []):
                for more, words in (("", ""), (texts, ", with texts")) if texts else (("", ""),):
                    self.call(function, f"{name}: {parameter}.{member} {value}{words}", {parameter: f"&{parameter}"},
                              more + f"    {parameter}.{member} = ({kind}){value};\n", is_refused=kind in self.headers.enums)

    def write(self):
        for name, (kind, arguments) in sorted(self.headers.callbacks.items()):
            names = ", ".join(re.sub(r"\s+", " ", a) for a in arguments.split(","))
            body = "" if kind == "void" else "    return 0;\n"
            self.out.append(f"static {kind} stub_{name}({names})\n{{\n{body}}}\n")
        for function in self.headers.functions:
            self.write_function(function)
        table = "".join(f'    {{"{title}", {call}}},\n' for title, call in self.cases)
        return HEAD + "".join(self.out) + f"static const struct {{\n    const char *title;\n    void (*call)(void);\n}} cases[] = {{\n{table}}};\n" + MAIN


HEAD = """/* Written by misuse.py. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

static struct {
    tide_store *store;
    tide_feed *feed;
    tide_lake *lake;
    tide_colony *colony;
    tide_replica *replica;
    tide_watch *watch;
    tide_worker *worker;
    tide_cursor *cursor;
    tide_cursor own_cursor;
} world;

static const tide_sql select_one = {
    TIDE_SQL_INIT, .name = "one", .engine = {{.text = "SELECT 1"}, {.text = "SELECT 1"}}};

static tide_error refusal;

static const char *const no_texts[1] = {NULL};

typedef struct progress {
    int next;
    int wrong;
} progress;
static progress *shared;

/* A status that exists, and a failure where there must be one. */
static void check(const char *title, tide_status status, int is_refused)
{
    if (tide_status_get(status)->status == status && (!is_refused || status < TIDE_OK))
        return;
    printf("%s: returned %d\\n", title, (int)status);
    shared->wrong++;
}

"""

MAIN = """
static void open_world(void)
{
    tide_error err = {0};
    bool was_there = false;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "."};
    const tide_replica_options replica = {TIDE_REPLICA_OPTIONS_INIT, .path = "app.db", .state_dir = "."};
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "1", .title = "1"};
    const tide_work_spec item = {
        TIDE_WORK_SPEC_INIT, .work_item_id = "1", .task_id = "1", .work_type = "1"};
    char id[TIDE_WORK_ID_MAX + 1];
    tide_work_added added;
    tide_cursor_init(&world.own_cursor, 0, 8);
    world.cursor = &world.own_cursor;
    if (tide_store_open(&world.store, "sqlite:store.db", &options, &err) < TIDE_OK ||
        tide_lake_init(world.store, "data", &was_there, &err) < TIDE_OK ||
        tide_lake_open(&world.lake, world.store, &err) < TIDE_OK ||
        tide_feed_open(&world.feed, world.store, NULL, &err) < TIDE_OK ||
        tide_colony_open(&world.colony, world.store, &err) < TIDE_OK ||
        tide_watch_open(&world.watch, world.store, "1", &err) < TIDE_OK ||
        tide_replica_open(&world.replica, &replica, &err) < TIDE_OK) {
        printf("cannot begin: %s\\n", err.text);
        exit(1);
    }
    /* They exist where a child was ended before. */
    (void)!tide_task_create(world.store, &task, id, NULL);
    (void)!tide_work_add(world.store, &item, 1, &added, NULL);
}

static void run_cases(void)
{
    open_world();
    while (shared->next < (int)(sizeof cases / sizeof cases[0])) {
        const int i = shared->next++;
        alarm(30);
        if (getenv("MISUSE_TRACE"))
            fprintf(stderr, "%s\\n", cases[i].title);
        cases[i].call();
        fflush(stdout);
    }
    _exit(0);
}

/* Arguments: an empty directory with app.db. */
int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || chdir(argv[1]) != 0)
        return 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 2)
        shared->next = atoi(argv[2]);
    for (;;) {
        int how = 0;
        const pid_t child = fork();
        if (child == 0)
            run_cases();
        if (child < 0 || waitpid(child, &how, 0) != child)
            return 1;
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
            break;
        if (shared->next == 0 || shared->wrong > 500)
            return 1;
        shared->wrong++;
        printf("%s: %s %d\\n", cases[shared->next - 1].title,
               WIFSIGNALED(how) ? "ended by signal" : "ended the process with",
               WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    }
    printf("%d calls, %d wrong\\n", (int)(sizeof cases / sizeof cases[0]), shared->wrong);
    return shared->wrong != 0;
}
"""

if __name__ == "__main__":
    print(Writer(Headers(sys.argv[1])).write())
