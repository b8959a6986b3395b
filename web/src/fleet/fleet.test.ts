import { expect, it } from 'vitest';
import type { Gpu, Job, Stats } from '../api/types';
import { fittingSize, layOut, neighbour, sizes, spotAt, spotOfGpu, visibleRows } from './layout';
import { filtered, machinesOf, totals, trouble } from './model';
import { machinesAt } from './replay_model';

const gpu = (node: string, index: number): Gpu => ({
  index, node, uuid: `GPU-${node}-${index}`, model: 'NVIDIA H200', memoryBytes: 1000,
  freeShareThousandths: 1000, freeMemoryBytes: 1000, mode: null, unusable: null,
});

function fleet(nodes: number, each: number): Stats {
  const gpus = Array.from({ length: nodes }, (_, n) =>
    Array.from({ length: each }, (__, i) => gpu(`n${n}`, i))).flat();
  return { unixMilliseconds: 0, hostname: 'n0', simulated: true, waiting: 0, gpus, tenants: [] };
}

const slice = (uuid: string, share: number, used: number | null) => ({
  gpu: { index: 0, uuid, model: '' }, shareThousandths: share, capped: false, memoryLimitBytes: 300,
  memoryUsedBytes: 100, memoryPeakBytes: 100, usedShareThousandths: used,
});
const tenant = (name: string, uuid: string, used: number | null, job: number | null = null) => ({
  id: 1, name, holder: 'members' as const, job, attempt: 1, rank: 0, user: 'root', command: '', sinceUnixSeconds: 0, class: 'batch', mode: 'timeslice',
  state: 'running', slices: [slice(uuid, 300, used)],
});
const nobody = { get: () => undefined };

it('puts slices on their GPUs, by the owners of their jobs', () => {
  const stats = fleet(2, 2);
  stats.tenants.push(tenant('job-7.1.0', 'GPU-n1-0', 570, 7), tenant('job-8.1.0', 'GPU-n1-0', 0));
  const owners = new Map([[7, { id: 7, name: 'train', owner: 'ada' }], [8, { id: 8, name: 'serve', owner: 'ben' }]]);
  const machines = machinesOf(stats, [], owners);
  expect(machines.map((machine) => machine.name)).toEqual(['n0', 'n1']);
  const one = machines[1]?.gpus[0];
  expect(one?.bands.map((band) => [band.owner, band.title])).toEqual([['ada', 'train'], ['root', 'job-8.1.0']]);
  expect(one?.used).toBeCloseTo(0.57);
  expect(totals(machines)).toMatchObject({ gpus: 4, free: 3, held: 0.6, idle: 0 });
  expect(filtered(machines, 'busy', '')[0]?.gpus).toHaveLength(1);
  expect(filtered(machines, 'all', 'ADA train')).toHaveLength(1);
  expect(filtered(machines, 'all', 'ada nobody')).toHaveLength(0);
});

it('counts a GPU as idle that is held and not used', () => {
  const stats = fleet(1, 2);
  stats.tenants.push(tenant('a', 'GPU-n0-0', 0), tenant('b', 'GPU-n0-1', null));
  expect(totals(machinesOf(stats, [], nobody)).idle).toBe(1);
});

it('says in a word what is wrong with a GPU', () => {
  const stats = fleet(1, 1);
  const health = {
    index: 0, uuid: 'GPU-n0-0', model: '', state: 'healthy', reason: null, sinceUnixMilliseconds: 0,
    cordoned: true, draining: false, cordonReason: 'fan', acceptsWork: false, sample: null,
  };
  const word = (change: object) => {
    const one = machinesOf(stats, [{ ...health, ...change }], nobody)[0]?.gpus[0];
    return one ? trouble(one) : '?';
  };
  expect(word({})).toBe('cordoned');
  expect(word({ draining: true })).toBe('draining');
  expect(word({ state: 'quarantined' })).toBe('quarantined');
  expect(word({ cordoned: false })).toBe('');
});

it('lays out every GPU once, inside the width, and finds it again', () => {
  for (const [nodes, each, width] of [[1, 4, 900], [40, 8, 1200], [3, 16, 380], [1250, 8, 1400]] as const) {
    const machines = machinesOf(fleet(nodes, each), [], nobody);
    for (const size of Object.values(sizes)) {
      const layout = layOut(machines, size, width);
      let count = 0;
      for (const row of layout.rows) {
        for (const block of row.blocks) {
          count += block.machine.gpus.length;
          if (block.columns > 1) expect(block.x + block.width).toBeLessThanOrEqual(width);
        }
      }
      expect(count).toBe(nodes * each);
      const spot = spotOfGpu(layout, `GPU-n${nodes - 1}-${each - 1}`);
      expect(spot && spotAt(layout, spot.x + 1, spot.y + 1)?.one.gpu.uuid).toBe(spot?.one.gpu.uuid);
    }
  }
});

it('draws no more than is seen', () => {
  const layout = layOut(machinesOf(fleet(1250, 8), [], nobody), sizes.small, 1400);
  const rows = visibleRows(layout, 2000, 2800);
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.length).toBeLessThan(40);
  expect(rows.every((row) => row.y <= 2800 && row.y + row.height >= 2000)).toBe(true);
});

it('goes from one GPU to the next by arrow keys', () => {
  const layout = layOut(machinesOf(fleet(2, 4), [], nobody), sizes.medium, 170);
  const first = spotOfGpu(layout, 'GPU-n0-0');
  if (!first) throw new Error('there is none');
  expect(neighbour(layout, first, 'ArrowRight')?.one.gpu.uuid).toBe('GPU-n0-1');
  expect(neighbour(layout, first, 'ArrowDown')?.one.gpu.uuid).toBe('GPU-n0-2');
  expect(neighbour(layout, first, 'ArrowLeft')).toBeUndefined();
  const last = spotOfGpu(layout, 'GPU-n0-3');
  expect(last && neighbour(layout, last, 'ArrowRight')?.one.gpu.uuid).toBe('GPU-n1-0');
});

it('takes the size by how many there are', () => {
  expect(fittingSize(4, 1200).name).toBe('large');
  expect(fittingSize(64, 1200).name).toBe('medium');
  expect(fittingSize(10_000, 1200).name).toBe('small');
  expect(fittingSize(4, 360).name).toBe('large');
});

it('shows who held what at a moment of the past', () => {
  const job = (id: number, from: number, until: number | null): Job => ({
    id, name: `job${id}`, owner: 'ada', queue: 'default', state: until === null ? 'running' : 'succeeded',
    stopping: null, class: 'batch', priority: 0, members: 1, shareThousandths: 300, gpuMemoryBytes: null,
    array: null, arrayIndex: null, submittedUnixMilliseconds: from, startedUnixMilliseconds: from,
    endedUnixMilliseconds: until, notBeforeUnixMilliseconds: null, attempt: 1, failures: 0,
    running: [{ rank: 0, node: 'n0', end: null, slices: [{ gpu: 'GPU-n0-0', shareThousandths: 300, capped: false, memoryLimitBytes: 300 }] }],
  });
  const machines = machinesOf(fleet(1, 1), [], nobody);
  const jobs = [job(1, 100, 200), job(2, 150, null)];
  const names = (at: number) => machinesAt(machines, jobs, at)[0]?.gpus[0]?.bands.map((band) => band.job);
  expect(names(50)).toEqual([]);
  expect(names(120)).toEqual([1]);
  expect(names(170)).toEqual([1, 2]);
  expect(names(200)).toEqual([2]);
  expect(machinesAt(machines, jobs, 170)[0]?.gpus[0]?.gpu.freeShareThousandths).toBe(400);
});
