// The last day as a slider: who held which slices then. What was used is not kept for so long.
import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { get } from '../api/client';
import type { Job } from '../api/types';
import { toast } from '../components/toast';
import { now } from '../live/store';
import { exact, relative } from '../text/format';
import { machinesAt } from './replay_model';
import type { Machine } from './model';

const day = 24 * 3600 * 1000;
const jobs = signal<Job[] | undefined>(undefined);
/** Milliseconds before now; 0: now. */
const back = signal(0);
const isOn = signal(false);
const opened = signal(0);

async function load(): Promise<void> {
  const all: Job[] = [];
  let after: number | undefined;
  do {
    const page = await get('/v1/jobs', { query: { order: 'newest', limit: 1000, after } });
    all.push(...page.items);
    after = page.next ?? undefined;
    const last = page.items.at(-1);
    if (last && last.submittedUnixMilliseconds < Date.now() - 7 * day) break;
  } while (after !== undefined && all.length < 20_000);
  jobs.value = all;
}

export function useReplay() {
  const at = isOn.value && back.value > 0 ? opened.value - back.value : 0;
  const known = jobs.value;
  return useMemo(
    () =>
      at > 0 && known
        ? { apply: (machines: readonly Machine[]) => machinesAt(machines, known, at) }
        : undefined,
    [at, known],
  );
}

export function ReplayBar() {
  useEffect(() => () => {
    isOn.value = false;
    back.value = 0;
  }, []);
  if (!isOn.value) {
    return (
      <button type="button" onClick={() => {
        isOn.value = true;
        opened.value = Date.now();
        load().catch((error: unknown) => toast(error instanceof Error ? error.message : String(error)));
      }}>
        Replay the day
      </button>
    );
  }
  const at = opened.value - back.value;
  return (
    <label class="replay">
      <span class="hidden">Moment of the last day</span>
      <input type="range" min={-day} max={0} step={60_000} value={-back.value}
        aria-valuetext={back.value === 0 ? 'now' : exact(at)}
        onInput={(event) => {
          back.value = -Number(event.currentTarget.value);
        }} />
      <output>{back.value === 0 ? 'now' : `${exact(at)} (${relative(at, now.value)})`}</output>
      <button type="button" class="small" onClick={() => {
        isOn.value = false;
        back.value = 0;
      }}>Live</button>
    </label>
  );
}
