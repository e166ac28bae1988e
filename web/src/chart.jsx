// Lines over time, by uPlot. Beside the picture stands what it says, for who cannot see it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { shade } from "./theme.js";

const COLOURS = ["#2a9db5", "#d9822b", "#7c5cd6", "#4c9a52", "#c2476d", "#8a7a1f", "#3f6fd1", "#9a5b3c"];

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const DAY = 86400;

// UTC, as everywhere on the page; seconds and dates where they tell ticks apart.
function clock(ticks, step) {
  const isLong = ticks.length > 1 && ticks.at(-1) - ticks[0] >= DAY;
  const [from, to] = isLong ? [5, 16] : [11, step < 1 ? 21 : step < 60 ? 19 : 16];
  return ticks.map((tick) => new Date(tick * 1000).toISOString().replace("T", " ").slice(from, to));
}

const moment = (seconds) => (seconds === null ? "–" : `${new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19)} UTC`);

// isMerged: series have times of their own, so that others' stand between theirs; otherwise a missing value is a gap in the line.
export function Chart({ title, times, series, unit = "", height = 180, isMerged = false }) {
  const box = useRef(null);
  const plot = useRef(null);
  const names = series.map((line) => line.name).join("\u0000");
  useEffect(() => {
    if (!times.length) return undefined;
    const line = style("--line");
    const axis = { stroke: style("--soft"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    plot.current = new uPlot(
      {
        width: box.current?.clientWidth || 600,
        height,
        cursor: { y: false },
        legend: { live: true },
        scales: { x: { time: true } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        axes: [{ ...axis, space: 90, values: (_, ticks, __, ___, step) => clock(ticks, step) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) }],
        series: [
          { label: "at", value: (_, seconds) => moment(seconds) },
          ...series.map((data, index) => ({ label: data.name, stroke: COLOURS[index % COLOURS.length], width: data.width || 1.5, spanGaps: isMerged })),
        ],
      },
      [times, ...series.map((data) => data.values)],
      box.current,
    );
    const resize = new ResizeObserver(() => box.current && plot.current?.setSize({ width: box.current.clientWidth, height }));
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, height, unit, times.length > 0, shade.value]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map((data) => data.values)]);
  }, [times, series]);
  const last = series.map((data) => `${data.name}: ${data.values.at(-1) ?? "nothing"}${unit}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      {times.length ? <div ref={box} role="img" aria-label={`${title}, ${times.length} points. Last values: ${last}`} /> : <p class="note">No values yet.</p>}
    </figure>
  );
}
