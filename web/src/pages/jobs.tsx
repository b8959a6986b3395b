// Jobs: which ones is in the address, so that a view can be sent to somebody.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get } from '../api/client';
import type { Job } from '../api/types';
import { Empty, Loading, Problem } from '../components/parts';
import { matches, readFilter, sorted, statesOf, writeSort, type Column } from '../jobs/filter';
import { JobTable } from '../jobs/table';
import { Live, useLive } from '../live/live';
import { me } from '../live/store';
import { query, setQuery } from '../router';
import { plural } from '../text/format';

const states = ['active', 'queued', 'running', 'suspended', 'ended', 'succeeded', 'failed', 'cancelled', 'all'];

interface Loaded {
  jobs: Job[];
  more: boolean;
}

async function load(state: string, owner: string, queue: string, most: number): Promise<Loaded> {
  const jobs: Job[] = [];
  let after: number | undefined;
  do {
    const page = await get('/v1/jobs', {
      query: { state: statesOf(state), owner, queue, order: 'newest', after, limit: Math.min(1000, most - jobs.length) },
    });
    jobs.push(...page.items);
    after = page.next ?? undefined;
  } while (after !== undefined && jobs.length < most);
  return { jobs, more: after !== undefined };
}

export function JobsPage() {
  const filter = readFilter(query.value);
  const [most, setMost] = useState(1000);
  const who = useLive(me);
  const live = useMemo(
    () => new Live(() => load(filter.state, filter.owner, filter.queue, most), { on: (event) => event.kind === 'job', every: 15_000 }),
    [filter.state, filter.owner, filter.queue, most],
  );
  const loaded = useLive(live);
  const shown = useMemo(
    () => sorted((loaded?.jobs ?? []).filter((job) => matches(job, filter.search)), filter.sort),
    [loaded, filter.search, filter.sort.column, filter.sort.down],
  );
  useEffect(() => setMost(1000), [filter.state, filter.owner, filter.queue]);
  const onSort = (column: Column) =>
    setQuery({ sort: writeSort({ column, down: filter.sort.column === column ? !filter.sort.down : column === 'id' || column === 'submitted' }) });
  const mine = who !== undefined && filter.owner === who.name;
  return (
    <div class="page">
      <header class="head">
        <h1>Jobs</h1>
        <span class="quiet" role="status">{loaded ? `${plural(shown.length, 'job')}${loaded.more ? ', and more' : ''}` : ''}</span>
        <a class="button primary push" href="/submit">Submit a job</a>
      </header>
      <div class="bar">
        <select aria-label="State" value={filter.state} onChange={(event) => setQuery({ state: event.currentTarget.value === 'active' ? '' : event.currentTarget.value })}>
          {states.map((state) => <option key={state} value={state}>{state === 'active' ? 'not ended' : state}</option>)}
        </select>
        <label class="check">
          <input type="checkbox" checked={mine} onChange={() => setQuery({ owner: mine ? '' : (who?.name ?? '') })} /> Mine
        </label>
        <input aria-label="Owner" class="short" placeholder="Owner" value={filter.owner} onChange={(event) => setQuery({ owner: event.currentTarget.value.trim() })} />
        <input aria-label="Queue" class="short" placeholder="Queue" value={filter.queue} onChange={(event) => setQuery({ queue: event.currentTarget.value.trim() })} />
        <input type="search" aria-label="Search jobs" placeholder="Name, command, label, number" value={filter.search}
          onInput={(event) => setQuery({ search: event.currentTarget.value })} />
      </div>
      <Problem text={live.error.value} />
      {!loaded && live.error.value === '' && <Loading what="Asking for jobs …" />}
      {loaded && shown.length === 0 && (
        <Empty title={loaded.jobs.length === 0 && filter.state === 'active' && filter.owner === '' ? 'Nothing waits and nothing runs.' : 'No job is like that.'}>
          <p><a href="/jobs?state=all">All jobs</a> · <a href="/submit">Submit one</a></p>
        </Empty>
      )}
      {shown.length > 0 && <JobTable jobs={shown} sort={filter.sort} onSort={onSort} />}
      {loaded?.more && <p class="center"><button type="button" onClick={() => setMost(most + 4000)}>Load more</button></p>}
    </div>
  );
}
