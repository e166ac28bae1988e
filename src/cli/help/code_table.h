/* code_table.h - every code and reason that the program prints, with what it means and what to do.
 *
 * X(kind, code, meaning, what to do next or "")
 *
 * Statuses are not here: they have their own table (tidemark/status.h). `tidemark explain` and docs/reference/errors.md read both.
 * tests/cli/help/explain_test.c holds the table against the sources: a reason that is not explained fails there. */
#pragma once

/* K(kind, name, where it is met) */
#define TIDE_CLI_CODE_KINDS(K)                                                                     \
    K(EXIT, "exit code", "how a command ended")                                                    \
    K(STATUS, "status", "how a call ended, in logs, messages and answers")                         \
    K(GAP_STATUS, "gap status", "gaps ls, sequence_gaps")                                          \
    K(GAP_REASON, "gap reason", "why numbers are missing")                                         \
    K(HOLD, "hold", "why nothing moves: status, tidemark_colony_hold")                             \
    K(HOLE, "hole", "numbers that a feed no longer has")                                           \
    K(HEALTH, "health", "of agents")                                                               \
    K(EPOCH_REASON, "epoch reason", "why history may have been cut: store epochs")                 \
    K(ITEM_STATUS, "item status", "of work items")                                                 \
    K(FAILURE_KIND, "failure kind", "of failed work items")                                        \
    K(ATTEMPT_OUTCOME, "attempt outcome", "of attempts at work items")                             \
    K(WAIT_REASON, "waiting", "why an item does not run: work explain")                            \
    K(OUTCOME, "idempotency", "outcome of an idempotency key")                                     \
    K(REFUSAL, "refusal",                                                                          \
      "what a service did not accept: tidemark_auth_failures, tidemark_otlp_refused_records")      \
    K(CONFLICT, "replica conflict", "replica conflicts")                                           \
    K(QUARANTINE, "quarantine", "why an event is not merged yet: quarantined in replica status")   \
    K(CHECK, "check", "state that tidemark check prints")                                          \
    K(DEAD_LETTER, "dead letter", "records that a colony could not decode")

#define TIDE_CLI_CODES_EXITS(X)                                                                    \
    X(EXIT, "0", "ok", "")                                                                         \
    X(EXIT, "1", "failed", "the message above the code says why; report what is unexpected")       \
    X(EXIT, "2", "usage: a bad option, name, number or URL; nothing was changed",                  \
      "correct the words; 'tidemark help COMMAND VERB' tells what they may be")                    \
    X(EXIT, "3", "not found, or nothing there",                                                    \
      "check the name and the store or service that was asked")                                    \
    X(EXIT, "4", "conflict: lease lost, mismatch, already exists",                                 \
      "read the current state and decide again")                                                   \
    X(EXIT, "5", "not permitted", "check owner and permissions, or show valid credentials")        \
    X(EXIT, "6", "unavailable: busy, timed out, full, or nobody answered",                         \
      "try again in a moment; what is full needs room first")                                      \
    X(EXIT, "7", "partly done, or the outcome is unknown",                                         \
      "look at what is there before repeating it")                                                 \
    X(EXIT, "8", "damage or data loss was found",                                                  \
      "keep the damaged file; 'tidemark store verify' and 'colony audit' tell more")               \
    X(EXIT, "130", "interrupted by Ctrl-C; nothing is half done", "")

#define TIDE_CLI_CODES_GAPS(X)                                                                     \
    X(GAP_STATUS, "detected", "numbers are missing and will be asked for again",                   \
      "wait for the recovery, or 'tidemark gaps retry ID'")                                        \
    X(GAP_STATUS, "recovering", "the missing numbers are being asked for", "")                     \
    X(GAP_STATUS, "recovered", "the records came after all", "")                                   \
    X(GAP_STATUS, "permanent", "the records are lost, with a reason",                              \
      "look at the reason: 'tidemark gaps show ID'")                                               \
    X(GAP_STATUS, "void",                                                                          \
      "no record ever had these numbers, or so it is presumed of a foreign agent", "")

