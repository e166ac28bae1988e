#!/usr/bin/env bash
# deb_test.sh DIRECTORY - the life of the packages in DIRECTORY on a machine that is thrown away (scripts/release/deb-machine): installed, started, used,
# killed, upgraded, removed, installed again, purged. Speaks TAP. (grep without -q: whoever still writes to it must not fail.)
set -uo pipefail
debs=$1
work=$(mktemp -d)
services='tidemark tidemark-agent tidemark-colony tidemark-serve tidemark-lake tidemark-replica@notes'
count=0
failures=0

# check NAME COMMAND... - one case; what the command says is shown when it fails.
check() {
    local name=$1 output
    shift
    count=$((count + 1))
    if output=$("$@" 2>&1); then
        printf 'ok %d - %s\n' "$count" "$name"
    else
        failures=$((failures + 1))
        printf 'not ok %d - %s\n' "$count" "$name"
        printf '%s\n' "$output" | tail -n 40 | sed 's/^/# /'
    fi
}

# ---- helpers ----

# Files that the packages could leave behind; what dpkg, its triggers and the journal write is theirs.
list_files() {
    find /etc /usr /lib/systemd /var/lib /var/cache -xdev \( -path /var/lib/dpkg -o -path /var/cache/man -o -path /var/lib/systemd -o -path /var/cache/ldconfig \) -prune \
        -o -print | grep -vE '^/etc/(ld\.so\.cache|(passwd|group|shadow|gshadow)-|\.pwd\.lock|subuid-|subgid-)$' | sort
}

main_pid() { systemctl show -P MainPID "$1"; }

post() { # post PORT METHOD JSON
    curl -sS --fail-with-body --max-time 20 -H 'content-type: application/json' -d "$3" "http://127.0.0.1:$1/$2"
}

# The same package under a higher version: what an upgrade is, without building everything twice.
repack() {
    local deb=$1 version=$2 tree=$work/repack
    rm -rf "$tree"
    dpkg-deb -R "$deb" "$tree"
    sed -i "s/^Version: .*/Version: $version/; s/(= [^)]*)/(= $version)/" "$tree/DEBIAN/control"
    dpkg-deb -Znone --root-owner-group -b "$tree" "$work/$(dpkg-deb -f "$deb" Package)_$version.deb"
}

# ---- cases ----

without_duckdb() {
    local place=(--store "$work/none.db")
    tidemark lake init "${place[@]}" --data "$work/none" && tidemark lake catalog create ledger "${place[@]}" || return 1
    ! tidemark lake query 'SELECT 42' "${place[@]}" 2>"$work/none.err" && grep tidemark-libduckdb "$work/none.err" &&
        dpkg-deb -f "$debs"/tidemark_*.deb Suggests | grep tidemark-libduckdb
}

duckdb_installs() {
    dpkg -i "$debs"/tidemark-libduckdb_*.deb
}

install_all() {
    dpkg -i "$debs"/tidemark_*.deb "$debs"/libtidemark0_*.deb "$debs"/libtidemark-dev_*.deb
}

nothing_runs() {
    local service
    for service in $services; do
        ! systemctl is-active -q "$service" || return 1
        [[ $service == *@* ]] || [ "$(systemctl is-enabled "$service")" = disabled ] || return 1
    done
}

user_is_there() {
    [ "$(getent passwd tidemark | cut -d: -f6)" = /var/lib/tidemark ] &&
        [ "$(stat -c %U:%G:%a /etc/tidemark)" = root:tidemark:750 ]
}

duckdb_is_found() {
    local place=(--store "$work/trial.db")
    tidemark lake init "${place[@]}" --data "$work/trial" && tidemark lake catalog create ledger "${place[@]}" &&
        tidemark lake query 'SELECT 42' "${place[@]}" | grep 42
}

pages_are_there() {
    man -w tidemark tidemark-agent tidemark-lake && test -f /usr/share/bash-completion/completions/tidemark &&
        test -f /usr/share/zsh/vendor-completions/_tidemark && test -f /usr/share/fish/vendor_completions.d/tidemark.fish || return 1
    local page
    for page in $(sed -n 's/^Documentation=.*file:\/\///p' /lib/systemd/system/tidemark*.service); do test -f "$page" || return 1; done
}

