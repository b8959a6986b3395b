import { expect, it } from 'vitest';
import type { Job, Service } from '../api/types';
import { addressOf, extended, mayRollBack, replicasText, scaleProblem, secondsOf, sessionsOf, splitOf } from './model';

const job = (id: number, spec: object | undefined, started: number | null = null) =>
  ({ id, name: `job-${id}`, owner: 'ada', startedUnixMilliseconds: started, spec }) as unknown as Job;

it('reads times as the daemon writes them', () => {
  expect(secondsOf('1h30m')).toBe(5400);
  expect(secondsOf('2d')).toBe(172_800);
  expect(secondsOf('90')).toBe(90);
  expect(secondsOf(45)).toBe(45);
  expect(secondsOf(null)).toBeUndefined();
  expect(secondsOf('soon')).toBeUndefined();
});

it('finds the sessions among jobs, and how long each has', () => {
  const found = sessionsOf([
    job(1, { labels: { 'divvy.session': 'jupyter' }, time_limit: '1h' }, 1_000_000),
    job(2, { labels: { other: 'label' } }),
    job(3, undefined),
    job(4, { labels: { 'divvy.session': 'shell' } }, 1_000_000),
    job(5, { labels: { 'divvy.session': 'code' }, time_limit: '12h' }),
  ], 1_000_000 + 600_000);
  expect(found.map((one) => [one.job.id, one.app, one.secondsLeft])).toEqual([
    [5, 'code', undefined], [4, 'shell', undefined], [1, 'jupyter', 3000],
  ]);
  const [, , first] = found;
  expect(first && extended(first, 7200)).toEqual({ time_limit: '10800s' });
});

it('makes a link only of an address that this browser reaches', () => {
  const local = { address: '127.0.0.1', port: 8000 };
  expect(addressOf(local, '127.0.0.1').href).toBe('http://127.0.0.1:8000/');
  expect(addressOf(local, 'gpu.example')).toEqual({ text: 'port 8000, on the machine itself' });
  expect(addressOf({ address: '0.0.0.0', port: 8000 }, 'gpu.example').href).toBe('http://gpu.example:8000/');
});

const service = (candidate: Service['candidate']) => ({
  stable: 2, candidate, scale: { least: 1, most: 3 },
  versions: [
    { number: 1, state: 'replaced', replicas: 0, readyReplicas: 0 },
    { number: 2, state: 'stable', replicas: 2, readyReplicas: 2 },
    { number: 3, state: candidate ? 'candidate' : 'rejected', replicas: 1, readyReplicas: 0 },
  ],
}) as unknown as Service;

it('says which version gets which part of the requests', () => {
  expect(splitOf(service({ version: 3, weight: 10 })).map((one) => [one.version, one.weight])).toEqual([[2, 90], [3, 10]]);
  expect(splitOf(service(null)).map((one) => [one.version, one.weight])).toEqual([[2, 100]]);
  expect(mayRollBack(service(null))).toBe(true);
  expect(replicasText(service(null).scale)).toBe('1 to 3 replicas');
});

it('sees what cannot be a number of replicas', () => {
  expect(scaleProblem('0', '5')).toBeUndefined();
  expect(scaleProblem('3', '2')).toContain('more than');
  expect(scaleProblem('0', '0')).toContain('one replica');
  expect(scaleProblem('-1', 'x')).toContain('number');
});
