# steps.sh - sourced by scripts that do one step after the other and show how far they are.
#
# On a terminal a step is one line that moves, "[3/4] compile  312/618  0:41"; in a file it is one line when
# it ends. Steps of less than a second are not shown. What a step prints goes to build/log/NAME.log, and
# its wall and CPU seconds to build/steps.jsonl (scripts/release/fresh-machine reads them).
#
# TIDEMARK_STEPS is the number of steps of the verb, where they are numbered.

say() { printf '%s\n' "$*" >&2; }
# A set-up that cannot go on ends with 2: nothing is wrong with the source.
die() { say "$@"; exit 2; }

# Ctrl-C ends the script. Without a trap bash continues if the command that it waits for exits by itself
# at that moment.
trap 'trap - INT; kill -INT $$' INT

# check_writable - make the directories of a build. A build as root leaves files that its user cannot
# replace: report the first one, before any step begins.
check_writable() {
    local reason file
    reason=$(mkdir -p build/log 2>&1) || die "cannot create $PWD/build/log: ${reason##*: }"
    file=$(find build build/log -maxdepth 1 -type f,d ! -writable -print -quit 2>/dev/null) || true
    [ ! -e "$file" ] || [ -w "$file" ] || # a build that runs beside this one removes files
        die "cannot write $file, which belongs to $(stat -c %U "$file"); as root, run: chown -R $(id -u) $PWD/build"
}

# step NAME KIND COMMAND... - KIND says how to read progress from the output: ninja, apt, or none.
# Returns the status of COMMAND. Failures are printed by the caller, from build/log/NAME.log.
step() {
    local name=$1 kind=$2 log=build/log/$1.log head times status begun=$SECONDS
    shift 2
    check_writable
    head=$(step_head "$name")
    times=build/log/.times-$name
    : >"$log"
    {
        TIMEFORMAT='%R %U %S'
        time "$@" >>"$log" 2>&1 </dev/null
    } 2>"$times" &
    local child=$!
    if [ -t 2 ]; then
        while kill -0 "$child" 2>/dev/null; do
            printf '\r\033[K%s  %s  %s' "$head" "$(progress_of "$kind" "$log")" "$(clock_of $((SECONDS - begun)))" >&2
            sleep 0.2
        done
        printf '\r\033[K' >&2
    fi
    wait "$child" && status=0 || status=$?
    local wall=0 user=0 system=0
    read -r wall user system <"$times" || true
    rm -f "$times"
    printf '{"name":"%s","wall_s":%s,"cpu_s":%s}\n' "$name" "${wall:-0}" \
        "$(awk -v a="${user:-0}" -v b="${system:-0}" 'BEGIN { printf "%.3f", a + b }')" >>build/steps.jsonl
    if [ $status -eq 0 ] && [ $((SECONDS - begun)) -ge 1 ]; then
        printf '%s  %s  %s\n' "$head" "$(result_of "$kind" "$log")" "$(clock_of $((SECONDS - begun)))" >&2
    fi
    return $status
}

# step_head NAME - "[2/4] NAME" where steps are numbered.
step_head() {
    local number
    if [ -z "${TIDEMARK_STEPS:-}" ]; then
        printf '%s' "$1"
        return
    fi
    case $1 in apt-update | packages | npm) number=1 ;; configure) number=2 ;; compile) number=3 ;; *) number=$TIDEMARK_STEPS ;; esac
    printf '[%s/%s] %-9s' "$number" "$TIDEMARK_STEPS" "$1"
}

clock_of() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# progress_of KIND LOG - how far the step is, by the end of its output.
progress_of() {
    local end
    end=$(tail -c 2000 "$2" 2>/dev/null | tr '\r' '\n')
    case $1 in
    ninja) grep -o '^\[[0-9]*/[0-9]*\]' <<<"$end" | tail -n 1 | tr -d '[]' ;;
    apt) sed -n 's/^dlstatus:[^:]*:\([0-9]*\)[.0-9]*:.*/download \1 %/p; s/^pmstatus:\([^:]*\)[^:]*:\([0-9]*\)[.0-9]*:.*/install \2 %  \1/p' <<<"$end" | tail -n 1 ;;
    esac
}

# result_of KIND LOG - what the step did, once it has ended.
result_of() {
    case $1 in
    apt) printf '%d installed' "$(grep -c '^Setting up ' "$2")" ;;
    *) progress_of "$1" "$2" ;;
    esac
}
