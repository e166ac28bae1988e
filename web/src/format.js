// How values read. Everything here returns text or numbers; Preact escapes what is shown.
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const sign = seconds < 0 ? "-" : "";
  const rest = Math.abs(seconds);
  if (rest < 1) return `${sign}${Math.round(rest * 1000)} ms`;
  for (const [unit, length] of UNITS)
    if (rest >= length * (unit === "s" ? 1 : 2)) return `${sign}${(rest / length).toFixed(rest / length < 10 ? 1 : 0)} ${unit}`;
  return `${sign}${rest.toFixed(1)} s`;
}

// A time of a service (RFC 3339, or null) as Unix seconds; numbers are that already. 0: none.
export const seconds = (time) => (typeof time === "number" ? time : time ? Date.parse(time) / 1000 : 0);

export function when(time) {
  const at = seconds(time);
  return at > 0 ? new Date(at * 1000).toISOString().replace("T", " ").slice(0, 19) : "–";
}

export function ago(time, now = Date.now() / 1000) {
  const at = seconds(time);
  return at > 0 ? `${duration(Math.max(0, now - at))} ago` : "never";
}

// A document (any JSON value, null: none) as text.
export const json = (value, indent) => (value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, indent));

const grouped = new Intl.NumberFormat("en");
export const count = (value) => grouped.format(typeof value === "string" ? BigInt(value || 0) : value || 0);

export function bytes(value) {
  let number = Number(value || 0);
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (number < 1000) return `${number < 10 && unit !== "B" ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1000;
  }
  return `${number.toFixed(1)} TB`;
}

// Right-to-left marks and controls would let a name rearrange what stands beside it: they are shown, not obeyed.
export function plain(text) {
  return String(text ?? "").replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

// A word of a shell command.
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);
