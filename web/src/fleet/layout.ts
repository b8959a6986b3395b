// Where each GPU is in the picture. Machines are blocks that flow like words; of a picture of ten
// thousand only the rows that are seen are drawn. Pure.
import type { FleetGpu, Machine } from './model';

export interface Size {
  name: 'small' | 'medium' | 'large';
  /** Of a GPU, with the gap behind it. */
  width: number;
  height: number;
  gap: number;
  /** Above the GPUs of a machine; 0: its name is not written. */
  header: number;
}

export const sizes: Record<Size['name'], Size> = {
  small: { name: 'small', width: 18, height: 26, gap: 3, header: 14 },
  medium: { name: 'medium', width: 72, height: 66, gap: 6, header: 20 },
  large: { name: 'large', width: 208, height: 158, gap: 12, header: 26 },
};

/** The largest with which the fleet is not much longer than the screen. */
export function fittingSize(gpus: number, width: number): Size {
  if (gpus <= 2 * Math.max(2, Math.floor(width / sizes.large.width)) || gpus <= 8) {
    return stretched(sizes.large, gpus, width);
  }
  return gpus <= 8 * Math.max(4, Math.floor(width / sizes.medium.width)) ? sizes.medium : sizes.small;
}

/** A few GPUs take the room that there is, up to twice the size. */
export function stretched(size: Size, gpus: number, width: number): Size {
  const fitting = Math.max(1, Math.floor((width + size.gap) / (size.width + size.gap)));
  const columns = Math.min(gpus, fitting);
  const wide = Math.floor((width + size.gap) / Math.max(1, columns)) - size.gap;
  const factor = Math.max(1, Math.min(2, wide / size.width));
  return { ...size, width: Math.floor(size.width * factor), height: Math.floor(size.height * factor) };
}

export interface Block {
  machine: Machine;
  x: number;
  y: number;
  width: number;
  height: number;
  columns: number;
}

export interface Row {
  y: number;
  height: number;
  blocks: Block[];
}

export interface Layout {
  size: Size;
  rows: Row[];
  height: number;
}

const between = 10;

export function layOut(machines: readonly Machine[], size: Size, width: number): Layout {
  const rows: Row[] = [];
  const step = size.width + size.gap;
  const most = Math.max(1, Math.floor((width + size.gap) / step));
  const header = size.header;
  let row: Row = { y: 0, height: 0, blocks: [] };
  let x = 0;
  const close = () => {
    if (row.blocks.length > 0) rows.push(row);
    row = { y: row.y + row.height + between, height: 0, blocks: [] };
    x = 0;
  };
  for (const machine of machines) {
    const columns = Math.min(most, machine.gpus.length);
    const lines = Math.ceil(machine.gpus.length / columns);
    const blockWidth = columns * step - size.gap;
    const height = header + lines * (size.height + size.gap) - size.gap;
    if (x > 0 && x + blockWidth > width) close();
    row.blocks.push({ machine, x, y: row.y, width: blockWidth, height, columns });
    row.height = Math.max(row.height, height);
    x += blockWidth + size.gap + between;
  }
  close();
  const last = rows.at(-1);
  return { size, rows, height: last ? last.y + last.height : 0 };
}

/** The rows that have something between two heights. */
export function visibleRows(layout: Layout, top: number, bottom: number): Row[] {
  let low = 0;
  let high = layout.rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = layout.rows[middle];
    if (row && row.y + row.height < top) low = middle + 1;
    else high = middle;
  }
  const seen: Row[] = [];
  for (let i = low; i < layout.rows.length; i += 1) {
    const row = layout.rows[i];
    if (!row || row.y > bottom) break;
    seen.push(row);
  }
  return seen;
}

export interface Spot {
  block: Block;
  index: number;
  one: FleetGpu;
  x: number;
  y: number;
}

export function spotOf(block: Block, index: number, size: Size): Spot | undefined {
  const one = block.machine.gpus[index];
  if (!one) return undefined;
  const column = index % block.columns;
  const line = Math.floor(index / block.columns);
  return {
    block,
    index,
    one,
    x: block.x + column * (size.width + size.gap),
    y: block.y + size.header + line * (size.height + size.gap),
  };
}

/** The GPU at a point. */
export function spotAt(layout: Layout, x: number, y: number): Spot | undefined {
  const { size } = layout;
  for (const row of visibleRows(layout, y, y)) {
    for (const block of row.blocks) {
      if (x < block.x || x > block.x + block.width) continue;
      const column = Math.floor((x - block.x) / (size.width + size.gap));
      const line = Math.floor((y - block.y - size.header) / (size.height + size.gap));
      if (column < 0 || line < 0 || column >= block.columns) continue;
      const spot = spotOf(block, line * block.columns + column, size);
      if (spot && x <= spot.x + size.width && y <= spot.y + size.height) return spot;
    }
  }
  return undefined;
}

export function spotOfGpu(layout: Layout, uuid: string): Spot | undefined {
  for (const row of layout.rows) {
    for (const block of row.blocks) {
      const index = block.machine.gpus.findIndex((one) => one.gpu.uuid === uuid);
      if (index >= 0) return spotOf(block, index, layout.size);
    }
  }
  return undefined;
}

/** The neighbour in a direction, for the arrow keys. */
export function neighbour(layout: Layout, from: Spot, key: string): Spot | undefined {
  const { size } = layout;
  const all = layout.rows.flatMap((row) => row.blocks);
  const block = all.indexOf(from.block);
  if (key === 'ArrowRight' || key === 'ArrowLeft') {
    const next = from.index + (key === 'ArrowRight' ? 1 : -1);
    const inside = spotOf(from.block, next, size);
    if (inside) return inside;
    const other = all[block + (key === 'ArrowRight' ? 1 : -1)];
    if (!other) return undefined;
    return spotOf(other, key === 'ArrowRight' ? 0 : other.machine.gpus.length - 1, size);
  }
  const step = size.height + size.gap;
  const x = from.x + size.width / 2;
  for (let i = 1; i <= 40; i += 1) {
    const y = from.y + size.height / 2 + (key === 'ArrowDown' ? i : -i) * (step / 4);
    const found = spotAt(layout, x, y);
    if (found && found.one !== from.one) return found;
  }
  return undefined;
}
