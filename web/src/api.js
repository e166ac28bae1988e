// The public services: JSON by POST to /package.Service/Method. No other way to the data exists here.
import { signal } from "@preact/signals";
import { failed, heard, polling, succeeded } from "./fresh.js";

export const token = signal(sessionStorage.getItem("token") || "");
export const needsToken = signal(false);

const NOT_FOUND = 5;

export class Refusal extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code; // of gRPC, where a service has answered
  }
  // The daemon that serves this page does not have the service: the view says so instead of failing. (A service that has no such thing says 404, too, with a code.)
  get isAbsent() {
    return this.status === 501 || (this.status === 404 && this.code !== NOT_FOUND);
  }
}

export function keepToken(text) {
  token.value = text;
  sessionStorage.setItem("token", text);
  needsToken.value = false;
}

function headers(extra) {
  return token.value ? { ...extra, authorization: `Bearer ${token.value}` } : extra;
}

async function refuse(answer) {
  const text = await answer.text();
  let message = text;
  let code = null;
  try {
    const told = JSON.parse(text);
    message = told.message || text;
    code = told.code;
  } catch {
    // Not ours: a proxy's page, say. Its text is shown as it is.
  }
  if (answer.status === 401) needsToken.value = true;
  throw new Refusal(answer.status, message || `HTTP ${answer.status}`, code);
}

// Questions that were asked before their view was there (askEarly): the first who asks the same gets that answer.
const early = new Map();

export function call(service, method, request = {}, abort) {
  const key = `${service}/${method} ${JSON.stringify(request)}`;
  const begun = early.get(key);
  early.delete(key);
  return begun || post(service, method, request, abort);
}

export function askEarly(service, method, request) {
  const answer = post(service, method, request);
  answer.catch(() => {}); // the caller gets it
  early.set(`${service}/${method} ${JSON.stringify(request)}`, answer);
}

// A server that is gone, or that cannot do its work. A refusal of what was asked is an answer.
async function reach(path, options) {
  try {
    const answer = await fetch(path, options);
    if (answer.status >= 500 && answer.status !== 501) failed(`the server answers HTTP ${answer.status}`);
    else succeeded();
    return answer;
  } catch (error) {
    if (error.name !== "AbortError") failed("the server cannot be reached");
    throw error;
  }
}

async function post(service, method, request, abort) {
  const answer = await reach(`/${service}/${method}`, {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(request),
    signal: abort,
  });
  if (!answer.ok) await refuse(answer);
  const text = await answer.text();
  return /\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

// Integers beyond 2^53 become texts: a wrong digit is worse than an odd alignment. (Browsers without the source of a number round.)
function exact(key, value, context) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? context.source : value;
}

export const colony = (method, request, abort) => call("tidemark.colony.v1.ColonyService", method, request, abort);
export const work = (method, request, abort) => call("tidemark.work.v1.WorkService", method, request, abort);
export const journal = (method, request, abort) => call("tidemark.journal.v1.JournalService", method, request, abort);
export const lake = (method, request, abort) => call("tidemark.lake.v1.LakeService", method, request, abort);
// Databases that are replicated here, each with the whole replica service below a path of its own.
export const replicas = (abort) => call("tidemark.up.v1.UpService", "ListReplicas", {}, abort);
export const replica = ({ path }, method, request, abort) => call(`${path.replace(/^\/+/, "")}/tidemark.replica.v1.ReplicaService`, method, request, abort);
export const demo = (method, request, abort) => call("tidemark.up.v1.DemoService", method, request, abort);

// What this server has: views of which it serves nothing are not offered.
export const about = signal({ version: "", views: [] });
export async function askAbout() {
  const answer = await fetch("/about");
  if (answer.ok) about.value = await answer.json();
}

// The store's file, for commands that open it; where it is not told (a reader's token is needed), its name in the default directory.
export const store = signal("tidemark-data/colony.db");
export async function askPlace() {
  const answer = await fetch("/place", { headers: headers({}) });
  if (answer.ok) store.value = (await answer.json()).store || store.value;
}

export async function select(sql, abort, maxRows = 1000) {
  const { columns, rows, cut } = await colony("Query", { sql, max_rows: maxRows, timeout_ms: 10000 }, abort);
  return { columns, rows, isCut: cut };
}

// A literal in a statement of ours.
export const quote = (text) => `'${String(text).replaceAll("'", "''")}'`;

// ---- what is new ----
// Server-sent events, read with fetch so that a token can go with them. Each event names a topic; views that show it ask again.
// Paused while the page is hidden; when it is shown again, everything is requested.
export const pulse = signal({ topic: "all", count: 0 });
export const isLive = signal(false);

function notify(topic) {
  pulse.value = { topic, count: pulse.value.count + 1 };
}

async function listen(abort) {
  const answer = await reach("/events", { headers: headers({ accept: "text/event-stream" }), signal: abort });
  polling(!answer.ok);
  if (!answer.ok) await refuse(answer);
  isLive.value = true;
  notify("all");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) notify(line.slice(5).trim());
  }
}

export function stayLive() {
  let stopper = null;
  let pause = 500;
  const run = async () => {
    if (document.hidden || stopper) return;
    stopper = new AbortController();
    const mine = stopper;
    try {
      await listen(mine.signal);
      pause = 500;
    } catch {
      pause = Math.min(pause * 2, 10000);
    }
    isLive.value = false;
    if (stopper === mine) stopper = null;
    if (!document.hidden) setTimeout(run, pause * (0.5 + Math.random()));
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stopper?.abort();
      stopper = null;
    } else run();
  });
  run();
}
