// Whether what the page shows is true now. It is stale after 5 s without a sign of the server, after a call that failed, while an
// answer is older than its period, and while the server itself reports old data. Then <html> and <main> have data-stale="true": a
// red bar names the age, everything else is grey, and nothing is called healthy.
import { computed, effect, signal } from "@preact/signals";

const SILENT_MS = 5000;
const POLLING_MS = 10000; // without an event stream (too many pages) calls are all there is
const TICK_MS = 500;

export const now = signal(Date.now());
const heardAt = signal(Date.now()); // the last sign of the server
const failedAt = signal(0); // since the first call that failed; 0: the last one succeeded
const failure = signal("");
const served = signal({ at: 0, reason: "" }); // the server reports that its data is of then; at 0: it is not old
const isPolling = signal(false);
const asked = new Map(); // views that wait for answers: key -> [time of the last answer, limit]
const overdue = signal(0); // the oldest answer that is overdue is of then; 0: none

export function heard() {
  heardAt.value = Date.now();
}

export function succeeded() {
  heard();
  failedAt.value = 0;
}

export function failed(text) {
  if (!failedAt.value) failedAt.value = Date.now();
  failure.value = text;
}

export function polling(is) {
  isPolling.value = is;
}

// An answer of this view is valid for so long.
export function answered(key, periodMs) {
  asked.set(key, [Date.now(), periodMs + SILENT_MS]);
}

export function forget(key) {
  asked.delete(key);
}

// What the server says of its own data.
export function noteServed(ageMs, reason) {
  served.value = { at: reason ? Date.now() - ageMs : 0, reason };
}

const silentSince = computed(() => (now.value - heardAt.value > (isPolling.value ? POLLING_MS : SILENT_MS) ? heardAt.value : 0));

// null, or { since, reason }: the data is of `since`.
export const stale = computed(() => {
  if (silentSince.value) return { since: silentSince.value, reason: "the server does not answer" };
  if (failedAt.value) return { since: heardAt.value, reason: failure.value };
  if (overdue.value) return { since: overdue.value, reason: "a call has not been answered" };
  if (served.value.at) return { since: served.value.at, reason: served.value.reason };
  return null;
});
export const isStale = computed(() => stale.value !== null);

export function watchFreshness() {
  setInterval(() => {
    const time = Date.now();
    const late = [...asked.values()].filter(([at, limit]) => time - at > limit).map(([at]) => at);
    overdue.value = document.hidden || !late.length ? 0 : Math.min(...late);
    now.value = time;
  }, TICK_MS);
  effect(() => {
    document.documentElement.dataset.stale = String(isStale.value);
  });
}
