// Lines over time, by uPlot. Beside the picture stands what it says, for who cannot see it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

const COLOURS = ["#2a9db5", "#d9822b", "#7c5cd6", "#4c9a52", "#c2476d", "#8a7a1f", "#3f6fd1", "#9a5b3c"];

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

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
        axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) }],
        series: [
          {},
          ...series.map((data, index) => ({ label: data.name, stroke: COLOURS[index % COLOURS.length], width: 1.5, spanGaps: isMerged })),
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
  }, [names, height, times.length > 0]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map((data) => data.values)]);
  }, [times, series]);
  const last = series.map((data) => `${data.name}: ${data.values.at(-1) ?? "nothing"}${unit}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      {times.length ? <div ref={box} role="img" aria-label={`${title}. Last values: ${last}`} /> : <p class="note">No values yet.</p>}
    </figure>
  );
}
