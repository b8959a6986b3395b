// What more than one page looks at.
import { computed, signal } from '@preact/signals';
import { get } from '../api/client';
import {
  activeStates,
  type GpuHealth,
  type Job,
  type Person,
  type Stats,
} from '../api/types';
import { Live } from './live';

// Kinds of events are many; whatever is about a job or a machine changes these.
const any = () => true;

export const stats = new Live<Stats>(
  async () => (await get('/v1/stats')) as unknown as Stats,
  { every: 1000, on: any },
);

export const health = new Live<GpuHealth[]>(
  async () => ((await get('/v1/gpus')) as unknown as { items: GpuHealth[] }).items,
  { every: 3000, on: any },
);

const mostActive = 5000;

/** Every job that has not ended, the oldest first. */
export const activeJobs = new Live<Job[]>(
  async () => {
    const jobs: Job[] = [];
    let after: number | undefined;
    do {
      const page = await get('/v1/jobs', {
        query: { state: activeStates.join(','), order: 'oldest', limit: 1000, after },
      });
      jobs.push(...page.items);
      after = page.next ?? undefined;
    } while (after !== undefined && jobs.length < mostActive);
    return jobs;
  },
  { on: any, every: 20_000 },
);

export const me = new Live<Person>(() => get('/v1/whoami'));
export const isAdmin = computed(() => me.data.value?.role === 'admin');

/** The jobs by their numbers: whose a tenant is. */
export const owners = computed(() => new Map((activeJobs.data.value ?? []).map((job): [number, Job] => [job.id, job])));

/** The time, for whatever is shown relative to it. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 1000);
