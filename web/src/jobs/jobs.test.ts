import { expect, it } from 'vitest';
import type { Job } from '../api/types';
import { machinesOf } from '../fleet/model';
import { beyondOptions, submitCommand } from './command';
import { readFilter, sorted, statesOf, matches, writeSort } from './filter';
import { placesFor } from './fit';
import { emptyForm, formOf, specOf } from './form';
import { LogBuffer } from './log_buffer';
import { asWritten } from './spec';
import { together } from './use_series';
import { askOf, obstacles } from './wait_model';

const job = (id: number, more: Partial<Job> = {}): Job => ({
  id, name: `job${id}`, owner: 'ada', queue: 'default', state: 'running', stopping: null, class: 'batch',
  priority: 0, members: 1, shareThousandths: 300, gpuMemoryBytes: null, array: null, arrayIndex: null,
  submittedUnixMilliseconds: id, startedUnixMilliseconds: null, endedUnixMilliseconds: null,
  notBeforeUnixMilliseconds: null, attempt: 1, failures: 0, running: [], ...more,
});
const machines = (free: [number, number][]) =>
  machinesOf({
    unixMilliseconds: 0, hostname: 'n', simulated: true, waiting: 0, tenants: [],
    gpus: free.map(([share, memory], index) => ({
      index, uuid: `GPU-${index}`, model: 'M', memoryBytes: 1000 * 2 ** 20, freeShareThousandths: share,
      freeMemoryBytes: memory * 2 ** 20, mode: null, unusable: share < 0 ? 'it is cordoned' : null,
    })),
  }, [], { get: () => undefined });

it('reads filters from the address, whatever stands there', () => {
  expect(readFilter(new URLSearchParams('state=failed&sort=-gpu&search=x'))).toMatchObject({ state: 'failed', search: 'x', sort: { column: 'gpu', down: true } });
  expect(readFilter(new URLSearchParams('sort=nonsense')).sort).toEqual({ column: 'id', down: true });
  expect(writeSort({ column: 'name', down: false })).toBe('name');
  expect(writeSort({ column: 'id', down: true })).toBe('');
  expect(statesOf('ended')).toBe('succeeded,failed,cancelled');
  expect(statesOf('all')).toBeUndefined();
});

it('sorts and searches', () => {
  const all = [job(1, { shareThousandths: 100 }), job(2, { shareThousandths: 900 }), job(3, { members: 4, shareThousandths: 500 })];
  expect(sorted(all, { column: 'gpu', down: true }).map((one) => one.id)).toEqual([3, 2, 1]);
  expect(sorted(all, { column: 'owner', down: false }).map((one) => one.id)).toEqual([3, 2, 1]);
  expect(all.filter((one) => matches(one, 'ADA job2')).map((one) => one.id)).toEqual([2]);
  expect(matches(job(1, { spec: { command: ['python', 'train.py'], labels: { team: 'vision' } } }), 'train.py team=vision')).toBe(true);
});

it('makes of a form the job, its command and its file', () => {
  const form = { ...emptyForm, command: `python train.py --name 'a b'`, gpu: '0.3', gpuMemory: '10GiB', members: '4', environment: 'A=1\nB=x=y', image: 'pytorch', retries: '2' };
  const made = specOf(form);
  if (!('spec' in made)) throw new Error(made.problem);
  expect(made.spec).toEqual({
    gpu: 0.3, gpu_memory: '10GiB', members: 4, command: ['python', 'train.py', '--name', 'a b'],
    environment: { A: '1', B: 'x=y' }, container: { image: 'pytorch' }, retry: { most: 2 },
  });
  expect(submitCommand(made.spec)).toBe(`divvy submit --gpu 0.3 --gpu-mem 10GiB --members 4 --env A=1 --env B=x=y --image pytorch --retries 2 -- python train.py --name 'a b'`);
  expect(specOf(formOf(made.spec))).toEqual(made);
});

it('leaves out of a job what nobody set', () => {
  expect(asWritten({
    name: 'x', queue: 'default', gpu: '0.3', command: ['true'], environment: { PATH: '/bin', A: '0' }, topology: 'any', cap: false,
    where: { nodes: [], gpus_near: { closeness: 'any', required: false }, spread: null }, limits: { ram: null, ulimits: {} },
    retry: { most: 0, pause: '10s', longest_pause: '10m' }, class: 'batch', grace: '30s', holder: 'members', after: [4],
  })).toEqual({ name: 'x', gpu: 0.3, command: ['true'], environment: { A: '0' }, after: [4] });
  expect(asWritten({ retry: { most: 3, pause: '10s' }, mode: 'mps' })).toEqual({ retry: { most: 3 }, mode: 'mps' });
});

