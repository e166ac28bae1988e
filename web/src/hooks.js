import { useEffect, useRef, useState } from "preact/hooks";
import { isLive, pulse } from "./api.js";
import { answered, forget } from "./fresh.js";

const QUIET_MS = 1000; // between two questions of one view, however much happens
export const SLOW_MS = 5000; // of those that many rows are read for
const POLL_MS = 5000; // where nothing notifies

// Request now, again when a topic is notified (no sooner than quietMs), and now and then where nothing notifies. The newest response counts.
export function useAsked(ask, inputs, topics = ["all"], quietMs = QUIET_MS) {
  const [state, setState] = useState({ data: null, error: null, isLoading: true });
  const again = useRef(() => {});
  useEffect(() => {
    const key = {};
    let abort = null;
    let timer = null;
    let due = Infinity;
    let wanted = false;
    let over = false;
    // In a while; what is planned for sooner stays, so that news that never end do not put it off for ever.
    const plan = (ms) => {
      if (Date.now() + ms >= due) return;
      clearTimeout(timer);
      due = Date.now() + ms;
      timer = setTimeout(run, ms);
    };
    const run = async () => {
      if (over) return;
      clearTimeout(timer);
      due = Infinity;
      if (document.hidden) return; // hidden; `shown` continues
      if (abort) {
        wanted = true;
        return;
      }
      wanted = false;
      abort = new AbortController();
      try {
        const data = await ask(abort.signal);
        if (!over) {
          answered(key, POLL_MS * 6);
          setState({ data, error: null, isLoading: false });
        }
      } catch (error) {
        if (!over && error.name !== "AbortError") setState((before) => ({ ...before, error, isLoading: false }));
      }
      abort = null;
      if (over) return;
      plan(wanted ? quietMs : isLive.value ? POLL_MS * 6 : POLL_MS);
    };
    const soon = () => {
      if (document.hidden) return;
      wanted = true;
      if (!abort) plan(quietMs);
    };
    const shown = () => document.hidden || soon();
    again.current = run;
    document.addEventListener("visibilitychange", shown);
    const stop = pulse.subscribe(({ topic }) => {
      if (topic === "all" || topics.includes(topic)) soon();
    });
    run();
    return () => {
      over = true;
      forget(key);
      stop();
      document.removeEventListener("visibilitychange", shown);
      clearTimeout(timer);
      abort?.abort();
    };
  }, inputs);
  return { ...state, refresh: () => again.current() };
}

export function useKey(key, run) {
  useEffect(() => {
    const down = (event) => {
      if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", down);
    return () => removeEventListener("keydown", down);
  }, [key, run]);
}
