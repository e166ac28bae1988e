/* work.pml - the state machine of work items, and the leases under which they are worked on.
 *
 * The store is an array of rows. Each statement of sql/work.sql is one indivisible step here and
 * bears its name; its WHERE is the step's guard, its SET the body. Everybody may stand still
 * between two steps for as long as it likes.
 *
 *     work_claim     work_claim_type, work_claim_types, work_claim_task
 *     work_renew     work_renew
 *     work_finish    work_finish, work_finish_one
 *     work_fail      work_hold and, behind its lock, work_fail
 *     work_release   work_release
 *     work_sweep     work_overdue and work_left_expired, then work_expire
 *     work_cancel    work_cancel, task_cancel_items
 *
 * The guards of foreign clients are the triggers of sql/recovery_items_schema.sql.
 *
 *     pending ----> in_progress ----> completed
 *      | ^ ^            |  |  |
 *      | | +------------+  |  |
 *      | +---- expired <---+  |
 *      v          v           v
 *      +-------> failed <-----+
 *
 * What a worker believes is not what the row says. A belief (item, token) is the answer to a
 * claim; from then on only the worker itself changes it, and it may act on it long after the row
 * went on.
 *
 * Time. `over` says that lease_expires_at has passed; it becomes true at any moment
 * (LeaseClock). A transaction reads the clock once, when it begins, and updates the row later.
 * So a worker's statement is two steps, and the lease may run out between them, unseen by the
 * update. -DATOMIC_CLOCK makes the two one.
 *
 * Ghosts (owner, attempts, finished, effects, highest) serve the properties alone: no guard
 * reads them.
 *
 * Each -DBREAK_... takes one rule away; scripts/check/check-models requires that this is noticed. */

#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef WORKERS
#define WORKERS 3 /* through the API; 0 and 1 have the same name */
#endif
#ifndef PLAIN
#define PLAIN 1 /* workers that speak plain SQL, under the last API worker's name */
#endif
#ifndef WATCHDOGS
#define WATCHDOGS 2
#endif
#ifndef OTHERS
#define OTHERS 1 /* an operator and a foreign watchdog for each item, or none */
#endif
#ifndef MAX_RETRIES
#define MAX_RETRIES 1 /* of item 0; item 1 has none */
#endif
#ifndef RELEASES
#define RELEASES 1 /* of item 0: bounds claim, release, claim, ..., which spends no attempt */
#endif

#define EVERYBODY (WORKERS + PLAIN)
#define LIMIT(i) ((i) == 0 -> MAX_RETRIES : 0)
#define NAME(w) ((w) < 2 -> ann : ben)

mtype = { pending, in_progress, completed, failed, expired };
mtype = { ann, ben };

typedef Row {
    mtype status = pending;
    byte token;    /* lease_token */
    mtype holder;  /* lease_holder; 0 is NULL */
    bool plain;    /* lease_via: the lease was taken by plain SQL */
    bool over;     /* lease_expires_at <= now */
    byte retries;  /* retry_count */
    byte releases; /* bounds the model */
    byte owner;    /* ghost: 1 + the process whose claim is in force, 0 nobody */
    byte attempts; /* ghost: claims that were not given back */
    byte finished; /* ghost */
    byte effects;  /* ghost: what the work changed, committed by work_finish */
    byte highest;  /* ghost: the highest token ever issued */
};

Row row[ITEMS];

/* What each worker remembers. A crash empties it; the name is all that survives. */
mtype = { idle, picked, held, begun };
mtype phase[EVERYBODY] = idle;
byte item[EVERYBODY];
byte token[EVERYBODY];   /* from the claim's answer */
bool working[EVERYBODY]; /* its program runs */
bool renewed[EVERYBODY]; /* FEW_RENEWALS */
bool applied[EVERYBODY]; /* BREAK_FINISH */

/* What each watchdog has read of the items that were due. */
#define KENNEL ((WATCHDOGS + 1) * ITEMS)
#define AT(dog, i) ((dog) * ITEMS + (i))
byte read[KENNEL];  /* lease_token; 0: not due */
#define STALE 255   /* a token that the row has no more */
byte spent[KENNEL]; /* retry_count */

/* The properties, by name: set and asserted within one step, so true in every state that is
 * stored. */
bool allowed_transition = true;
bool one_effective_holder = true;
bool one_at_work = true;
bool finished_once_by_its_holder = true;
bool one_effect_per_finish = true;
bool attempts_within_limit = true;
bool tokens_only_rise = true;
bool live_leases_are_not_swept = true;
bool nothing_rests = true;

