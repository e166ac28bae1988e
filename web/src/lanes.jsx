// Rows over one stretch of time: bars for what lasted, dots for what happened. A table beside it says the same, for who cannot see it.
import { when } from "./format.js";

const DAY = 86400;

// With the date only where the day is not the same one, with tenths where seconds are too coarse.
function tick(seconds, isLong, isFine) {
  const tenth = isFine ? `.${Math.floor(seconds * 10) % 10}` : "";
  return `${when(seconds).slice(isLong ? 5 : 11, 19)}${tenth}`;
}

// rows: [{ key, label, bars: [{ key, from, until, tone, title }], dots: [{ key, at, tone, title, href, isChosen }] }]; times in seconds
export function Lanes({ caption, words, rows, from, until }) {
  const span = Math.max(0.001, until - from);
  const at = (time) => Math.min(100, Math.max(0, ((time - from) / span) * 100));
  const isLong = span > DAY || when(from).slice(0, 10) !== when(until).slice(0, 10);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => tick(from + span * part, isLong, span < 20));
  return (
    <figure class="lanes">
      <figcaption>{caption}</figcaption>
      <div class="lanes-box">
        {rows.map((row) => (
          <div class="lanes-row" key={row.key}>
            <div class="lanes-label">{row.label}</div>
            <svg class="lanes-lane" height={20} role="img" aria-label={words(row)}>
              {(row.bars || []).map((bar) => (
                <rect key={bar.key} class={`bar bar-${bar.tone}`} x={`${at(bar.from)}%`} y={4} height={12} rx={2} width={`${Math.max(0.4, at(bar.until) - at(bar.from))}%`}><title>{bar.title}</title></rect>
              ))}
              {(row.dots || []).map((dot) => (
                <circle key={dot.key} class={`dot dot-${dot.tone}${dot.isChosen ? " is-chosen" : ""}`} cx={`${1 + at(dot.at) * 0.98}%`} cy={10} r={dot.isChosen ? 6 : 4}><title>{dot.title}</title></circle>
              ))}
            </svg>
          </div>
        ))}
        <div class="lanes-row lanes-axis" aria-hidden="true">
          <div class="lanes-label">UTC</div>
          <div class="lanes-ticks">{ticks.map((text, index) => <span key={index}>{text}</span>)}</div>
        </div>
      </div>
    </figure>
  );
}
