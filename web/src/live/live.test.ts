import { afterEach, beforeEach, expect, it, vi } from 'vitest';

const watch = vi.hoisted((): { tell: (event: 'everything') => void } => ({ tell: () => undefined }));
vi.mock('./watch', () => ({
  listen: (listener: (event: 'everything') => void) => {
    watch.tell = listener;
    return () => undefined;
  },
}));

import { Live } from './live';

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', Object.assign(new EventTarget(), { visibilityState: 'visible' }));
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it('is asked for also while events never cease', async () => {
  let asked = 0;
  const live = new Live(() => Promise.resolve(++asked));
  const leave = live.use();
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toBe(1);
  for (let i = 0; i < 20; i += 1) {
    watch.tell('everything');
    await vi.advanceTimersByTimeAsync(50);
  }
  expect(asked).toBeGreaterThan(4);
  leave();
});

it('leaves the daemon time for others where an answer takes long', async () => {
  let asked = 0;
  const live = new Live(() => new Promise<number>((resolve) => setTimeout(() => resolve(++asked), 1000)));
  const leave = live.use();
  for (let i = 0; i < 160; i += 1) {
    watch.tell('everything');
    await vi.advanceTimersByTimeAsync(50);
  }
  // Two answers of a second each, and three seconds behind each of them.
  expect(asked).toBe(2);
  leave();
});
