import { describe, expect, it } from 'vitest';
import type { Stats, Tenant } from '../api/types';
import { GiB } from '../text/format';
import { changeOf, edgesOf, isResizable, moved, rest, setCommand, spoken } from './resize_model';

const gpu = (index: number, freeShareThousandths: number, freeMemoryBytes: number) => ({
  index, uuid: `GPU-${index}`, model: 'H200', memoryBytes: 140 * GiB, freeShareThousandths, freeMemoryBytes, mode: null, unusable: null,
});
const slice = (index: number) => ({
  gpu: { index, uuid: `GPU-${index}`, model: 'H200' }, shareThousandths: 300, capped: false, memoryLimitBytes: 42 * GiB,
  memoryUsedBytes: 0, memoryPeakBytes: 0, usedShareThousandths: 0,
});
const tenant = (...slices: Tenant['slices']): Tenant => ({
  id: 1, name: 'server', holder: 'process', job: null, attempt: 0, rank: 0, user: 'ada', command: '', sinceUnixSeconds: 0, class: 'batch', mode: 'timeslice', state: 'running', slices,
});
const stats = (...gpus: Stats['gpus']): Stats => ({ unixMilliseconds: 0, hostname: 'a', simulated: true, waiting: 0, gpus, tenants: [] });

describe('the edges of a slice', () => {
  it('go as far as every GPU of it has room', () => {
    const edges = edgesOf(tenant(slice(0), slice(1)), stats(gpu(0, 700, 98 * GiB), gpu(1, 200, 10 * GiB)));
    expect(edges?.share).toMatchObject({ now: 300, most: 500, whole: 1000 });
    expect(edges?.memory).toMatchObject({ now: 42 * GiB, most: 52 * GiB, whole: 140 * GiB });
    expect(edgesOf(tenant(), stats())).toBeUndefined();
    expect(edgesOf(tenant(slice(5)), stats(gpu(0, 700, 0)))).toBeUndefined();
  });

  const edge = { what: 'share', now: 333, least: 10, most: 777, whole: 1000 } as const;
  it('rest at steps, at the ends of their way and where they were', () => {
    expect(rest(edge, 412, false)).toBe(400);
    expect(rest(edge, 412, true)).toBe(410);
    expect(rest(edge, 336, false)).toBe(333);
    expect(rest(edge, 2000, false)).toBe(777);
    expect(rest(edge, -5, false)).toBe(10);
    for (let to = -100; to < 1200; to += 1) {
      expect(rest(edge, to, false)).toBeGreaterThanOrEqual(10);
      expect(rest(edge, to, false)).toBeLessThanOrEqual(777);
    }
  });

  it('follow the keys', () => {
    expect(moved(edge, 333, 'ArrowRight', false)).toBe(350);
    expect(moved(edge, 350, 'ArrowRight', false)).toBe(400);
    expect(moved(edge, 333, 'ArrowLeft', false)).toBe(300);
    expect(moved(edge, 333, 'ArrowUp', true)).toBe(340);
    expect(moved(edge, 760, 'ArrowRight', false)).toBe(777);
    expect(moved(edge, 333, 'Home', false)).toBe(10);
    expect(moved(edge, 333, 'End', false)).toBe(777);
    expect(moved(edge, 333, 'Tab', false)).toBeUndefined();
  });

  it('say what `divvy set` is told', () => {
    expect(setCommand('server', 'share', 350)).toBe('divvy set server --gpu 0.35');
    expect(setCommand("it's", 'memory', 40 * GiB)).toBe(`divvy set 'it'\\''s' --gpu-mem 40GiB`);
    expect(spoken('memory', 40.25 * GiB)).toBe('41216MiB');
    expect(spoken('memory', 45_097_156_609)).toBe('45097156609B');
    expect(changeOf('share', 1000)).toEqual({ gpu: '1' });
    expect(changeOf('memory', GiB)).toEqual({ memory: '1GiB' });
  });

  it('are those of what somebody started or holds, not of what the queue placed', () => {
    expect(isResizable('process')).toBe(true);
    expect(isResizable('slice')).toBe(true);
    expect(isResizable('members')).toBe(false);
    expect(isResizable(undefined)).toBe(false);
  });
});
