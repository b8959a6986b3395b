import { defineConfig } from 'vitest/config';

// A real browser and a real daemon: one after the other, in the order in which they are written.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    pool: 'threads',
    poolOptions: { threads: { singleThread: true } },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    bail: 1,
  },
});
