// Who held what at a moment of the past, from the jobs that ran then. Pure.
import type { Job } from '../api/types';
import type { Machine } from './model';

/** The machines as they are, with the slices of another time in them. */
export function machinesAt(
  machines: readonly Machine[],
  jobs: readonly Job[],
  at: number,
): Machine[] {
  const bands = new Map<string, Machine['gpus'][number]['bands']>();
  for (const job of jobs) {
    const from = job.startedUnixMilliseconds;
    if (from === null || from > at) continue;
    const until = job.endedUnixMilliseconds;
    if (until !== null && until <= at) continue;
    if (until === null && job.state === 'queued') continue;
    for (const member of job.running) {
      if (member.end && member.end.unixMilliseconds <= at) continue;
      for (const slice of member.slices) {
        const list = bands.get(slice.gpu) ?? [];
        list.push({
          owner: job.owner,
          name: `${job.id}.${job.attempt}.${member.rank}`,
          title: job.name,
          job: job.id,
          share: slice.shareThousandths / 1000,
          capped: slice.capped,
          memoryLimit: slice.memoryLimitBytes,
          memoryUsed: 0,
          used: undefined,
        });
        bands.set(slice.gpu, list);
      }
    }
  }
  return machines.map((machine) => ({
    name: machine.name,
    gpus: machine.gpus.map((one) => {
      const then = bands.get(one.gpu.uuid) ?? [];
      const held = then.reduce((sum, band) => sum + band.share, 0);
      const memory = then.reduce((sum, band) => sum + band.memoryLimit, 0);
      return {
        gpu: {
          ...one.gpu,
          freeShareThousandths: Math.max(0, Math.round(1000 - held * 1000)),
          freeMemoryBytes: Math.max(0, one.gpu.memoryBytes - memory),
        },
        health: undefined,
        bands: then,
        used: 0,
      };
    }),
  }));
}