# As docs/sql.md has it.
extension_loads() {
    local extension
    extension=$(dpkg -L tidemark | sed -n 's/\.so$//p' | grep tidemark_sqlite)
    tidemark sequence next orders --store "$work/numbers.db" &&
        [ "$(sqlite3 "$work/numbers.db" ".load $extension" "SELECT nextval('orders')")" = 2 ]
}

sbom_is_there() {
    python3 - <<'END'
import hashlib, json
parts = json.load(open("/usr/share/doc/tidemark/tidemark.cdx.json"))
for part, path in ((parts["metadata"]["component"], "/usr/bin/tidemark"),
                   (next(c for c in parts["components"] if c["name"] == "duckdb"), "/usr/lib/tidemark/libduckdb.so")):
    assert part["hashes"][0]["content"] == hashlib.sha256(open(path, "rb").read()).hexdigest(), path
END
}

programs_can_be_built() {
    cat >"$work/use.c" <<'END'
#include <stdio.h>
#include <tidemark/tidemark.h>
int main(void)
{
    tide_store *store = NULL;
    tide_error err;
    if (tide_store_open(&store, "use.db", NULL, &err) < TIDE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    tide_store_close(store);
    return 0;
}
END
    cd "$work" && gcc use.c -o shared $(pkg-config --cflags --libs tidemark) && ./shared &&
        ldd shared | grep libtidemark.so.0 &&
        gcc use.c -o static $(pkg-config --cflags tidemark) -Wl,-Bstatic -ltidemark -Wl,-Bdynamic $(pkg-config --static --libs tidemark | sed 's/-ltidemark//') &&
        ./static && ! ldd static | grep libtidemark
}

all_start() {
    cp /usr/share/doc/tidemark/examples/replica.conf /etc/tidemark/replica/notes.conf
    if ! systemctl start $services; then
        journalctl --no-pager -n 40
        return 1
    fi
    for service in $services; do
        systemctl is-active "$service" || return 1
        [ "$(ps -o user= -p "$(main_pid "$service")")" = tidemark ] || return 1
        systemctl show -P StatusText "$service" | grep -E '(http|grpc|listen)=127' || return 1
    done
}

# As people use them, through the walls of the units.
all_work() {
    post 4318 v1/traces '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[
        {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"pay","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}' &&
        post 4320 tidemark.colony.v1.ColonyService/Query '{"sql":"SELECT count(*) FROM spans"}' &&
        post 4319 tidemark.work.v1.WorkService/CreateTask '{"title":"kept"}' &&
        post 4322 tidemark.lake.v1.LakeService/CreateCatalog '{"name":"ledger"}' &&
        post 4322 tidemark.lake.v1.LakeService/CreateTable '{"catalog":"ledger","operation":{"schema":"main","table":"t","columns":"a BIGINT"}}' &&
        post 4322 tidemark.lake.v1.LakeService/Append '{"catalog":"ledger","operation":{"schema":"main","table":"t","text":"a\n1\n2\n"}}' &&
        post 4322 tidemark.lake.v1.LakeService/Query '{"sql":"SELECT sum(a) FROM ledger.main.t"}' | grep '\[\[3\]\]' &&
        curl -sS --fail http://127.0.0.1:8340/ | grep -i '<html' &&
        curl -sS --fail http://127.0.0.1:4321/readyz
}

agent_sees_machine() {
    curl -sS --fail http://127.0.0.1:4318/metrics | grep '^tidemark_' &&
        runuser -u tidemark -- tidemark feed ls --store /var/lib/tidemark/agent/agent.db
}

reload_keeps() {
    local before
    before=$(main_pid tidemark-agent)
    systemctl reload tidemark-agent && systemctl is-active tidemark-agent && [ "$(main_pid tidemark-agent)" = "$before" ]
}

killed_comes_back() {
    local before
    before=$(main_pid tidemark-colony)
    kill -9 "$before"
    for _ in $(seq 100); do
        if systemctl is-active -q tidemark-colony && [ "$(main_pid tidemark-colony)" != "$before" ]; then return 0; fi
        sleep 0.1
    done
    return 1
}

stops_in_good_order() {
    systemctl stop tidemark-serve && [ "$(systemctl show -P Result tidemark-serve)" = success ] &&
        [ "$(systemctl show -P ExecMainStatus tidemark-serve)" = 0 ] && systemctl start tidemark-serve
}

upgrade() {
    local service before='' after=''
    systemctl stop tidemark-lake
    echo '# ours' >>/etc/tidemark/agent.conf
    for service in tidemark tidemark-agent tidemark-colony tidemark-serve tidemark-replica@notes; do before+="$(main_pid "$service") "; done
    for deb in "$debs"/tidemark_*.deb "$debs"/libtidemark0_*.deb "$debs"/libtidemark-dev_*.deb; do repack "$deb" 0.1.0+1 || return 1; done
    dpkg -i "$work"/*_0.1.0+1.deb || return 1
    for service in tidemark tidemark-agent tidemark-colony tidemark-serve tidemark-replica@notes; do
        systemctl is-active "$service" || return 1
        after+="$(main_pid "$service") "
    done
    echo "before $before after $after"
    for pid in $before; do case " $after" in *" $pid "*) return 1 ;; esac; done
    ! systemctl is-active tidemark-lake && tail -n 1 /etc/tidemark/agent.conf | grep -q ours
}

state_is_kept() {
    post 4319 tidemark.work.v1.WorkService/ListTasks '{}' | grep kept
}

scripts_run_twice() {
    local script=/var/lib/dpkg/info/tidemark.postinst
    chmod 755 /etc/tidemark # an administrator's choice
    "$script" configure 0.1.0 && "$script" configure 0.1.0 && [ "$(stat -c %a /etc/tidemark)" = 755 ] && user_still_there
}

user_still_there() { getent passwd tidemark; }

remove() {
    dpkg -r libtidemark-dev libtidemark0 tidemark-libduckdb tidemark || return 1
    for service in $services; do ! systemctl is-active "$service" || return 1; done
    [ ! -e /usr/bin/tidemark ] && [ -e /etc/tidemark/agent.conf ] && [ -e /var/lib/tidemark/serve/work.db ] && user_still_there
}

install_again() {
    dpkg -i "$work"/*_0.1.0+1.deb && systemctl start tidemark-serve && state_is_kept && systemctl enable tidemark-agent
}

purge() {
    cp /var/lib/dpkg/info/tidemark.postrm "$work/postrm"
    dpkg -P libtidemark-dev libtidemark0 tidemark && ! user_still_there && ! getent group tidemark && "$work/postrm" purge
}

nothing_is_left() {
    list_files >"$work/after"
    diff "$work/before" "$work/after"
}

rm -rf /var/lib/tidemark # what programs of this tree, run by root, left on the machine below
list_files >"$work/before"
check 'the packages install' install_all
check 'nothing runs before it is asked for' nothing_runs
check 'there is a user, and settings that only it and root read' user_is_there
check 'manual pages and completions are where they are looked for' pages_are_there
check 'without DuckDB a lake says which package has it' without_duckdb
check 'DuckDB installs beside it' duckdb_installs
check 'DuckDB is found beside the program' duckdb_is_found
check 'a foreign SQLite loads the extension' extension_loads
check 'the list of parts has the digests of what is installed' sbom_is_there
check 'programs are built with the library, shared and static' programs_can_be_built
check 'every unit starts, as the user, and says where it serves' all_start
check 'what the units run does its work' all_work
check 'figures and records of the agent can be read' agent_sees_machine
check 'a reload keeps the process' reload_keeps
check 'what is killed comes back' killed_comes_back
check 'a stop is in good order' stops_in_good_order
check 'an upgrade restarts what runs, instances too, and nothing else; changed settings stay' upgrade
check 'an upgrade keeps what was stored' state_is_kept
check 'the maintainer scripts can run twice' scripts_run_twice
check 'removing stops everything and keeps settings, state and user' remove
check 'installed again, it goes on' install_again
check 'purging removes settings, state and user' purge
check 'nothing is left' nothing_is_left
printf '1..%d\n' "$count"
exit $((failures > 0))
