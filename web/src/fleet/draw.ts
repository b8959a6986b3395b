// Draws the rows of a fleet that are seen. A GPU is a box; each slice is a band in it. The height
// of a band is its memory, of the GPU's; in it, from the left, what is guaranteed is tinted up to a
// mark, and what is measured is filled. The thin column on the right is memory that is in use.
import { colourOf } from '../colour';
import { bytes, percent } from '../text/format';
import { spotOf, visibleRows, type Layout, type Spot } from './layout';
import { trouble, type Band, type FleetGpu } from './model';

export interface Theme {
  text: string;
  quiet: string;
  surface: string;
  line: string;
  good: string;
  warn: string;
  bad: string;
  accent: string;
  font: string;
}

export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: value('--text'),
    quiet: value('--quiet'),
    surface: value('--sunken'),
    line: value('--line'),
    good: value('--good'),
    warn: value('--warn'),
    bad: value('--bad'),
    accent: value('--accent'),
    font: value('--font') || 'sans-serif',
  };
}

type Canvas = CanvasRenderingContext2D;

export interface View {
  top: number;
  width: number;
  height: number;
  selected: string;
  hovered: string;
}

export function draw(context: Canvas, layout: Layout, view: View, theme: Theme): number {
  context.clearRect(0, 0, view.width, view.height);
  context.save();
  context.translate(0, -view.top);
  let drawn = 0;
  const { size } = layout;
  context.textBaseline = 'alphabetic';
  for (const row of visibleRows(layout, view.top, view.top + view.height)) {
    for (const block of row.blocks) {
      if (size.header > 0) {
        context.fillStyle = theme.quiet;
        context.font = `600 ${size.name === 'small' ? 10 : 12}px ${theme.font}`;
        text(context, block.machine.name, block.x, block.y + size.header - 5, block.width);
      }
      for (let i = 0; i < block.machine.gpus.length; i += 1) {
        const spot = spotOf(block, i, size);
        if (!spot || spot.y > view.top + view.height || spot.y + size.height < view.top) continue;
        drawGpu(context, spot, layout, view, theme);
        drawn += 1;
      }
    }
  }
  context.restore();
  return drawn;
}

// What the picture cannot show whole is cut.
function text(context: Canvas, words: string, x: number, y: number, most: number): void {
  let shown = words;
  if (context.measureText(shown).width > most) {
    const letter = context.measureText('n').width;
    shown = `${words.slice(0, Math.max(1, Math.floor(most / letter) - 1))}…`;
  }
  context.fillText(shown, x, y);
}

function troubleColour(one: FleetGpu, theme: Theme): string {
  switch (trouble(one)) {
    case '':
      return '';
    case 'cordoned':
    case 'draining':
    case 'suspect':
    case 'probation':
      return theme.warn;
    default:
      return theme.bad;
  }
}

function drawGpu(context: Canvas, spot: Spot, layout: Layout, view: View, theme: Theme): void {
  const { size } = layout;
  const { one } = spot;
  const { x, y } = spot;
  const large = size.name === 'large';
  const head = large ? 22 : size.name === 'medium' ? 15 : 0;
  const foot = large ? 20 : 0;
  const box = { x, y: y + head, width: size.width, height: size.height - head - foot };
  const alarm = troubleColour(one, theme);

  if (head > 0) drawHead(context, one, x, y + head - 6, size.width, large, theme, alarm);
  context.fillStyle = theme.surface;
  context.fillRect(box.x, box.y, box.width, box.height);
  drawBands(context, one, box, large, theme);
  if (foot > 0) drawFoot(context, one, x, y + size.height - 5, size.width, theme);

  if (alarm !== '') {
    context.strokeStyle = alarm;
    context.lineWidth = 2;
    context.setLineDash(trouble(one) === 'cordoned' || trouble(one) === 'draining' ? [5, 3] : []);
    context.strokeRect(box.x + 1, box.y + 1, box.width - 2, box.height - 2);
    context.setLineDash([]);
  } else if (large) {
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
  }
  const uuid = one.gpu.uuid;
  if (uuid === view.selected || uuid === view.hovered) {
    context.strokeStyle = uuid === view.selected ? theme.accent : theme.text;
    context.lineWidth = 2;
    context.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
  }
}

