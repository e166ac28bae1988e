/* lease.pml - a named lease (src/core), guarding the resuming of a task: one resumer at a time.
 *
 * Steps bear the names of the statements in sql/lease.sql. Unlike a work item, a lease whose
 * time is up may be claimed at once, without a sweep. A resumer claims the task's lease, reads
 * the journal, runs the next tool that has no tool_executed checkpoint, and appends that
 * checkpoint in a transaction that also holds lease_check; then the next tool.
 *
 * As in work.pml: `over` becomes true at any moment; a transaction reads the clock when it
 * begins and looks at the row later; a resumer stops its tool by its own clock, no later than
 * the lease ends; it may stand still, crash and come back anywhere. Names are not modelled,
 * because no statement compares them. */

#ifndef RESUMERS
#define RESUMERS 3
#endif
#ifndef TOOLS
#define TOOLS 2
#endif
#ifndef TOKENS
#define TOKENS 5 /* bounds the model: the last token that is issued */
#endif

/* The row of leases. */
bool is_held; /* holder IS NOT NULL */
bool over;    /* expires_at <= now */
byte token;

/* The journal: tools 0 .. recorded-1 have their checkpoint. */
byte recorded;

/* What each resumer remembers. */
mtype = { idle, held, read, ran, begun };
mtype phase[RESUMERS] = idle;
byte known[RESUMERS];    /* its token */
byte tool[RESUMERS];     /* the next one, as read from the journal */
bool may_work[RESUMERS]; /* by its own clock */
bool runs[RESUMERS];     /* a tool */
bool renews[RESUMERS];   /* a renewal is under way */

byte owner; /* ghost: 1 + whose claim is in force, 0 nobody */

bool one_effective_holder = true;
bool one_at_work = true;
bool recorded_tools_are_not_run_again = true;
bool recorded_once_by_the_holder = true;

byte who, count;

#ifdef BREAK_FENCE
#define MINE(w) is_held
#else
#define MINE(w) (is_held && token == known[w])
#endif
#define EFFECTIVE(w) (phase[w] != idle && MINE(w) && !over)

inline forget(w)
{
    phase[w] = idle;
    known[w] = 0;
    tool[w] = 0;
    may_work[w] = false;
    runs[w] = false;
    renews[w] = false
}

inline check_holders()
{
#ifdef SKIP_HOLDERS
    skip
#else
    do
    :: who < RESUMERS ->
        if
        :: EFFECTIVE(who) -> count++
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

inline check_at_work(w)
{
    do
    :: who < RESUMERS ->
        one_at_work = !(who != w && runs[who]);
        assert(one_at_work);
        who++
    :: else -> break
    od;
    who = 0
}

proctype Resumer(byte me)
{
end:
    do
    /* lease_claim: ON CONFLICT DO UPDATE ... WHERE holder IS NULL OR expires_at <= :now */
    :: d_step { phase[me] == idle && recorded < TOOLS && (!is_held || over) && token < TOKENS ->
        token++;
        printf("resumer %d claims the task: token %d\n", me, token);
        is_held = true;
        over = false;
        owner = me + 1;
        phase[me] = held;
        known[me] = token;
        may_work[me] = true;
        check_holders() }

    /* The journal is read under the lease: what is read may be old when it is used. */
    :: d_step { phase[me] == held && may_work[me] && recorded < TOOLS ->
        printf("resumer %d reads the journal: %d recorded\n", me, recorded);
        tool[me] = recorded;
        phase[me] = read }

    :: d_step { phase[me] == read && may_work[me] ->
        printf("resumer %d runs tool %d\n", me, tool[me]);
        recorded_tools_are_not_run_again = (tool[me] >= recorded);
        assert(recorded_tools_are_not_run_again);
        check_at_work(me);
        runs[me] = true;
        phase[me] = ran }

    /* The tool is done; a transaction begins and reads the clock. */
    :: d_step { phase[me] == ran && runs[me] && !over ->
        printf("resumer %d begins a transaction\n", me);
        runs[me] = false;
        phase[me] = begun }

    /* lease_check and the append, in one transaction. */
    :: d_step { phase[me] == begun && MINE(me) ->
        printf("resumer %d records tool %d\n", me, tool[me]);
        recorded_once_by_the_holder = (owner == me + 1 && recorded == tool[me]);
        assert(recorded_once_by_the_holder);
        recorded++;
        tool[me] = 0;
        phase[me] = held }
    :: d_step { phase[me] == begun && !MINE(me) ->
        printf("resumer %d may not record: lease lost\n", me);
        forget(me) }

    /* lease_renew, also while a tool runs: one that began before the lease ran out may still
     * come through. */
    :: d_step { (phase[me] == held || phase[me] == ran) && !renews[me] && !over ->
        printf("resumer %d begins a renewal\n", me);
        renews[me] = true }
    :: d_step { renews[me] && MINE(me) ->
        printf("resumer %d renews\n", me);
        renews[me] = false;
        over = false;
        check_holders() }
    :: d_step { renews[me] && !MINE(me) ->
        printf("resumer %d may not renew: lease lost\n", me);
        forget(me) }

    /* lease_release */
    :: d_step { phase[me] == held && !over && MINE(me) ->
        printf("resumer %d releases the task\n", me);
        is_held = false;
        owner = 0;
        forget(me) }

    /* Told that the lease is lost, stopped by its own clock, or crashed; it comes back. */
    :: d_step { phase[me] != idle ->
        printf("resumer %d stops or crashes, and comes back\n", me);
        forget(me) }
    od
}

/* The store's clock, and each resumer's own, which is no later. */
proctype LeaseClock()
{
end:
    do
    :: d_step { is_held && !over ->
        printf("the lease runs out\n");
        over = true;
#ifndef BREAK_STOP
        do
        :: who < RESUMERS ->
            if
            :: known[who] == token -> may_work[who] = false; runs[who] = false
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

/* lease_expire */
proctype Watchdog()
{
end:
    do
    :: d_step { is_held && over && token < TOKENS ->
        printf("the watchdog ends the lease\n");
        is_held = false;
        over = false;
        owner = 0;
        token++ }
    od
}

init {
    byte n;
    atomic {
        do
        :: n < RESUMERS -> run Resumer(n); n++
        :: else -> break
        od;
        n = 0;
        run LeaseClock();
        run Watchdog()
    }
}
