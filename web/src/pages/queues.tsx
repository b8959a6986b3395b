// Who waits for whom: queues with what is promised to them and what they hold, users with their
// quotas, and the line of jobs in the order in which they would start.
import { useMemo } from 'preact/hooks';
import { get } from '../api/client';
import type { Job, Queue } from '../api/types';
import { Empty, Loading, Meter, Owner, Problem, Time } from '../components/parts';
import { Live, useLive } from '../live/live';
import { activeJobs, stats } from '../live/store';
import { bytes, gpuShare, plural } from '../text/format';

const queues = new Live(async () => (await get('/v1/queues')).items, { on: () => true, every: 5000 });
const quotas = new Live(async () => (await get('/v1/quotas')).items, { on: () => true, every: 10_000 });

export function QueuesPage() {
  const all = useLive(queues);
  const users = useLive(quotas);
  const jobs = useLive(activeJobs);
  const machine = useLive(stats);
  const gpus = machine?.gpus.length ?? 0;
  const waiting = useMemo(() => (jobs ?? []).filter((job) => job.state === 'queued'), [jobs]);
  return (
    <div class="page">
      <header class="head"><h1>Queues</h1></header>
      <Problem text={queues.error.value} />
      {!all && queues.error.value === '' && <Loading what="Asking for queues …" />}
      {all && <QueueTable queues={all} gpus={gpus} />}
      <section class="card">
        <h2>{waiting.length === 0 ? 'Nobody waits' : plural(waiting.length, 'job waits', 'jobs wait')}</h2>
        {waiting.length === 0 ? <p class="quiet">What is submitted now starts at once where it fits.</p> : <Line jobs={waiting} />}
      </section>
      {users && users.length > 0 && (
        <section class="card">
          <h2>Users</h2>
          <div class="table" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead><tr><th scope="col">User</th><th scope="col" class="number">Holds</th><th scope="col" class="number">May have</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Jobs</th></tr></thead>
              <tbody>
                {users.map((user) => (
                  <tr key={user.user}>
                    <td><a href={`/jobs?owner=${encodeURIComponent(user.user)}`}><Owner name={user.user} /></a></td>
                    <td class="number">{user.held.gpu ?? '0'} GPU</td>
                    <td class="number">{user.most.gpu === null ? 'any' : `${user.most.gpu} GPU`}</td>
                    <td class="number">{bytes(user.held.memoryBytes ?? 0)}{user.most.memoryBytes === null ? '' : ` of ${bytes(user.most.memoryBytes)}`}</td>
                    <td class="number">{user.held.jobs ?? 0}{user.most.jobs === null ? '' : ` of ${user.most.jobs}`}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </div>
  );
}

function QueueTable(props: { queues: readonly Queue[]; gpus: number }) {
  const weights = props.queues.filter((queue) => !queue.path.includes('/')).reduce((sum, queue) => sum + queue.weight, 0);
  if (props.queues.length === 0) return <Empty title="There is no queue." />;
  return (
    <section class="card">
      <h2>What is promised, and what is held</h2>
      <div class="table" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead>
            <tr>
              <th scope="col">Queue</th><th scope="col">Holds</th><th scope="col" class="number">Promised</th>
              <th scope="col" class="number">Borrowed</th><th scope="col" class="number">Waiting</th>
              <th scope="col" class="number" title="What it has used, less of it the longer ago">Used lately</th>
              <th scope="col" class="number" title="The lower goes first">Score</th>
              <th scope="col" class="number" title="Of what nobody was promised, by the weights of the queues">Fair share</th>
            </tr>
          </thead>
          <tbody>
            {props.queues.map((queue) => {
              const held = Number(queue.held.gpu ?? 0);
              const promised = queue.quota.gpu === null ? undefined : Number(queue.quota.gpu);
              const fair = weights > 0 && !queue.path.includes('/') ? (props.gpus * queue.weight) / weights : undefined;
              return (
                <tr key={queue.path}>
                  <td><a href={`/jobs?queue=${encodeURIComponent(queue.path)}`}>{queue.path}</a></td>
                  <td class="grow">
                    <Meter part={props.gpus > 0 ? held / props.gpus : 0} {...(promised === undefined ? {} : { mark: promised / Math.max(1, props.gpus) })}
                      label={`${held} of ${props.gpus} GPUs${promised === undefined ? '' : `, ${promised} promised`}`} />
                    <small>{held} GPU in {plural(queue.held.jobs ?? 0, 'job')}</small>
                  </td>
                  <td class="number">{promised === undefined ? '–' : promised}</td>
                  <td class="number">{Number(queue.borrowedGpu) > 0 ? queue.borrowedGpu : '–'}{queue.mayBorrow ? '' : ' (may not)'}</td>
                  <td class="number">{queue.waiting}</td>
                  <td class="number">{queue.usedGpuHours.toFixed(2)} <small>GPU h</small></td>
                  <td class="number">{new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 }).format(queue.score)}</td>
                  <td class="number">{fair === undefined ? '' : fair.toFixed(2)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Line(props: { jobs: readonly Job[] }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead><tr><th scope="col">Job</th><th scope="col">Owner</th><th scope="col">Queue</th><th scope="col">Asks for</th><th scope="col" class="number">Priority</th><th scope="col">Waits since</th><th scope="col">Why</th></tr></thead>
        <tbody>
          {props.jobs.slice(0, 50).map((job) => (
            <tr key={job.id}>
              <td><a href={`/jobs/${job.id}`}>{job.name} <small>#{job.id}</small></a></td>
              <td><Owner name={job.owner} /></td>
              <td>{job.queue}</td>
              <td class="nowrap">{gpuShare(job.members, job.shareThousandths, job.gpuMemoryBytes)}</td>
              <td class="number">{job.priority}</td>
              <td class="nowrap"><Time at={job.submittedUnixMilliseconds} /></td>
              <td><Why job={job} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {props.jobs.length > 50 && <p class="quiet">and {props.jobs.length - 50} more: <a href="/jobs?state=queued">all that wait</a></p>}
    </div>
  );
}

// Asked for one by one, and only for those at the front: each is worked out.
function Why(props: { job: Job }) {
  const live = useMemo(() => new Live(() => get('/v1/jobs/{id}', { of: props.job.id }), { every: 15_000 }), [props.job.id]);
  const job = useLive(live);
  const waits = job?.waits;
  if (!waits) return <span class="quiet">{job ? '' : '…'}</span>;
  return <span class="wrap">{waits.text}{waits.startsUnixMilliseconds !== null && <small> · starts <Time at={waits.startsUnixMilliseconds} /></small>}</span>;
}