byte who, count; /* of loops within one step; 0 between steps */

#define TERMINAL(i) (row[i].status == completed || row[i].status == failed)
#define WAITS(i) (row[i].status == pending || row[i].status == expired)

#ifdef BREAK_CLAIM
#define CLAIMABLE(i) (row[i].status == pending || row[i].status == in_progress)
#else
#define CLAIMABLE(i) (row[i].status == pending)
#endif

#define RUN_OUT(i) (row[i].status == in_progress && row[i].over)
#ifdef BREAK_EXPIRED
#define SWEEPABLE(i) RUN_OUT(i)
#else
#define SWEEPABLE(i) (RUN_OUT(i) || row[i].status == expired)
#endif

#if ITEMS > 1
#define ALL_TERMINAL (TERMINAL(0) && TERMINAL(1))
#define SOME_SWEEPABLE (SWEEPABLE(0) || SWEEPABLE(1))
#else
#define ALL_TERMINAL TERMINAL(0)
#define SOME_SWEEPABLE SWEEPABLE(0)
#endif

/* The fence: WHERE work_item_id = :id AND status = 'in_progress' AND lease_token = :token. (The
 * lease's time was compared with the clock that the transaction read when it began.) */
#if defined(BREAK_FENCE)
#define FENCE(w, i) true
#elif defined(BREAK_FENCE_BY_NAME)
#define FENCE(w, i) (row[i].holder == NAME(w))
#else
#define FENCE(w, i) (row[i].token == token[w])
#endif
#define MINE(w, i) (row[i].status == in_progress && FENCE(w, i))

/* Plain SQL knows no token: a trigger looks at how the current lease was taken (lease_via). */
#ifdef BREAK_VIA
#define PLAIN_MAY(i) (row[i].status == in_progress)
#else
#define PLAIN_MAY(i) (row[i].status == in_progress && row[i].plain)
#endif

/* Would the store accept a finish from w now? That is what an effective holder is. */
#define BELIEVES(w, i) ((phase[w] == held || phase[w] == begun) && item[w] == i)
#define EFFECTIVE(w, i) \
    (BELIEVES(w, i) && ((w) < WORKERS -> MINE(w, i) && !row[i].over : PLAIN_MAY(i)))

/* Fewer states, same behaviour: a token that is not the row's will never be again
 * (tokens_only_rise), so all of those are as good as one; and nothing compares the columns of an
 * ended row. */
inline settle(i)
{
#ifdef BREAK_TOKEN
    skip
#else
    if
    :: TERMINAL(i) ->
        row[i].token = 0;
        row[i].highest = 0;
        row[i].retries = 0;
        row[i].releases = 0;
        row[i].attempts = 0
    :: else
    fi;
    do
    :: who < WORKERS ->
        if
        :: item[who] == i && token[who] != row[i].token -> token[who] = 0
        :: else
        fi;
        who++
    :: else -> break
    od;
    who = 0;
    do
    :: who < WATCHDOGS ->
        if
        :: TERMINAL(i) -> spent[AT(who, i)] = 0
        :: else
        fi;
        if
        :: read[AT(who, i)] != 0 && read[AT(who, i)] != row[i].token -> read[AT(who, i)] = STALE
        :: else
        fi;
        who++
    :: else -> break
    od;
    who = 0
#endif
}

/* The trigger check_work_items_status refuses every other change of status; here none may even
 * be tried. */
inline become(i, s)
{
    allowed_transition =
        (row[i].status == s && !TERMINAL(i)) ||
        (row[i].status == pending && (s == in_progress || s == failed)) ||
        (row[i].status == in_progress &&
            (s == completed || s == failed || s == expired || s == pending)) ||
        (row[i].status == expired && (s == pending || s == failed));
    assert(allowed_transition);
    row[i].status = s;
    settle(i)
}

inline raise_token(i)
{
    row[i].token++;
    tokens_only_rise = (row[i].token > row[i].highest);
    assert(tokens_only_rise);
    row[i].highest = row[i].token
}

/* Checked wherever a holder can come into being: at a claim, and when a lease's time is
 * extended. */
inline check_holders(i)
{
#ifdef SKIP_HOLDERS
    skip
#else
    do
    :: who < EVERYBODY ->
        if
        :: EFFECTIVE(who, i) -> count++
        :: else
        fi;
        who++
    :: else -> break
    od;
    one_effective_holder = (count <= 1);
    assert(one_effective_holder);
    who = 0;
    count = 0
#endif
}

