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

export const micros = (text) => Number(text || 0) / 1e6;

export function when(microseconds) {
  const seconds = micros(microseconds);
  return seconds > 0 ? new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19) : "–";
}

export function ago(microseconds, now = Date.now() / 1000) {
  const seconds = micros(microseconds);
  return seconds > 0 ? `${duration(Math.max(0, now - seconds))} ago` : "never";
}

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