#define TIDE_CLI_CODES_GAP_REASONS(X)                                                              \
    X(GAP_REASON, "missing", "an answer went past these numbers without them",                     \
      "nothing: they are asked for again, a few times")                                            \
    X(GAP_REASON, "retention", "the agent no longer had the records when they were asked for",     \
      "let the agent keep records longer (--keep-for, --hard-for), or poll more "                  \
      "often")                                                                                     \
    X(GAP_REASON, "session changed",                                                               \
      "the agent's store is another one: the old one is gone with what was unread "                \
      "in it",                                                                                     \
      "find out why the agent's store was removed")                                                \
    X(GAP_REASON, "epoch changed",                                                                 \
      "the agent began a new epoch; what the old one had not yet given is lost",                   \
      "'tidemark store epochs' on the agent tells why it began")                                   \
    X(GAP_REASON, "restored",                                                                      \
      "the agent's store was put back to an earlier state, or copied: numbers were "               \
      "given out twice",                                                                           \
      "'tidemark store epochs' on the agent tells the evidence")                                   \
    X(GAP_REASON, "diverged",                                                                      \
      "the agent's history is not the one that was read before, though nobody said "               \
      "so",                                                                                        \
      "look for a volume that was rolled back below the agent")                                    \
    X(GAP_REASON, "operator", "somebody skipped or accepted it by hand",                           \
      "the evidence has the note: 'tidemark gaps show ID'")                                        \
    X(GAP_REASON, "presumed",                                                                      \
      "a foreign agent has records before and behind the numbers and never these: "                \
      "they are taken for numbers that no record had",                                             \
      "")                                                                                          \
    X(GAP_REASON, "rolled back", "the agent says that no record has these numbers", "")            \
    X(GAP_REASON, "undecodable", "records came without a readable number in place of these",       \
      "look at dead_letters for what came")                                                        \
    X(GAP_REASON, "unreachable", "the agent did not answer for so long that the gap was given up", \
      "'tidemark gaps retry ID' asks again when it is back")                                       \
    X(GAP_REASON, "unanswered",                                                                    \
      "the agent answered, and neither gave nor explained the numbers, at every "                  \
      "attempt",                                                                                   \
      "'tidemark gaps retry ID' asks again")                                                       \
    X(GAP_REASON, "too large", "a foreign agent's record is larger than any answer may be",        \
      "let that agent write smaller records")

#define TIDE_CLI_CODES_HOLDS(X)                                                                    \
    X(HOLD, "held hole",                                                                           \
      "numbers are not there yet and may still come; reading waits behind them",                   \
      "nothing: after --grace they become a gap")                                                  \
    X(HOLD, "back-off", "the last question failed; it is asked again after a pause",               \
      "'tidemark colony agent ls' has the failure")                                                \
    X(HOLD, "sink", "the answer cannot be stored",                                                 \
      "look at the colony's store: disk, permissions, log")                                        \
    X(HOLD, "record too large", "a foreign agent's record is larger than any answer may be",       \
      "let that agent write smaller records")

#define TIDE_CLI_CODES_HOLES(X)                                                                    \
    X(HOLE, "expired",                                                                             \
      "dropped for its age or size after everybody had read it, or unread after "                  \
      "--hard-for (then with a receipt)",                                                          \
      "keep records longer: --keep-for, --hard-for")                                               \
    X(HOLE, "evicted",                                                                             \
      "dropped unread because more than --hard-bytes were stored; with a receipt",                 \
      "give the agent more room: --hard-bytes")                                                    \
    X(HOLE, "damaged",                                                                             \
      "what is stored is not what was written, or cannot be read; with a receipt",                 \
      "check the agent's disk, then 'tidemark feed verify'")                                       \
    X(HOLE, "lost", "no batch has these numbers; with a receipt",                                  \
      "'tidemark feed show STREAM' lists the holes")

#define TIDE_CLI_CODES_HEALTHS(X)                                                                  \
    X(HEALTH, "unseen", "the agent has not answered yet",                                          \
      "check its address: 'tidemark colony agent ls'")                                             \
    X(HEALTH, "healthy", "the agent answered within 30 seconds", "")                               \
    X(HEALTH, "degraded", "the agent last answered within 2 minutes",                              \
      "look at its failure: 'tidemark colony agent ls'")                                           \
    X(HEALTH, "away", "the agent has not answered for more than 2 minutes",                        \
      "see whether it runs and can be reached")

#define TIDE_CLI_CODES_EPOCHS(X)                                                                   \
    X(EPOCH_REASON, "created", "the first epoch of a store", "")                                   \
    X(EPOCH_REASON, "copied",                                                                      \
      "the file is a copy of another store, or was moved between file systems", "")                \
    X(EPOCH_REASON, "restored", "the store was put back to an earlier state", "")                  \
    X(EPOCH_REASON, "failover", "a PostgreSQL standby took over (another timeline)", "")           \
    X(EPOCH_REASON, "diverged", "a reader showed a point that this history does not have", "")     \
    X(EPOCH_REASON, "operator", "begun by hand: 'tidemark store new-epoch --why TEXT'", "")

