// One job: how it stands, why it waits, what it uses, what it writes, what happened to it.
import { useEffect, useMemo } from 'preact/hooks';
import { get } from '../api/client';
import { isEnded, type Job } from '../api/types';
import { colourOf } from '../colour';
import { lazy } from '../components/lazy';
import { Code, Fact, Loading, Owner, Problem, State, Time } from '../components/parts';
import { JobActions, mayChange, TerminalLink } from '../jobs/actions';
import { submitCommand } from '../jobs/command';
import { asWritten } from '../jobs/spec';
import { LogView } from '../jobs/log_view';
import { ran } from '../jobs/table';
import { Timeline } from '../jobs/timeline';
import { together } from '../jobs/use_series';
import { WaitView } from '../jobs/wait_view';
import { Resize } from '../fleet/resize';
import { Live, useLive } from '../live/live';
import { me, now, stats } from '../live/store';
import { hasMembers } from '../terminal/open_terminals';
import { bytes, duration, gpuHours, gpuShare, percent, share } from '../text/format';
import { yaml } from '../text/yaml';

const Chart = lazy(async () => (await import('../jobs/chart')).Chart);

export function JobPage(props: { id: number }) {
  const live = useMemo(
    () => new Live(() => get('/v1/jobs/{id}', { of: props.id }), {
      on: (event) => event.kind !== 'job' || event.job === props.id, every: 10_000,
    }),
    [props.id],
  );
  const job = useLive(live);
  useLive(me);
  useEffect(() => {
    if (job) document.title = `${job.name === '' ? `Job ${job.id}` : job.name} – Divvy`;
  }, [job]);
  if (!job) {
    return live.error.value === '' ? <Loading what={`Asking for job ${props.id} …`} /> : <div><Problem text={live.error.value} /><a href="/jobs">To the jobs</a></div>;
  }
  const time = ran(job, now.value);
  const inside = job.spec !== undefined;
  return (
    <div class="page job">
      <header class="head">
        <div>
          <p class="crumbs"><a href="/jobs">Jobs</a> / {job.id}</p>
          <h1>{job.name === '' ? `Job ${job.id}` : job.name} <State of={job.state} {...(job.stopping ? { title: job.stopping } : {})} /></h1>
        </div>
        <dl class="facts">
          <Fact name="Owner"><Owner name={job.owner} /></Fact>
          <Fact name="Queue"><a href={`/jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</a></Fact>
          <Fact name="GPU">{gpuShare(job.members, job.shareThousandths, job.gpuMemoryBytes)}</Fact>
          <Fact name="Submitted"><Time at={job.submittedUnixMilliseconds} /></Fact>
          {job.startedUnixMilliseconds !== null && <Fact name={isEnded(job) ? 'Ran' : 'Runs for'}>{duration(time ?? 0)}</Fact>}
          {job.priority !== 0 && <Fact name="Priority">{job.priority}</Fact>}
          {job.attempt > 1 && <Fact name="Attempt">{job.attempt}</Fact>}
        </dl>
      </header>
      <JobActions job={job} onChanged={() => void live.refresh()} />
      <Problem text={live.error.value} />
      {job.idleLeftSeconds !== null && job.idleLeftSeconds !== undefined && (
        <p class="problem">It holds a GPU and does not use it: it is ended in {duration(job.idleLeftSeconds * 1000)}.</p>
      )}
      {(job.state === 'queued' || job.state === 'suspended') && <WaitView job={job} />}
      {job.attempt > 0 && <UseView job={job} />}
      {inside && job.attempt > 0 && <LogView job={job} />}
      {!inside && <p class="card quiet">Its command, output and history are for {job.owner} and admins.</p>}
      <Holding job={job} />
      {job.running.length > 0 && <Members job={job} />}
      <Timeline job={job} />
      {inside && mayChange(job) && job.spec && (
        <section class="card" aria-label="As it was submitted">
          <h2>As it was submitted</h2>
          <h3>Command</h3>
          <Code text={submitCommand(asWritten(job.spec))} label="Command" />
          <h3>Job file</h3>
          <Code text={yaml(asWritten(job.spec))} label="Job file" />
        </section>
      )}
    </div>
  );
}

function UseView(props: { job: Job }) {
  const { job } = props;
  const live = useMemo(
    () => new Live(() => get('/v1/jobs/{id}/use', { of: job.id }), isEnded(job) ? {} : { every: 5000 }),
    [job.id, isEnded(job)],
  );
  const use = useLive(live);
  const machine = useLive(stats);
  const series = useMemo(() => together(use?.items ?? []), [use]);
  const guaranteed = job.running.reduce((sum, member) => sum + member.slices.reduce((s, slice) => s + slice.shareThousandths, 0), 0) / 1000;
  const capped = job.running.some((member) => member.slices.some((slice) => slice.capped));
  const limit = Math.max(0, ...job.running.flatMap((member) => member.slices.map((slice) => slice.memoryLimitBytes)));
  const tenants = (machine?.tenants ?? []).filter((one) => one.job === job.id && one.attempt === job.attempt);
  const usedNow = tenants.reduce((sum, one) => sum + one.slices.reduce((s, slice) => s + (slice.usedShareThousandths ?? 0), 0), 0) / 1000;
  const accounting = job.accounting;
  const flat = (value: number) => series.times.map(() => value);
  const colour = colourOf(job.owner);
  return (
    <section class="card" aria-label="What it uses">
      <h2>What it uses</h2>
      <dl class="facts">
        {tenants.length > 0 && <Fact name="Now">{percent(usedNow)} <small>of a GPU; {share(Math.round(guaranteed * 1000))} {capped ? 'at most' : 'guaranteed'}</small></Fact>}
        {accounting && (
          <>
            <Fact name="Held">{gpuHours(accounting.gpuHeldMilliseconds)} <small>GPU hours</small></Fact>
            <Fact name="Used">{accounting.gpuHeldMilliseconds > 0 ? percent(accounting.gpuUsedMilliseconds / accounting.gpuHeldMilliseconds) : '–'} <small>of what it held</small></Fact>
            {accounting.gpuMemoryPeakBytes != null && <Fact name="Most GPU memory">{bytes(accounting.gpuMemoryPeakBytes)}</Fact>}
            {accounting.cpuMilliseconds != null && <Fact name="CPU time">{duration(accounting.cpuMilliseconds)}</Fact>}
            {accounting.waitedMilliseconds != null && <Fact name="Waited">{duration(accounting.waitedMilliseconds)}</Fact>}
          </>
        )}
      </dl>
      {series.times.length > 1 ? (
        <div class="charts">
          <Chart title="GPU time" times={series.times} top={Math.max(1, guaranteed)} unit={(value) => `${Number(value.toFixed(2))} GPU`}
            lines={[
              { label: 'used', colour, values: series.used },
              { label: capped ? 'limit' : 'guaranteed', colour: '', dashed: true, values: flat(guaranteed) },
            ]} />
          <Chart title="Memory, of the GPU where it is the most" times={series.times} top={limit} unit={(value) => (value === 0 ? '0' : bytes(value))}
            lines={[
              { label: 'used', colour, values: series.memory },
              { label: 'limit', colour: '', dashed: true, values: flat(limit) },
            ]} />
        </div>
      ) : (
        !isEnded(job) && <p class="quiet">Measured every five seconds; a chart comes with the second value.</p>
      )}
    </section>
  );
}

/** What was started or is held by hand, with edges that its owner may pull. */
function Holding(props: { job: Job }) {
  const { job } = props;
  const machine = useLive(stats);
  if (job.state !== 'running' || !mayChange(job) || hasMembers(job)) return null;
  const tenant = machine?.tenants.find((one) => one.job === job.id);
  if (!machine || !tenant) return null;
  const used = tenant.slices.every((one) => one.usedShareThousandths === null) ? null : Math.max(...tenant.slices.map((one) => one.usedShareThousandths ?? 0));
  return (
    <section class="card" aria-label="What it holds">
      <h2>What it holds</h2>
      <Resize tenant={tenant} owner={job.owner} machine={machine} used={used} memoryUsed={Math.max(0, ...tenant.slices.map((one) => one.memoryUsedBytes))} />
    </section>
  );
}

function Members(props: { job: Job }) {
  const { job } = props;
  const machine = useLive(stats);
  const inside = mayChange(job) && hasMembers(job);
  const gpus = new Map((machine?.gpus ?? []).map((gpu) => [gpu.uuid, gpu]));
  return (
    <section class="card" aria-label="Members">
      <h2>Members</h2>
      <div class="table" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead><tr><th scope="col" class="number">Rank</th><th scope="col">Node</th><th scope="col">GPUs</th><th scope="col">Share</th><th scope="col">Memory</th><th scope="col">Ended</th>{inside && <th scope="col">Inside</th>}</tr></thead>
          <tbody>
            {job.running.slice(0, 256).map((member) => (
              <tr key={member.rank}>
                <td class="number">{member.rank}</td>
                <td>{member.node}</td>
                <td>{member.slices.map((slice) => <a key={slice.gpu} class="spaced" href={`/?gpu=${slice.gpu}`}>GPU {gpus.get(slice.gpu)?.index ?? slice.gpu.slice(0, 12)}</a>)}</td>
                <td>{share(member.slices.reduce((sum, slice) => sum + slice.shareThousandths, 0))}{member.slices.some((slice) => slice.capped) ? ' at most' : ''}</td>
                <td>{bytes(Math.max(0, ...member.slices.map((slice) => slice.memoryLimitBytes)))}</td>
                <td class="wrap">{member.end ? <>{member.end.reason} <small><Time at={member.end.unixMilliseconds} /></small></> : ''}</td>
                {inside && <td>{!member.end && <TerminalLink job={job} rank={member.rank} />}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {job.running.length > 256 && <p class="quiet">and {job.running.length - 256} more</p>}
    </section>
  );
}