it('says which field of a form is wrong', () => {
  expect(specOf(emptyForm)).toEqual({ problem: 'What is it to run?' });
  expect(specOf({ ...emptyForm, command: 'x', gpu: 'much' })).toHaveProperty('problem');
  expect(specOf({ ...emptyForm, command: 'x', gpuMemory: 'much' })).toHaveProperty('problem');
  expect(specOf({ ...emptyForm, command: 'x', environment: 'A' })).toHaveProperty('problem');
  expect(specOf({ ...emptyForm, command: `x '` })).toHaveProperty('problem');
});

it('writes all that options can say, and names what they cannot', () => {
  const command = submitCommand({
    name: 'x', gpu: 1, array: { first: 0, last: 9, step: 2, at_once: 3 }, after: [4, { job: 5, kind: 'ended' }],
    time_limit: 7200, labels: { a: 'b c' }, command: ['true'], preemptible: false,
  });
  expect(command).toBe(`divvy submit --name x --gpu 1 --keep --time-limit 7200s --array 0-9:2%3 --after 4 --after 5:ended --label 'a=b c' -- true`);
  expect(beyondOptions({ where: { nodes: ['a'] }, gpu: 1 })).toEqual(['where']);
  expect(beyondOptions({ where: {}, gpu: 1 })).toEqual([]);
});

it('tells what each GPU lacks for a job that waits, the nearest first', () => {
  const all = obstacles(askOf(job(1, { shareThousandths: 500 })), machines([[200, 900], [500, 100], [-1, 0], [500, 500]]));
  expect(all.map((one) => [one.one.gpu.index, one.text])).toEqual([
    [3, ''], [0, '0.3 of compute short'], [1, '400 MiB short'], [2, 'it is cordoned'],
  ]);
  expect(askOf(job(1, { shareThousandths: 2500 }))).toMatchObject({ gpus: 3 });
  const named = job(1, { shareThousandths: 500, spec: { devices: ['n/0', 'GPU-1'] } });
  expect(obstacles(askOf(named), machines([[900, 900], [900, 900], [900, 900]])).map((one) => one.text))
    .toEqual(['', '', 'not one that it asked for']);
});

it('counts room for each part of a job', () => {
  const where = machines([[1000, 1000], [300, 1000], [-1, 1000]]);
  expect(placesFor({ gpu: 0.3, members: 4 }, where)).toMatchObject({ fits: true, needed: 4, found: 2 });
  expect(placesFor({ gpu: 0.3, members: 5 }, where).fits).toBe(false);
  expect(placesFor({ gpu: 2 }, where)).toMatchObject({ fits: false, needed: 2, found: 1 });
  expect(placesFor({ gpu_memory: '300MiB' }, where).fits).toBe(true);
  expect(placesFor({ gpu: 0 }, machines([])).fits).toBe(true);
  expect(placesFor({ gpu: 0.3, devices: ['1'] }, where)).toMatchObject({ found: 1, where: ['GPU 1 of n'] });
});

it('keeps the last lines of a log, and finds what is in them', () => {
  const log = new LogBuffer(100);
  log.append('first\nse');
  log.append('cond\nthi');
  expect([log.length, log.line(1), log.line(2)]).toEqual([3, 'second', 'thi']);
  expect(log.find('SECOND')).toEqual([1]);
  log.append('rd \x1b[31mre\x1b[0md\n');
  expect(log.find('red')).toEqual([2]);
  for (let i = 0; i < 300; i += 1) log.append(`line ${i}\n`);
  expect(log.length).toBeLessThanOrEqual(110);
  expect(log.dropped + log.length).toBe(303);
  expect(log.line(log.length - 1)).toBe('line 299');
});

it('adds up what members used at the same time', () => {
  const use = (rank: number, used: number[], memory: number[]) => ({
    rank, gpu: 'g', unixMilliseconds: [1000, 2000], usedShareThousandths: used, memoryUsedMebibytes: memory,
  });
  expect(together([use(0, [300, 400], [1, 5]), use(1, [500, 100], [2, 3])])).toEqual({
    times: [1, 2], used: [0.8, 0.5], memory: [2 * 2 ** 20, 5 * 2 ** 20],
  });
});