#define TIDE_CLI_CODES_ITEMS(X)                                                                    \
    X(ITEM_STATUS, "pending", "waits to be claimed",                                               \
      "'tidemark work explain ID' tells what it waits for")                                        \
    X(ITEM_STATUS, "in_progress", "a worker holds it under a lease", "")                           \
    X(ITEM_STATUS, "completed", "finished by the holder of its token", "")                         \
    X(ITEM_STATUS, "failed", "ended without success; failure_kind says how",                       \
      "'tidemark work retry ID' makes a new one like it")                                          \
    X(ITEM_STATUS, "expired", "marked by plain SQL; the next sweep takes it up",                   \
      "'tidemark work sweep'")

#define TIDE_CLI_CODES_FAILURES(X)                                                                 \
    X(FAILURE_KIND, "error", "the worker said so, for good",                                       \
      "'tidemark work show ID' has its words")                                                     \
    X(FAILURE_KIND, "exhausted", "its retries are used up",                                        \
      "'tidemark work show ID --json' has the attempts")                                           \
    X(FAILURE_KIND, "quarantined",                                                                 \
      "its retries are used up, and it took its worker down several times",                        \
      "look at the input before 'tidemark work retry ID'")                                         \
    X(FAILURE_KIND, "cancelled", "somebody cancelled it, or its task", "")                         \
    X(FAILURE_KIND, "dependency", "an item it depends on failed", "retry that one first")

#define TIDE_CLI_CODES_ATTEMPTS(X)                                                                 \
    X(ATTEMPT_OUTCOME, "completed", "the attempt finished the item", "")                           \
    X(ATTEMPT_OUTCOME, "failed", "the worker reported a failure", "")                              \
    X(ATTEMPT_OUTCOME, "expired", "the lease ran out before the worker came back",                 \
      "see whether the worker died; a longer --lease helps a slow one")                            \
    X(ATTEMPT_OUTCOME, "timed_out", "the attempt took longer than the item's timeout", "")         \
    X(ATTEMPT_OUTCOME, "released", "the worker gave it back; the attempt is not counted", "")      \
    X(ATTEMPT_OUTCOME, "cancelled", "it was cancelled while it ran", "")                           \
    X(ATTEMPT_OUTCOME, "replaced", "plain SQL took the lease from its holder", "")

#define TIDE_CLI_CODES_WAITS(X)                                                                    \
    X(WAIT_REASON, "ready", "it is the next of its type", "start a worker that claims its type")   \
    X(WAIT_REASON, "running", "a worker has it", "")                                               \
    X(WAIT_REASON, "paused", "its type is paused", "'tidemark work resume TYPE'")                  \
    X(WAIT_REASON, "delayed", "it may not run before a time", "")                                  \
    X(WAIT_REASON, "waiting", "items it depends on are not completed", "")                         \
    X(WAIT_REASON, "limited", "as many items of its type or key run as the limit allows",          \
      "'tidemark work limit TYPE'")                                                                \
    X(WAIT_REASON, "policy", "its type has a retry policy", "'tidemark work policy TYPE'")         \
    X(WAIT_REASON, "task_ended", "its task has ended: nothing of it is claimed any more", "")      \
    X(WAIT_REASON, "ended", "it is completed or has failed", "")                                   \
    X(WAIT_REASON, "lease_over", "its lease ran out", "'tidemark work sweep' takes it up at once") \
    X(WAIT_REASON, "behind", "others of its type come first", "")

#define TIDE_CLI_CODES_OUTCOMES(X)                                                                 \
    X(OUTCOME, "NEW", "the key was not used before: the work is to be done", "")                   \
    X(OUTCOME, "REPLAY", "it was done before: the stored answer is given", "")                     \
    X(OUTCOME, "IN_PROGRESS", "somebody works on it", "wait, or try again")                        \
    X(OUTCOME, "MISMATCH", "the key was used with another request",                                \
      "use a new key for a new request")                                                           \
    X(OUTCOME, "TAKEOVER", "whoever had it stopped half-way, and it is handed over",               \
      "look where the work stands before going on")

#define TIDE_CLI_CODES_REFUSALS(X)                                                                 \
    X(REFUSAL, "unauthenticated", "a call without valid credentials",                              \
      "show a live token, or a certificate that is trusted")                                       \
    X(REFUSAL, "denied", "a call whose role is too low, or a web page of another origin",          \
      "make a token with the role: 'tidemark token create'")                                       \
    X(REFUSAL, "guessing", "calls of an address that had sent too many bad tokens",                \
      "wait a minute, then use the right one")                                                     \
    X(REFUSAL, "unchecked",                                                                        \
      "a call whose token could not be checked, as the store does not answer",                     \
      "retry; tidemark_store_up and /readyz report the store")                                     \
    X(REFUSAL, "rejected", "records of an OTLP request that cannot be kept as they are",           \
      "the answer's partial_success says why")                                                     \
    X(REFUSAL, "sampled", "spans that --sample left out", "")

