// A line over time with the lines that it must not cross, by uPlot.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { exact } from '../text/format';
import 'uplot/dist/uPlot.min.css';

export interface ChartLine {
  label: string;
  colour: string;
  dashed?: boolean;
  values: (number | null)[];
}

export interface ChartProps {
  title: string;
  /** Unix seconds. */
  times: number[];
  lines: ChartLine[];
  unit: (value: number) => string;
  /** Of the axis, where the values do not need more. */
  top: number;
}

// Hours and minutes; days where the marks are days apart.
function clock(marks: number[]): string[] {
  const step = (marks[1] ?? 0) - (marks[0] ?? 0);
  return marks.map((at) => (step >= 43_200 ? exact(at * 1000).slice(5, 10) : exact(at * 1000).slice(11, step < 60 ? 19 : 16)));
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const shape = props.lines.map((line) => line.label + line.colour).join('|');
  const data: uPlot.AlignedData = [props.times, ...props.lines.map((line) => line.values)];
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const make = () => {
      plot.current?.destroy();
      const style = getComputedStyle(element);
      const quiet = style.getPropertyValue('--quiet');
      const grid = { stroke: style.getPropertyValue('--line'), width: 1 };
      const font = `12px ${style.getPropertyValue('--font')}`;
      plot.current = new uPlot({
        width: element.clientWidth,
        height: 190,
        padding: [10, 28, 0, 0],
        legend: { live: true },
        cursor: { y: false },
        scales: { y: { range: (_, __, most) => [0, Math.max(props.top, most * 1.05)] } },
        axes: [
          // So far apart that hours with seconds do not run into each other.
          { stroke: quiet, grid, ticks: grid, font, space: 72, values: (_, marks) => clock(marks) },
          { stroke: quiet, grid, ticks: grid, font, size: 74, values: (_, marks) => marks.map(props.unit) },
        ],
        series: [
          { label: 'Time', value: (_: uPlot, at: number | null) => (at === null ? '–' : exact(at * 1000)) },
          ...props.lines.map((line) => ({
            label: line.label,
            stroke: line.colour === '' ? quiet : line.colour,
            width: line.dashed ? 1.5 : 2,
            ...(line.dashed ? { dash: [6, 4] } : {}),
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? '–' : props.unit(value)),
          })),
        ],
      }, data, element);
    };
    make();
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 190 }));
    resize.observe(element);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', make);
    addEventListener('divvy-theme', make);
    return () => {
      resize.disconnect();
      dark.removeEventListener('change', make);
      removeEventListener('divvy-theme', make);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [props.times, props.lines]);
  return (
    <figure class="chart" aria-label={props.title}>
      <figcaption>{props.title}</figcaption>
      <div ref={place} />
    </figure>
  );
}
