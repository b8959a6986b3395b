// The picture of a fleet that scrolls: a canvas as large as what is seen, over a space as large as
// the whole.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TargetedKeyboardEvent, TargetedMouseEvent } from 'preact';
import { bytes, percent, share } from '../text/format';
import { draw, readTheme } from './draw';
import { layOut, neighbour, sizes, spotAt, spotOfGpu, fittingSize, type Size, type Spot } from './layout';
import { trouble, type Machine } from './model';

export interface FleetCanvasProps {
  machines: readonly Machine[];
  size: Size['name'] | 'auto';
  selected: string;
  onSelect: (uuid: string) => void;
}

interface Tip {
  spot: Spot;
  x: number;
  y: number;
}

export function FleetCanvas(props: FleetCanvasProps) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [tip, setTip] = useState<Tip>();
  const [theme, setTheme] = useState(0);
  const pending = useRef(0);

  const count = useMemo(
    () => props.machines.reduce((sum, machine) => sum + machine.gpus.length, 0),
    [props.machines],
  );
  const size = useMemo(
    () => (props.size === 'auto' ? fittingSize(count, width) : sizes[props.size]),
    [props.size, count, width],
  );
  const layout = useMemo(
    () => layOut(props.machines, size, Math.max(1, width)),
    [props.machines, size, width],
  );

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const adapt = () => setWidth(element.clientWidth - 8);
    // At once: the observer speaks only after a frame without a picture.
    adapt();
    const measure = new ResizeObserver(adapt);
    measure.observe(element);
    const again = () => setTheme((n) => n + 1);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    addEventListener('divvy-theme', again);
    return () => {
      measure.disconnect();
      dark.removeEventListener('change', again);
      removeEventListener('divvy-theme', again);
    };
  }, []);

  const paint = () => {
    pending.current = 0;
    const element = canvas.current;
    const outside = frame.current;
    const context = element?.getContext('2d');
    if (!element || !outside || !context || width <= 0) return;
    const height = outside.clientHeight;
    const ratio = devicePixelRatio || 1;
    const wide = Math.round((width + 4) * ratio);
    const tall = Math.round(height * ratio);
    if (element.width !== wide || element.height !== tall) {
      element.width = wide;
      element.height = tall;
      element.style.width = `${width + 4}px`;
      element.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 2 * ratio, 2 * ratio);
    const began = performance.now();
    const drawn = draw(context, layout, {
      top: outside.scrollTop,
      width: width + 4,
      height,
      selected: props.selected,
      hovered: tip?.spot.one.gpu.uuid ?? '',
    }, readTheme(element));
    element.dataset['drawn'] = String(drawn);
    element.dataset['milliseconds'] = (performance.now() - began).toFixed(2);
  };
  const paintLatest = useRef(paint);
  paintLatest.current = paint;
  const request = () => {
    if (pending.current === 0) pending.current = requestAnimationFrame(() => paintLatest.current());
  };
  // The first picture comes with the page, the others with the next frame.
  useLayoutEffect(() => {
    if (canvas.current?.dataset['drawn'] === undefined) paint();
    else request();
  }, [layout, props.selected, tip, theme, width]);
  useEffect(() => () => cancelAnimationFrame(pending.current), []);

  const find = (event: TargetedMouseEvent<HTMLElement>) => {
    const outside = frame.current;
    const bounds = canvas.current?.getBoundingClientRect();
    if (!outside || !bounds) return undefined;
    const x = event.clientX - bounds.left - 2;
    const y = event.clientY - bounds.top - 2 + outside.scrollTop;
    return spotAt(layout, x, y);
  };
  const onMove = (event: TargetedMouseEvent<HTMLElement>) => {
    const spot = find(event);
    setTip(spot ? { spot, x: event.clientX, y: event.clientY } : undefined);
  };
  const show = (spot: Spot) => {
    const outside = frame.current;
    if (!outside) return;
    if (spot.y < outside.scrollTop) outside.scrollTop = spot.y - size.header;
    const bottom = spot.y + size.height + 8;
    if (bottom > outside.scrollTop + outside.clientHeight) {
      outside.scrollTop = bottom - outside.clientHeight;
    }
  };
  const onKey = (event: TargetedKeyboardEvent<HTMLElement>) => {
    if (!event.key.startsWith('Arrow')) return;
    const from = spotOfGpu(layout, props.selected);
    const first = layout.rows[0]?.blocks[0]?.machine.gpus[0];
    const to = from ? neighbour(layout, from, event.key) : first && spotOfGpu(layout, first.gpu.uuid);
    if (!to) return;
    event.preventDefault();
    props.onSelect(to.one.gpu.uuid);
    show(to);
  };
  const chosen = spotOfGpu(layout, props.selected);

  return (
    <div class="fleet-frame" ref={frame} onScroll={() => { setTip(undefined); request(); }}
      onMouseMove={onMove} onMouseLeave={() => setTip(undefined)} onKeyDown={onKey} tabIndex={0}
      role="application" aria-label={`${count} GPUs. Arrow keys go from one to the next.`}
      data-size={size.name}
      onClick={(event) => {
        const spot = find(event);
        if (spot) props.onSelect(spot.one.gpu.uuid);
      }}>
      <canvas ref={canvas} aria-hidden="true" />
      <div class="space" style={{ height: `${layout.height + 16}px` }} />
      <p class="hidden" aria-live="polite">{chosen ? describe(chosen) : ''}</p>
      {tip && <FleetTip tip={tip} />}
    </div>
  );
}

function describe(spot: Spot): string {
  const { gpu, bands, used } = spot.one;
  const wrong = trouble(spot.one);
  const held = bands.map((band) => `${band.title} of ${band.owner} holds ${band.share}`).join(', ');
  return [
    `GPU ${gpu.index} of ${spot.block.machine.name}`,
    wrong,
    bands.length === 0 ? 'free' : `${percent(used)} in use; ${held}`,
  ]
    .filter(Boolean)
    .join('; ');
}

function FleetTip(props: { tip: Tip }) {
  const { spot } = props.tip;
  const { gpu, bands, health } = spot.one;
  const wrong = trouble(spot.one);
  const right = props.tip.x > innerWidth / 2;
  const low = props.tip.y > innerHeight / 2;
  return (
    <div class="tip" aria-hidden="true" style={{
      [right ? 'right' : 'left']: `${right ? innerWidth - props.tip.x + 14 : props.tip.x + 14}px`,
      [low ? 'bottom' : 'top']: `${low ? innerHeight - props.tip.y + 10 : props.tip.y + 10}px`,
    }}>
      <strong>GPU {gpu.index}</strong> {spot.block.machine.name}
      <div class="quiet">{gpu.model} · {bytes(gpu.memoryBytes)}</div>
      {wrong !== '' && <div class="warn">{wrong}: {health?.reason ?? gpu.unusable ?? ''}</div>}
      {bands.map((band) => (
        <div key={band.name}>
          <strong>{band.title}</strong> of {band.owner}: {share(band.share * 1000)}
          {band.used === undefined ? '' : `, uses ${percent(band.used)}`}
          {', '}{bytes(band.memoryUsed)} of {bytes(band.memoryLimit)}
        </div>
      ))}
      {bands.length === 0 && wrong === '' && <div>free</div>}
    </div>
  );
}
