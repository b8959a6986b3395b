import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { pause } from './pause';

const page = new EventTarget();
let listening = 0;
const counted = (target: EventTarget) => {
  const add = target.addEventListener.bind(target);
  const remove = target.removeEventListener.bind(target);
  return {
    add: (name: string, listener: () => void) => {
      listening += 1;
      add(name, listener);
    },
    remove: (name: string, listener: () => void) => {
      listening -= 1;
      remove(name, listener);
    },
  };
};

beforeEach(() => {
  vi.useFakeTimers();
  listening = 0;
  vi.stubGlobal('addEventListener', counted(page).add);
  vi.stubGlobal('removeEventListener', counted(page).remove);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it('ends with its time, with the network or when it is stopped, and leaves no listener', async () => {
  const stop = new AbortController();
  const { add, remove } = counted(stop.signal);
  Object.assign(stop.signal, { addEventListener: add, removeEventListener: remove });
  const long = pause(1000, stop.signal);
  expect(listening).toBe(2);
  vi.advanceTimersByTime(1000);
  await long;
  const online = pause(1000, stop.signal);
  page.dispatchEvent(new Event('online'));
  await online;
  const stopped = pause(1000, stop.signal);
  stop.abort();
  await stopped;
  expect(listening).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});
