// A table of jobs. Only the rows that are seen are in the page, so that thousands scroll as one.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Job } from '../api/types';
import { Owner, State, Time } from '../components/parts';
import { now } from '../live/store';
import { duration, gpuShare } from '../text/format';
import type { Column, Sort } from './filter';

const rowHeight = 41;
const margin = 12;

const columns: { name: Column; label: string; number?: boolean }[] = [
  { name: 'id', label: '#', number: true },
  { name: 'name', label: 'Name' },
  { name: 'owner', label: 'Owner' },
  { name: 'queue', label: 'Queue' },
  { name: 'state', label: 'State' },
  { name: 'gpu', label: 'GPU' },
  { name: 'submitted', label: 'Submitted' },
  { name: 'time', label: 'Ran', number: true },
];

export function ran(job: Job, at: number): number | undefined {
  if (job.startedUnixMilliseconds === null) return undefined;
  return (job.endedUnixMilliseconds ?? at) - job.startedUnixMilliseconds;
}

export function JobTable(props: { jobs: readonly Job[]; sort: Sort; onSort: (column: Column) => void }) {
  const frame = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ from: 0, to: 60 });
  const look = () => {
    const element = frame.current;
    if (!element) return;
    const top = -element.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor(top / rowHeight) - margin);
    const to = Math.ceil((top + innerHeight) / rowHeight) + margin;
    if (from !== range.from || to !== range.to) setRange({ from, to });
  };
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    const onScroll = () => latest.current();
    addEventListener('scroll', onScroll, { passive: true });
    addEventListener('resize', onScroll);
    onScroll();
    return () => {
      removeEventListener('scroll', onScroll);
      removeEventListener('resize', onScroll);
    };
  }, []);
  useEffect(look);
  const from = Math.min(range.from, props.jobs.length);
  const to = Math.min(range.to, props.jobs.length);
  return (
    <div class="table card flush" ref={frame} tabIndex={0} role="group" aria-label="Jobs">
      <table aria-rowcount={props.jobs.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.number ? 'number' : ''}
                aria-sort={props.sort.column !== column.name ? 'none' : props.sort.down ? 'descending' : 'ascending'}>
                <button type="button" onClick={() => props.onSort(column.name)}>
                  {column.label}
                  {props.sort.column === column.name ? (props.sort.down ? ' ↓' : ' ↑') : ''}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {from > 0 && <tr aria-hidden="true"><td colSpan={columns.length} class="filler" style={{ height: `${from * rowHeight}px` }} /></tr>}
          {props.jobs.slice(from, to).map((job) => (
            <tr key={job.id} aria-rowindex={props.jobs.indexOf(job) + 2}>
              <td class="number quiet">{job.id}</td>
              <td><a class="job-name" href={`/jobs/${job.id}`}>{job.name === '' ? `job ${job.id}` : job.name}</a>
                {job.arrayIndex !== null && <small> [{job.arrayIndex}]</small>}</td>
              <td><Owner name={job.owner} /></td>
              <td class="quiet">{job.queue}</td>
              <td><State of={job.state} {...(job.stopping ? { title: job.stopping } : {})} /></td>
              <td class="nowrap">{gpuShare(job.members, job.shareThousandths, job.gpuMemoryBytes)}</td>
              <td class="nowrap"><Time at={job.submittedUnixMilliseconds} /></td>
              <td class="number nowrap">{length(ran(job, now.value))}</td>
            </tr>
          ))}
          {to < props.jobs.length && <tr aria-hidden="true"><td colSpan={columns.length} class="filler" style={{ height: `${(props.jobs.length - to) * rowHeight}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

function length(milliseconds: number | undefined): string {
  return milliseconds === undefined ? '–' : duration(milliseconds);
}
