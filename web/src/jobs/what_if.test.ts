import { describe, expect, it } from 'vitest';
import { difference, noWishes, requestOf, startText } from './what_if_model';

describe('what if', () => {
  it('asks for nothing where nothing is typed', () => {
    expect(requestOf(noWishes)).toEqual({ request: {} });
  });

  it('asks for what is typed, and for no more', () => {
    const made = requestOf({ ...noWishes, nodes: '2', gpus: '8', without: 'node-a/3, node-b', policy: 'fgd', preemption: 'off',
      queues: { research: { gpu: '4', weight: '' }, default: { gpu: '', weight: '' }, 'a/b': { gpu: '', weight: '3' } } });
    expect(made).toEqual({ request: { add: [{ count: 2, gpus: 8 }], without: ['node-a/3', 'node-b'], policy: 'fgd', preemption: false,
      queues: { research: { gpu: '4' }, 'a/b': { weight: 3 } } } });
  });

  it('says what is no number', () => {
    expect(requestOf({ ...noWishes, nodes: 'two' })).toHaveProperty('problem');
    expect(requestOf({ ...noWishes, queues: { q: { gpu: '', weight: '-1' } } })).toHaveProperty('problem');
  });

  it('compares starts, and those that never come', () => {
    expect(difference(60, 60)).toBeUndefined();
    expect(difference(120, 60)).toMatchObject({ good: true });
    expect(difference(null, 0)).toMatchObject({ text: 'would start', good: true });
    expect(difference(0, null)).toMatchObject({ good: false });
    expect(startText(0)).toBe('at once');
  });
});