/* When an item is claimed, no program of another API worker runs on it. */
inline check_at_work(i, w)
{
    do
    :: who < WORKERS ->
        one_at_work = !(who != w && working[who] && item[who] == i);
        assert(one_at_work);
        who++
    :: else -> break
    od;
    who = 0
}

inline forget(w)
{
    phase[w] = idle;
    item[w] = 0;
    token[w] = 0;
    working[w] = false;
    renewed[w] = false;
    applied[w] = false
}

inline end_lease(i)
{
    row[i].holder = 0;
    row[i].plain = false;
    row[i].over = false;
    row[i].owner = 0
}

/* A failure or an expiry spends a retry, or ends the item when none is left. `so_far` is
 * retry_count as the statement before read it. */
inline try_again(i, so_far)
{
    end_lease(i);
    if
    :: so_far < LIMIT(i) ->
        row[i].retries = so_far + 1;
        become(i, pending)
    :: else ->
        become(i, failed)
    fi
}

/* work_claim: SET status = 'in_progress', lease_token = lease_token + 1, lease_holder = :worker,
 * lease_expires_at = :expires. The token of a plain-SQL claim is raised by a trigger. */
inline claim(i, w, is_plain)
{
    raise_token(i);
    if
    :: is_plain -> printf("plain SQL worker %d (%e) claims item %d", w, NAME(w), i)
    :: else -> printf("worker %d (%e) claims item %d", w, NAME(w), i)
    fi;
    printf(": token %d\n", row[i].token);
    become(i, in_progress);
    row[i].holder = NAME(w);
    row[i].plain = is_plain;
    row[i].over = false;
    row[i].owner = w + 1;
    row[i].attempts++;
    attempts_within_limit = (row[i].attempts <= 1 + LIMIT(i));
    assert(attempts_within_limit);
    check_at_work(i, w);
    phase[w] = held;
    token[w] = row[i].token;
    working[w] = !is_plain;
    check_holders(i)
}

/* The subselect of a claim: any pending item (priority and back-off are not modelled). */
inline pick(i, w, is_plain)
{
    item[w] = i;
#ifdef ATOMIC_CLAIM
    claim(i, w, is_plain)
#else
    phase[w] = picked
#endif
}

/* ... and its update: WHERE work_item_id IN (what was picked) AND status = 'pending', again. */
inline take(i, w, is_plain)
{
    if
    :: CLAIMABLE(i) ->
        claim(i, w, is_plain)
    :: else ->
        forget(w)
    fi
}

/* A finished item: one commit holds the check of the token, the output and the effect. */
inline complete(i, w)
{
    finished_once_by_its_holder = (row[i].owner == w + 1 && row[i].finished == 0);
    assert(finished_once_by_its_holder);
    row[i].finished++;
#ifdef BREAK_FINISH
    /* An API worker's effect came before, in a commit of its own. */
    row[i].effects = row[i].effects + (w < WORKERS -> 0 : 1);
#else
    row[i].effects++;
#endif
    one_effect_per_finish = (row[i].effects == 1);
    assert(one_effect_per_finish);
    end_lease(i);
    become(i, completed)
}

/* Behind a statement that gives the item up: the worker forgets it, or the answer is lost and it
 * asks again with its old belief. Its program had stopped before it asked. */
inline give_up(w)
{
    if
    :: forget(w)
    :: phase[w] = held; working[w] = false
    fi
}

#define MY item[me]

#ifdef ATOMIC_CLOCK
#define READY (phase[me] == held && !row[MY].over)
#else
#define READY (phase[me] == begun)
#endif
#ifdef FEW_RENEWALS
#define MAY_RENEW (!renewed[me])
#else
#define MAY_RENEW true
#endif
#ifdef BREAK_FINISH
#define MAY_FINISH (applied[me])
#else
#define MAY_FINISH true
#endif

