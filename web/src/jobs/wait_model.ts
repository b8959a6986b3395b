// Why a job that waits fits on no GPU, GPU by GPU. Pure: the daemon's own words say what decides
// (quotas, reservations, topology); this is the picture beside them.
import type { Gpu, Job } from '../api/types';
import type { FleetGpu, Machine } from '../fleet/model';
import { bytes, share } from '../text/format';

export interface Ask {
  /** GPUs for each member. */
  gpus: number;
  /** Of each, in thousandths. */
  share: number;
  memory: number | undefined;
  /** Only these: index, UUID or its beginning, node/index. Empty: any. */
  devices: readonly string[];
}

export function askOf(job: Job): Ask {
  const thousandths = job.shareThousandths;
  const gpus = Math.max(1, Math.ceil(thousandths / 1000));
  return { gpus, share: thousandths / gpus, memory: job.gpuMemoryBytes ?? undefined, devices: job.spec?.devices ?? [] };
}

export interface Obstacle {
  node: string;
  one: FleetGpu;
  fits: boolean;
  /** What is missing, in words; empty where it fits. */
  text: string;
  /** To put the nearest first. */
  distance: number;
}

export function obstacles(ask: Ask, machines: readonly Machine[]): Obstacle[] {
  const all: Obstacle[] = [];
  for (const machine of machines) {
    for (const one of machine.gpus) all.push(obstacle(ask, machine.name, one));
  }
  return all.sort((a, b) => a.distance - b.distance);
}

/** Whether a job that names its GPUs means this one. */
export function isAmong(devices: readonly string[], node: string, gpu: Gpu): boolean {
  return (
    devices.length === 0 ||
    devices.some((one) => one === String(gpu.index) || one === `${node}/${gpu.index}` || gpu.uuid.startsWith(one))
  );
}

function obstacle(ask: Ask, node: string, one: FleetGpu): Obstacle {
  const { gpu } = one;
  if (gpu.unusable !== null) {
    return { node, one, fits: false, text: gpu.unusable, distance: 1e6 };
  }
  if (!isAmong(ask.devices, node, gpu)) {
    return { node, one, fits: false, text: 'not one that it asked for', distance: 1e7 };
  }
  const memory = ask.memory ?? Math.floor((ask.share / 1000) * gpu.memoryBytes);
  const missing: string[] = [];
  let distance = 0;
  if (ask.share > gpu.freeShareThousandths) {
    missing.push(`${share(ask.share - gpu.freeShareThousandths)} of compute`);
    distance += ask.share - gpu.freeShareThousandths;
  }
  // What is asked for in parts of a GPU is rounded; a mebibyte is nobody's obstacle.
  if (memory > gpu.freeMemoryBytes + 2 ** 20) {
    missing.push(bytes(memory - gpu.freeMemoryBytes));
    distance += (1000 * (memory - gpu.freeMemoryBytes)) / gpu.memoryBytes;
  }
  const text = missing.length === 0 ? '' : `${missing.join(' and ')} short`;
  return { node, one, fits: text === '', text, distance };
}
