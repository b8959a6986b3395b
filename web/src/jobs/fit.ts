// Where a job would find room as things are. Pure; an estimate beside the daemon's own check: it
// counts free shares and memory, and knows nothing of quotas, topology and places that are kept.
import type { JobSpec } from '../api/types';
import type { Machine } from '../fleet/model';
import { parseSize } from '../text/format';
import { isAmong } from './wait_model';

export interface Places {
  fits: boolean;
  /** Slices that it needs: GPUs of all members. */
  needed: number;
  /** GPUs that have room for one of them, each counted as often as it has. */
  found: number;
  /** "GPU 0 of node-a", a few of them. */
  where: string[];
  more: number;
}

export function placesFor(spec: JobSpec, machines: readonly Machine[]): Places {
  const members = spec.members ?? 1;
  const memory = spec.gpu_memory === null || spec.gpu_memory === undefined
    ? undefined
    : typeof spec.gpu_memory === 'number' ? spec.gpu_memory : parseSize(spec.gpu_memory);
  const asked = spec.gpu === null || spec.gpu === undefined ? undefined : Number(spec.gpu);
  // A number beyond one is that many GPUs, the last of them in part.
  const whole = asked === undefined ? 1 : Math.max(1, Math.ceil(asked));
  const needed = asked === 0 ? 0 : whole * members;
  const where: string[] = [];
  let found = 0;
  let spots = 0;
  for (const machine of machines) {
    for (const { gpu } of machine.gpus) {
      if (gpu.unusable !== null || !isAmong(spec.devices ?? [], machine.name, gpu)) continue;
      const share = asked === undefined
        ? (1000 * (memory ?? gpu.memoryBytes)) / gpu.memoryBytes
        : Math.min(1, asked) * 1000;
      const bytes = memory ?? (share / 1000) * gpu.memoryBytes;
      const room = Math.min(
        Math.floor(gpu.freeShareThousandths / Math.max(1, share)),
        Math.floor((gpu.freeMemoryBytes + 2 ** 20) / Math.max(1, bytes)),
      );
      if (room <= 0) continue;
      found += 1;
      spots += room;
      if (where.length < 4) where.push(`GPU ${gpu.index} of ${machine.name}`);
    }
  }
  return { fits: needed === 0 || spots >= needed, needed, found, where, more: Math.max(0, found - where.length) };
}