proctype Worker(byte me)
{
end:
    do
    /* work_claim */
    :: d_step { phase[me] == idle && row[0].status == pending -> pick(0, me, false) }
#if ITEMS > 1
    :: d_step { phase[me] == idle && row[1].status == pending -> pick(1, me, false) }
#endif
#ifndef ATOMIC_CLAIM
    :: d_step { phase[me] == picked -> take(MY, me, false) }
#endif

    /* A transaction begins and reads the clock. ... AND lease_expires_at > :now refuses a lease
     * that is over. */
    :: d_step { phase[me] == held && row[MY].over ->
        printf("worker %d asks about item %d: lease lost\n", me, MY);
        forget(me) }
#ifndef ATOMIC_CLOCK
    :: d_step { phase[me] == held && !row[MY].over ->
        printf("worker %d begins a transaction on item %d\n", me, MY);
        phase[me] = begun }
#endif

    /* Each of the following statements, when the fence refuses it. */
    :: d_step { READY && !MINE(me, MY) ->
        printf("worker %d asks about item %d: lease lost\n", me, MY);
        forget(me) }

    /* work_renew: SET lease_expires_at = :expires */
    :: d_step { READY && MINE(me, MY) && MAY_RENEW ->
        printf("worker %d renews item %d\n", me, MY);
        row[MY].over = false;
        phase[me] = held;
#ifdef FEW_RENEWALS
        renewed[me] = true;
#endif
        check_holders(MY) }
#ifdef BREAK_RENEW
    :: d_step { phase[me] == held && row[MY].over && MINE(me, MY) ->
        printf("worker %d renews item %d, whose lease had run out\n", me, MY);
        row[MY].over = false;
        check_holders(MY) }
#endif

    /* work_finish */
#ifdef BREAK_FINISH
    :: d_step { READY && MINE(me, MY) && !applied[me] ->
        printf("worker %d commits the effect of item %d\n", me, MY);
        row[MY].effects++;
        applied[me] = true;
        phase[me] = held }
#endif
    :: atomic { READY && MINE(me, MY) && MAY_FINISH ->
        d_step { printf("worker %d finishes item %d\n", me, MY); complete(MY, me) };
        give_up(me) }

    /* work_fail: retryable, and final */
    :: atomic { READY && MINE(me, MY) ->
        d_step {
            printf("worker %d fails item %d, to be retried\n", me, MY);
            try_again(MY, row[MY].retries)
        };
        give_up(me) }
    :: atomic { READY && MINE(me, MY) ->
        d_step {
            printf("worker %d fails item %d for good\n", me, MY);
            end_lease(MY);
            become(MY, failed)
        };
        give_up(me) }

#if RELEASES > 0
    /* work_release: SET status = 'pending'; the attempt does not count. */
    :: atomic { READY && MINE(me, MY) && MY == 0 && row[MY].releases < RELEASES ->
        d_step {
            printf("worker %d releases item %d\n", me, MY);
            row[MY].attempts--;
            row[MY].releases++;
#ifdef BREAK_TOKEN
            row[MY].token--; /* a token that counts attempts: the release gives it back */
#endif
            end_lease(MY);
            become(MY, pending)
        };
        give_up(me) }
#endif

    /* A crash, wherever it is; it comes back under its name. */
    :: d_step { phase[me] == held || phase[me] == begun ->
        printf("worker %d crashes and comes back\n", me);
        forget(me) }
#ifdef LIVENESS
    /* All but the last may stay away for good. */
    :: atomic { me < WORKERS - 1 -> forget(me); break }
#endif
    od
}

/* A client that speaks plain SQL. What the database lets it do is taken wide: it may refuse more
 * than this. */
proctype PlainWorker(byte me)
{
end:
    do
    :: d_step { phase[me] == idle && row[0].status == pending -> pick(0, me, true) }
#if ITEMS > 1
    :: d_step { phase[me] == idle && row[1].status == pending -> pick(1, me, true) }
#endif
#ifndef ATOMIC_CLAIM
    :: d_step { phase[me] == picked -> take(MY, me, true) }
#endif
    /* Heartbeat: WHERE lease_holder = :name AND status = 'in_progress'. Also late, and also
     * under the lease of an API worker with its name: it prolongs that lease, and gives nobody a
     * second one. */
    :: d_step { phase[me] == held && RUN_OUT(MY) && row[MY].holder == NAME(me) ->
        printf("plain SQL worker %d sends a heartbeat for item %d\n", me, MY);
        row[MY].over = false;
        check_holders(MY) }
    /* Completion by id. */
    :: d_step { phase[me] == held && PLAIN_MAY(MY) ->
        printf("plain SQL worker %d completes item %d\n", me, MY);
        complete(MY, me);
        forget(me) }
    /* Failure by id: while nobody holds the item, or its lease has run out, nothing tells it from
     * a cancellation or a sweep. */
    :: d_step { phase[me] == held && (PLAIN_MAY(MY) || WAITS(MY) || RUN_OUT(MY)) ->
        printf("plain SQL worker %d fails item %d\n", me, MY);
        end_lease(MY);
        become(MY, failed);
        forget(me) }
    /* Refused, crashed, or gone elsewhere. */
    :: d_step { phase[me] == held -> forget(me) }
#ifdef LIVENESS
    :: atomic { phase[me] == idle -> break }
#endif
    od
}

