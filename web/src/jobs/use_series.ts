// What the members of a job used, put together for a chart. Pure.
import type { Use } from '../api/types';

export interface Together {
  /** Unix seconds. */
  times: number[];
  /** GPUs in use at those times, of all members. */
  used: number[];
  /** Bytes, of the slice that had the most. */
  memory: number[];
}

/** Members are measured together, so that their times are the same; where one is missing it counts
 * as nothing. */
export function together(all: readonly Use[]): Together {
  const byTime = new Map<number, { used: number; memory: number }>();
  for (const one of all) {
    one.unixMilliseconds.forEach((at, i) => {
      const sum = byTime.get(at) ?? { used: 0, memory: 0 };
      sum.used += (one.usedShareThousandths[i] ?? 0) / 1000;
      sum.memory = Math.max(sum.memory, (one.memoryUsedMebibytes[i] ?? 0) * 2 ** 20);
      byTime.set(at, sum);
    });
  }
  const times = [...byTime.keys()].sort((a, b) => a - b);
  return {
    times: times.map((at) => at / 1000),
    used: times.map((at) => byTime.get(at)?.used ?? 0),
    memory: times.map((at) => byTime.get(at)?.memory ?? 0),
  };
}