#define TIDE_CLI_CODES_CONFLICTS(X)                                                                \
    X(CONFLICT, "write",                                                                           \
      "a value was written on two nodes at once; this one was lost to the other",                  \
      "'tidemark replica conflicts DB --json' has the value")                                      \
    X(CONFLICT, "delete",                                                                          \
      "a row was deleted on one node while another wrote to it; this write was lost",              \
      "'tidemark replica conflicts DB --json' has the value")                                      \
    X(CONFLICT, "check", "a row is kept out of its table by a CHECK or NOT NULL",                  \
      "write a row that fits, on any node")                                                        \
    X(CONFLICT, "unique", "a row is kept out of its table: an older row has its unique key",       \
      "change one of the two keys, on any node")                                                   \
    X(CONFLICT, "foreign key",                                                                     \
      "a row is kept out of its table: the row it refers to is not there",                         \
      "add that row, on any node")

#define TIDE_CLI_CODES_QUARANTINES(X)                                                              \
    X(QUARANTINE, "table", "an event of a table that is not tracked here",                         \
      "'tidemark replica track DB TABLE'")                                                         \
    X(QUARANTINE, "column", "an event of columns, or of a schema, that this node does not know",   \
      "bring this node's schema up to date")                                                       \
    X(QUARANTINE, "key", "an event whose key does not fit the table's",                            \
      "compare the table's primary key on both nodes")                                             \
    X(QUARANTINE, "drift", "an event stamped too far ahead of this node's clock",                  \
      "set the clocks; it is merged when its time has come")                                       \
    X(QUARANTINE, "size",                                                                          \
      "a value of this node that is too large for an event: it stays here alone",                  \
      "replace it by a smaller one")                                                               \
    X(QUARANTINE, "null",                                                                          \
      "a row of this node with NULL in its primary key: no other node could find it",              \
      "give it a key")

#define TIDE_CLI_CODES_CHECKS(X)                                                                   \
    X(CHECK, "OK", "tidemark check: everything below the thresholds (exit code 0)", "")            \
    X(CHECK, "WARNING", "tidemark check: the first threshold is reached (exit code 1)",            \
      "'tidemark status' shows where")                                                             \
    X(CHECK, "CRITICAL", "tidemark check: the second threshold is reached (exit code 2)",          \
      "'tidemark status' shows where")                                                             \
    X(CHECK, "UNKNOWN", "tidemark check could not find out (exit code 3)",                         \
      "the rest of the line says why")

#define TIDE_CLI_CODES_LETTERS(X)                                                                  \
    X(DEAD_LETTER, "too long", "a record that is longer than any may be",                          \
      "look at dead_letters: the bytes are kept")                                                  \
    X(DEAD_LETTER, "not a message of its type", "a record that cannot be decoded",                 \
      "look at dead_letters: the bytes are kept")                                                  \
    X(DEAD_LETTER, "no number", "a record without a number",                                       \
      "look at dead_letters: the bytes are kept")                                                  \
    X(DEAD_LETTER, "text that is not UTF-8, or has a NUL",                                         \
      "a record with text that no store accepts", "look at dead_letters: the bytes are kept")

#define TIDE_CLI_CODES(X)                                                                          \
    TIDE_CLI_CODES_EXITS(X)                                                                        \
    TIDE_CLI_CODES_GAPS(X)                                                                         \
    TIDE_CLI_CODES_GAP_REASONS(X)                                                                  \
    TIDE_CLI_CODES_HOLDS(X)                                                                        \
    TIDE_CLI_CODES_HOLES(X)                                                                        \
    TIDE_CLI_CODES_HEALTHS(X)                                                                      \
    TIDE_CLI_CODES_EPOCHS(X)                                                                       \
    TIDE_CLI_CODES_ITEMS(X)                                                                        \
    TIDE_CLI_CODES_FAILURES(X)                                                                     \
    TIDE_CLI_CODES_ATTEMPTS(X)                                                                     \
    TIDE_CLI_CODES_WAITS(X)                                                                        \
    TIDE_CLI_CODES_OUTCOMES(X)                                                                     \
    TIDE_CLI_CODES_REFUSALS(X)                                                                     \
    TIDE_CLI_CODES_CONFLICTS(X)                                                                    \
    TIDE_CLI_CODES_QUARANTINES(X)                                                                  \
    TIDE_CLI_CODES_CHECKS(X)                                                                       \
    TIDE_CLI_CODES_LETTERS(X)
