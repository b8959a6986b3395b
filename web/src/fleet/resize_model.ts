// A slice whose size can be changed while it is in use, as `divvy set` does: how far its edge may go,
// where it stops, and the command that does the same. Pure.
import type { Stats, Tenant } from '../api/types';
import { GiB } from '../text/format';
import { quote } from '../text/shell';

export type What = 'share' | 'memory';

export interface Edge {
  what: What;
  /** Thousandths of a GPU, or bytes. */
  now: number;
  least: number;
  /** With what is free beside it on each of its GPUs. */
  most: number;
  /** Of the whole GPU. */
  whole: number;
}

const leastShare = 10;
const leastMemory = GiB / 4;
/** Where an edge stops: all of them with the keys and the pointer, the fine ones with Shift. */
const steps: Record<What, { coarse: number; fine: number }> = {
  share: { coarse: 50, fine: 10 },
  memory: { coarse: GiB, fine: GiB / 4 },
};

/** Both edges of what a tenant holds; the number of its GPUs stays as it is, and all change alike. */
export function edgesOf(tenant: Tenant, stats: Stats): Record<What, Edge> | undefined {
  const first = tenant.slices[0];
  if (!first) return undefined;
  const gpus = new Map(stats.gpus.map((gpu) => [gpu.uuid, gpu]));
  let share = 1000;
  let memory = Infinity;
  let whole = Infinity;
  for (const slice of tenant.slices) {
    const gpu = gpus.get(slice.gpu.uuid);
    if (!gpu) return undefined;
    share = Math.min(share, slice.shareThousandths + gpu.freeShareThousandths);
    memory = Math.min(memory, slice.memoryLimitBytes + gpu.freeMemoryBytes);
    whole = Math.min(whole, gpu.memoryBytes);
  }
  return {
    share: { what: 'share', now: first.shareThousandths, least: Math.min(leastShare, first.shareThousandths), most: share, whole: 1000 },
    memory: { what: 'memory', now: first.memoryLimitBytes, least: Math.min(leastMemory, first.memoryLimitBytes), most: Math.max(memory, first.memoryLimitBytes), whole },
  };
}

/** Where the edge comes to rest that was pulled to `to`: the ends of its way, where it was, or a step. */
export function rest(edge: Edge, to: number, isFine: boolean): number {
  const step = steps[edge.what][isFine ? 'fine' : 'coarse'];
  if (to >= edge.most) return edge.most;
  if (to <= edge.least) return edge.least;
  const near = step / 2;
  if (Math.abs(to - edge.now) < near / 2) return edge.now;
  return Math.min(edge.most, Math.max(edge.least, Math.round(to / step) * step));
}

/** Where a key takes the edge; nothing: it is no key of an edge's. */
export function moved(edge: Edge, from: number, key: string, isFine: boolean): number | undefined {
  const step = steps[edge.what][isFine ? 'fine' : 'coarse'];
  const up = (Math.floor(from / step) + 1) * step;
  const down = (Math.ceil(from / step) - 1) * step;
  const to: Record<string, number> = {
    ArrowRight: up, ArrowUp: up, ArrowLeft: down, ArrowDown: down,
    PageUp: up + 3 * step, PageDown: down - 3 * step, Home: edge.least, End: edge.most,
  };
  const wanted = to[key];
  return wanted === undefined ? undefined : Math.min(edge.most, Math.max(edge.least, wanted));
}

/** As an option and in a request: "0.35", "40GiB", or bytes where that would not be the same. */
export function spoken(what: What, value: number): string {
  if (what === 'share') return String(value / 1000);
  for (const [unit, size] of [['GiB', GiB], ['MiB', 2 ** 20]] as const) {
    if (value % size === 0) return `${value / size}${unit}`;
  }
  return `${value}B`;
}

export function setCommand(tenant: string, what: What, value: number): string {
  return `divvy set ${quote(tenant)} --${what === 'share' ? 'gpu' : 'gpu-mem'} ${spoken(what, value)}`;
}

export function changeOf(what: What, value: number): { gpu?: string; memory?: string } {
  return what === 'share' ? { gpu: spoken(what, value) } : { memory: spoken(what, value) };
}

/** Members of jobs are the queue's to change; what was started or held by hand is its owner's. */
export function isResizable(holder: Tenant['holder'] | undefined): boolean {
  return holder === 'process' || holder === 'slice';
}
