// Which jobs are shown, and in which order: all of it is in the address. Pure.
import { activeStates, endedStates, type Job } from '../api/types';

export type Column = 'id' | 'name' | 'owner' | 'queue' | 'state' | 'gpu' | 'submitted' | 'time';
export interface Sort {
  column: Column;
  down: boolean;
}

export interface Filter {
  /** "active", "ended", "all", or a state. */
  state: string;
  owner: string;
  queue: string;
  search: string;
  sort: Sort;
}

const columns: readonly Column[] = [
  'id', 'name', 'owner', 'queue', 'state', 'gpu', 'submitted', 'time',
];

export function readFilter(query: URLSearchParams): Filter {
  const text = query.get('sort') ?? '-id';
  const down = text.startsWith('-');
  const name = (down ? text.slice(1) : text) as Column;
  return {
    state: query.get('state') ?? 'active',
    owner: query.get('owner') ?? '',
    queue: query.get('queue') ?? '',
    search: query.get('search') ?? '',
    sort: columns.includes(name) ? { column: name, down } : { column: 'id', down: true },
  };
}

export function writeSort(sort: Sort): string {
  const text = `${sort.down ? '-' : ''}${sort.column}`;
  return text === '-id' ? '' : text;
}

/** What the API is asked for. */
export function statesOf(state: string): string | undefined {
  if (state === 'all') return undefined;
  if (state === 'active') return activeStates.join(',');
  if (state === 'ended') return endedStates.join(',');
  return state;
}

export function matches(job: Job, search: string): boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const labels = Object.entries(job.spec?.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const text = [job.id, job.name, job.owner, job.queue, job.state, ...(job.spec?.command ?? []),
    ...labels].join(' ').toLowerCase();
  return words.every((word) => text.includes(word));
}

type Key = (job: Job) => number | string;
const keys: Record<Column, Key> = {
  id: (job) => job.id,
  name: (job) => job.name,
  owner: (job) => job.owner,
  queue: (job) => job.queue,
  state: (job) => job.state,
  gpu: (job) => job.members * job.shareThousandths,
  submitted: (job) => job.submittedUnixMilliseconds,
  time: (job) =>
    job.startedUnixMilliseconds === null
      ? -1
      : (job.endedUnixMilliseconds ?? Date.now()) - job.startedUnixMilliseconds,
};

export function sorted(jobs: readonly Job[], sort: Sort): Job[] {
  const key = keys[sort.column];
  const sign = sort.down ? -1 : 1;
  return [...jobs].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    if (left === right) return b.id - a.id;
    return left < right ? -sign : sign;
  });
}
