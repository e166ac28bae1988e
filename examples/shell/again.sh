# again.sh - sourced by the others.
#
# Exit codes say what to do (docs/reference/errors.md): 6, away or busy, and 7, nobody knows whether it was done, are met by doing it again. So
# what is done by `again` has an id or a key, by which it is recognised.
again() {
    local status try
    for try in 1 2 3 4 5; do
        status=0
        "$@" || status=$?
        [ $status = 6 ] || [ $status = 7 ] || return $status
        sleep "$try"
    done
    return $status
}
