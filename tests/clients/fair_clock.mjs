// fair_clock.mjs - a timer for limits, as tests/support/clock/fair_clock.h has it: it counts the time in which this machine had a core for us,
// so that a busy machine makes a case slow and does not fail it.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

const LOOK_MS = 200;

// The share of a core that a thread gets, by the text of /proc/loadavg; 1 where it cannot be read.
export function fairShare(loadavg, cores) {
    const [minute, , , running] = loadavg.split(' ');
    const wanted = Math.max(Number.parseFloat(minute), Number.parseInt(running, 10));
    return wanted > cores ? cores / wanted : 1;
}

function readShare() {
    try {
        return fairShare(readFileSync('/proc/loadavg', 'utf8'), availableParallelism());
    } catch {
        return 1;
    }
}

// Calls late once when the time is over. Returns what calls it off.
export function afterFairTime(ms, late) {
    let used = 0;
    let before = performance.now();
    const timer = setInterval(() => {
        const now = performance.now();
        used += (now - before) * readShare();
        before = now;
        if (used < ms) return;
        clearInterval(timer);
        late();
    }, Math.min(LOOK_MS, ms));
    return () => clearInterval(timer);
}