function drawHead(context: Canvas, one: FleetGpu, x: number, y: number, width: number,
  large: boolean, theme: Theme, alarm: string): void {
  context.font = `600 ${large ? 13 : 11}px ${theme.font}`;
  context.fillStyle = theme.text;
  context.fillText(large ? `GPU ${one.gpu.index}` : String(one.gpu.index), x, y);
  const sample = one.health?.sample;
  const right: string[] = [];
  if (alarm !== '') right.push(trouble(one));
  else if (sample) {
    if (sample.temperatureCelsius !== null) right.push(`${sample.temperatureCelsius} °C`);
    if (large && sample.powerMilliwatts !== null) {
      right.push(`${Math.round(sample.powerMilliwatts / 1000)} W`);
    }
  }
  context.font = `${large ? 12 : 10}px ${theme.font}`;
  context.fillStyle = alarm !== '' ? alarm : theme.quiet;
  context.textAlign = 'right';
  text(context, right.join(' · '), x + width, y, width - (large ? 52 : 18));
  context.textAlign = 'left';
}

function drawFoot(context: Canvas, one: FleetGpu, x: number, y: number, width: number,
  theme: Theme): void {
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.quiet;
  const free = one.gpu.freeShareThousandths / 1000;
  const left =
    one.bands.length === 0
      ? `${trouble(one) === '' ? 'free' : 'no new work'} · ${bytes(one.gpu.memoryBytes)}`
      : `${percent(one.used)} in use`;
  context.fillText(left, x, y);
  if (one.bands.length > 0) {
    context.textAlign = 'right';
    context.fillText(`${Number(free.toFixed(3))} free`, x + width, y);
    context.textAlign = 'left';
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function drawBands(context: Canvas, one: FleetGpu, box: Box, large: boolean, theme: Theme): void {
  let bottom = box.y + box.height;
  for (const band of one.bands) {
    const part = one.gpu.memoryBytes > 0 ? band.memoryLimit / one.gpu.memoryBytes : 0;
    const height = Math.max(2, part * box.height);
    const top = Math.max(box.y, bottom - height);
    drawBand(context, band, { x: box.x, y: top, width: box.width, height: bottom - top }, large,
      theme);
    bottom = top;
    if (bottom <= box.y) break;
  }
}

function drawBand(context: Canvas, band: Band, box: Box, large: boolean, theme: Theme): void {
  const colour = colourOf(band.owner);
  const inner = Math.max(1, box.height - 1);
  context.fillStyle = colour;
  context.globalAlpha = 0.1;
  context.fillRect(box.x, box.y, box.width, inner);
  context.globalAlpha = 0.3;
  context.fillRect(box.x, box.y, box.width * Math.min(1, band.share), inner);
  context.globalAlpha = 0.85;
  const used = Math.min(1, band.used ?? 0);
  if (used > 0) context.fillRect(box.x, box.y, Math.max(1, box.width * used), inner);
  context.globalAlpha = 1;
  if (box.width < 30) return;
  // The guarantee's mark, seen on tint and on fill.
  const mark = box.x + Math.min(box.width - 1, box.width * band.share);
  context.fillStyle = theme.text;
  context.globalAlpha = 0.55;
  context.fillRect(mark - 1, box.y, 1.5, inner);
  context.globalAlpha = 1;
  const gauge = large ? 5 : 3;
  const memory = band.memoryLimit > 0 ? Math.min(1, band.memoryUsed / band.memoryLimit) : 0;
  context.fillStyle = theme.text;
  context.globalAlpha = 0.12;
  context.fillRect(box.x + box.width - gauge, box.y, gauge, inner);
  context.globalAlpha = 0.6;
  context.fillRect(box.x + box.width - gauge, box.y + inner * (1 - memory), gauge, inner * memory);
  context.globalAlpha = 1;
  if (!large || inner < 14) return;
  context.font = `600 11px ${theme.font}`;
  context.lineJoin = 'round';
  context.lineWidth = 3;
  context.strokeStyle = theme.surface;
  context.fillStyle = theme.text;
  const most = box.width - gauge - 14;
  const words = `${band.title} · ${Number(band.share.toFixed(3))}`;
  const y = box.y + Math.min(inner - 4, 14);
  context.globalAlpha = 0.85;
  strokeText(context, words, box.x + 6, y, most);
  context.globalAlpha = 1;
  text(context, words, box.x + 6, y, most);
}

function strokeText(context: Canvas, words: string, x: number, y: number, most: number): void {
  const letter = context.measureText('n').width;
  const shown =
    context.measureText(words).width > most
      ? `${words.slice(0, Math.max(1, Math.floor(most / letter) - 1))}…`
      : words;
  context.strokeText(shown, x, y);
}
