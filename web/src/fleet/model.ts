// The fleet as the picture needs it: machines with their GPUs, GPUs with their slices. Pure.
import type { Gpu, GpuHealth, Stats, Tenant } from '../api/types';

export interface Band {
  /** Whose it is. */
  owner: string;
  /** The tenant. */
  name: string;
  /** What to call it: the name of its job, where it has one. */
  title: string;
  /** What uses it; nothing where only its job is known. */
  holder?: Tenant['holder'];
  job?: number;
  share: number;
  capped: boolean;
  memoryLimit: number;
  memoryUsed: number;
  /** Of the GPU, measured; nothing where it is not known. */
  used: number | undefined;
}

export interface FleetGpu {
  gpu: Gpu;
  health: GpuHealth | undefined;
  bands: Band[];
  /** Compute in use, of all its tenants. */
  used: number;
}

export interface Machine {
  name: string;
  gpus: FleetGpu[];
}

export interface Owners {
  get(job: number): { id: number; name: string; owner: string } | undefined;
}

export function machinesOf(
  stats: Stats,
  health: readonly GpuHealth[],
  owners: Owners,
): Machine[] {
  const byUuid = new Map<string, FleetGpu>();
  const healthOf = new Map(health.map((one) => [one.uuid, one]));
  const machines = new Map<string, Machine>();
  for (const gpu of stats.gpus) {
    const name = gpu.node ?? stats.hostname;
    const entry = { gpu, health: healthOf.get(gpu.uuid), bands: [], used: 0 };
    byUuid.set(gpu.uuid, entry);
    const machine = machines.get(name);
    if (machine) machine.gpus.push(entry);
    else machines.set(name, { name, gpus: [entry] });
  }
  for (const tenant of stats.tenants) {
    const job = tenant.job === null ? undefined : owners.get(tenant.job);
    for (const slice of tenant.slices) {
      const entry = byUuid.get(slice.gpu.uuid);
      if (!entry) continue;
      const used =
        slice.usedShareThousandths === null ? undefined : slice.usedShareThousandths / 1000;
      entry.used += used ?? 0;
      entry.bands.push({
        owner: job?.owner ?? tenant.user,
        name: tenant.name,
        title: job && job.name !== '' ? job.name : tenant.name,
        holder: tenant.holder,
        ...(job ? { job: job.id } : {}),
        share: slice.shareThousandths / 1000,
        capped: slice.capped,
        memoryLimit: slice.memoryLimitBytes,
        memoryUsed: slice.memoryUsedBytes,
        used,
      });
    }
  }
  return [...machines.values()];
}

export interface Totals {
  gpus: number;
  free: number;
  held: number;
  used: number;
  memory: number;
  memoryHeld: number;
  memoryUsed: number;
  troubled: number;
  idle: number;
  watts: number;
}

export function totals(machines: readonly Machine[]): Totals {
  const sum: Totals = {
    gpus: 0, free: 0, held: 0, used: 0, memory: 0, memoryHeld: 0, memoryUsed: 0,
    troubled: 0, idle: 0, watts: 0,
  };
  for (const machine of machines) {
    for (const one of machine.gpus) {
      sum.gpus += 1;
      sum.used += one.used;
      sum.memory += one.gpu.memoryBytes;
      sum.memoryHeld += one.gpu.memoryBytes - one.gpu.freeMemoryBytes;
      sum.watts += (one.health?.sample?.powerMilliwatts ?? 0) / 1000;
      for (const band of one.bands) {
        sum.held += band.share;
        sum.memoryUsed += band.memoryUsed;
      }
      if (trouble(one) !== '') sum.troubled += 1;
      else if (one.bands.length === 0) sum.free += 1;
      if (isIdle(one)) sum.idle += 1;
    }
  }
  return sum;
}

/** Held by somebody, and nobody computes. */
export function isIdle(one: FleetGpu): boolean {
  return (
    one.bands.length > 0 &&
    one.bands.every((band) => band.used !== undefined && band.used < 0.005)
  );
}

/** In a word; empty: nothing is wrong. */
export function trouble(one: FleetGpu): string {
  const health = one.health;
  if (health && health.state !== 'healthy') return health.state;
  if (health?.draining) return 'draining';
  if (health?.cordoned) return 'cordoned';
  return one.gpu.unusable === null ? '' : 'unusable';
}

export type Show = 'all' | 'free' | 'busy' | 'idle' | 'trouble';

/** Machines with those of their GPUs that are asked for; those without any are left out. */
export function filtered(machines: readonly Machine[], show: Show, search: string): Machine[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (show === 'all' && words.length === 0) return [...machines];
  const result: Machine[] = [];
  for (const machine of machines) {
    const gpus = machine.gpus.filter((one) => matches(machine.name, one, show, words));
    if (gpus.length > 0) result.push({ name: machine.name, gpus });
  }
  return result;
}

function matches(node: string, one: FleetGpu, show: Show, words: readonly string[]): boolean {
  if (show === 'free' && (one.bands.length > 0 || trouble(one) !== '')) return false;
  if (show === 'busy' && one.bands.length === 0) return false;
  if (show === 'idle' && !isIdle(one)) return false;
  if (show === 'trouble' && trouble(one) === '') return false;
  if (words.length === 0) return true;
  const text = [node, one.gpu.uuid, one.gpu.model, ...one.bands.flatMap((b) => [b.owner, b.title])]
    .join(' ')
    .toLowerCase();
  return words.every((word) => text.includes(word));
}