/* work_sweep: work_overdue and work_left_expired read what is due; work_expire updates WHERE
 * lease_token = the one read AND it is due, again. On SQLite they are one transaction, and on
 * PostgreSQL the first locks the rows; here anything may happen in between. */
#if defined(BREAK_SWEEP)
#define STILL_DUE true
#elif defined(BREAK_SWEEP_TOKEN)
#define STILL_DUE SWEEPABLE(i)
#else
#define STILL_DUE (row[i].token == read[AT(me, i)] && SWEEPABLE(i))
#endif

proctype Watchdog(byte me)
{
    byte i;
end:
    do
    :: d_step { SOME_SWEEPABLE ->
        do
        :: i < ITEMS ->
            if
            :: SWEEPABLE(i) ->
                printf("watchdog %d sees that item %d is due\n", me, i);
                read[AT(me, i)] = row[i].token;
                spent[AT(me, i)] = row[i].retries
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
       };
       d_step {
        do
        :: i < ITEMS ->
            if
            :: read[AT(me, i)] != 0 && STILL_DUE ->
                printf("watchdog %d sweeps item %d, which is %e\n", me, i, row[i].status);
                live_leases_are_not_swept = (row[i].owner == 0 || row[i].over);
                assert(live_leases_are_not_swept);
                raise_token(i);
#ifdef BREAK_RETRIES
                if
                :: row[i].status == expired -> become(i, pending)
                :: else -> try_again(i, spent[AT(me, i)])
                fi
#else
                try_again(i, spent[AT(me, i)])
#endif
            :: else
            fi;
            read[AT(me, i)] = 0;
            spent[AT(me, i)] = 0;
            i++
        :: else -> break
        od;
        i = 0
       }
    od
}

/* The store's clock. A worker stops its program by its own clock, no later than this one ends
 * the lease. */
proctype LeaseClock(byte i)
{
end:
    do
    :: d_step { row[i].status == in_progress && !row[i].over ->
        printf("the lease of item %d runs out\n", i);
        row[i].over = true;
#ifndef BREAK_STOP
        do
        :: who < WORKERS ->
            if
            :: BELIEVES(who, i) && token[who] == row[i].token -> working[who] = false
            :: else
            fi;
            who++
        :: else -> break
        od;
        who = 0
#endif
       }
    od
}

/* An operator who cancels (work_cancel), and a foreign watchdog that speaks plain SQL: it puts an
 * item whose lease ran out back, or leaves it in 'expired'. A trigger raises the token. */
proctype Others(byte i)
{
end:
    do
    :: d_step { !TERMINAL(i) ->
        printf("item %d is cancelled\n", i);
        end_lease(i);
        become(i, failed) }
    :: d_step { RUN_OUT(i) ->
        printf("a foreign watchdog sets item %d to expired\n", i);
        raise_token(i);
        end_lease(i);
        become(i, expired) }
    :: d_step { RUN_OUT(i) ->
        printf("a foreign watchdog sweeps item %d\n", i);
        raise_token(i);
        try_again(i, row[i].retries) }
#ifdef LIVENESS
    :: break /* nothing may depend on them */
#endif
    od
}

#ifdef LIVENESS
/* Under weak fairness: pan -a -f -N name. */
/* No item stays in a state in which nobody works on it. */
ltl never_rests { [] (WAITS(0) -> <> !WAITS(0)) }

/* A lease that ran out is not prolonged: the item leaves in_progress. (With ATOMIC_CLOCK and
 * without plain SQL: a renewal that began in time may land late, and a plain heartbeat does not
 * look.) */
ltl run_out_is_taken_back { [] (RUN_OUT(0) -> <> (row[0].status != in_progress)) }

/* If no worker renews for ever (FEW_RENEWALS), everything ends. */
ltl everything_ends { <> ALL_TERMINAL }
#else
/* When nobody can take another step, every item has ended. */
proctype Rest()
{
end:
    timeout;
    nothing_rests = ALL_TERMINAL;
    assert(nothing_rests)
}
#endif

init {
    byte n;
    atomic {
        do
        :: n < WORKERS -> run Worker(n); n++
        :: n >= WORKERS && n < EVERYBODY -> run PlainWorker(n); n++
        :: n == EVERYBODY -> break
        od;
        n = 0;
        do
        :: n < WATCHDOGS -> run Watchdog(n); n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < ITEMS ->
            run LeaseClock(n);
            if
            :: OTHERS -> run Others(n)
            :: !OTHERS
            fi;
            n++
        :: else -> break
        od;
        n = 0
#ifndef LIVENESS
        ;
        run Rest()
#endif
    }
}
