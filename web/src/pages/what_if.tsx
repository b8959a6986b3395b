// What would become of those who wait: the daemon simulates its own queue on a copy, as it is and
// with what is typed here. Nothing is changed.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, post } from '../api/client';
import type { WhatIf } from '../api/types';
import { Field, Loading, Owner, Problem } from '../components/parts';
import { Chart } from '../jobs/chart';
import { difference, noWishes, requestOf, startText, waitText, type QueueWish } from '../jobs/what_if_model';
import { Live, useLive } from '../live/live';
import { stats } from '../live/store';
import { percent, plural } from '../text/format';

const queues = new Live(async () => (await get('/v1/queues')).items, { on: () => true, every: 10_000 });

export function WhatIfPage() {
  const [wishes, setWishes] = useState(noWishes);
  const [answer, setAnswer] = useState<WhatIf>();
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const all = useLive(queues);
  const machine = useLive(stats);
  const nodes = useMemo(() => [...new Set((machine?.gpus ?? []).map((gpu) => gpu.node ?? machine?.hostname ?? ''))].filter(Boolean), [machine?.gpus.length]);
  const set = (part: Partial<typeof wishes>) => setWishes({ ...wishes, ...part });
  const setQueue = (path: string, part: Partial<QueueWish>) =>
    set({ queues: { ...wishes.queues, [path]: { ...(wishes.queues[path] ?? { gpu: '', weight: '' }), ...part } } });

  const simulate = async () => {
    const made = requestOf(wishes);
    if ('problem' in made) {
      setProblem(made.problem);
      return;
    }
    setBusy(true);
    setProblem('');
    try {
      setAnswer(await post('/v1/what-if', made.request));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  useEffect(() => void simulate(), []);

  return (
    <div class="page">
      <header class="head"><h1>What if</h1></header>
      <p class="quiet">The daemon plays its own queue forward on a copy, as it is and with what you change here. Nothing is changed by that.</p>
      <form class="card" onSubmit={(event) => {
        event.preventDefault();
        void simulate();
      }}>
        <div class="fields">
          <Field label="More nodes"><input type="number" min={0} max={256} value={wishes.nodes} placeholder="0" onInput={(event) => set({ nodes: event.currentTarget.value })} /></Field>
          <Field label="GPUs of each" hint="empty: as many as it is like"><input type="number" min={1} max={16} value={wishes.gpus} onInput={(event) => set({ gpus: event.currentTarget.value })} /></Field>
          <Field label="Like">
            <select value={wishes.like} onChange={(event) => set({ like: event.currentTarget.value })}>
              <option value="">the first node</option>
              {nodes.map((node) => <option key={node} value={node}>{node}</option>)}
            </select>
          </Field>
          <Field label="Without" hint="nodes, or GPUs as node/3"><input value={wishes.without} placeholder={nodes[0] === undefined ? '' : `${nodes[0]}/0`} onInput={(event) => set({ without: event.currentTarget.value })} /></Field>
          <Field label="Placement">
            <select value={wishes.policy} onChange={(event) => set({ policy: event.currentTarget.value })}>
              <option value="">as it is{answer ? `: ${answer.policy}` : ''}</option>
              {(answer?.policies ?? []).map((policy) => <option key={policy} value={policy}>{policy}</option>)}
            </select>
          </Field>
          <Field label="Preemption">
            <select value={wishes.preemption} onChange={(event) => set({ preemption: event.currentTarget.value as typeof wishes.preemption })}>
              <option value="">as it is</option>
              <option value="on">on</option>
              <option value="off">off</option>
            </select>
          </Field>
        </div>
        {all && all.length > 0 && (
          <div class="table gap" tabIndex={0} role="group" aria-label="Queues">
            <table>
              <thead><tr><th scope="col">Queue</th><th scope="col">Promised GPUs</th><th scope="col">Weight</th></tr></thead>
              <tbody>
                {all.slice(0, 30).map((queue) => (
                  <tr key={queue.path}>
                    <td>{queue.path}</td>
                    <td><input class="short" inputMode="decimal" aria-label={`Promised GPUs of ${queue.path}`} placeholder={queue.quota.gpu ?? 'none'} value={wishes.queues[queue.path]?.gpu ?? ''}
                      onInput={(event) => setQueue(queue.path, { gpu: event.currentTarget.value })} /></td>
                    <td><input class="short" inputMode="numeric" aria-label={`Weight of ${queue.path}`} placeholder={String(queue.weight)} value={wishes.queues[queue.path]?.weight ?? ''}
                      onInput={(event) => setQueue(queue.path, { weight: event.currentTarget.value })} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <Problem text={problem} />
        <div class="buttons start gap">
          <button type="submit" class="primary" disabled={busy}>{busy ? 'Simulating …' : 'Simulate'}</button>
          <button type="button" disabled={busy} onClick={() => setWishes(noWishes)}>As it is</button>
        </div>
      </form>
      {!answer && problem === '' && <Loading what="Simulating …" />}
      {answer && <Outcome of={answer} />}
    </div>
  );
}

function Outcome(props: { of: WhatIf }) {
  const { asItIs: is, changed: would, periodSeconds, atUnixMilliseconds: at } = props.of;
  const rows: [string, string, string][] = [
    ['GPUs that take work', String(is.gpus), String(would.gpus)],
    ['Jobs that wait now', String(is.waits.waiting), String(would.waits.waiting)],
    ['of those, not started by the end', String(is.waits.notStarted), String(would.waits.notStarted)],
    ['Wait, half of them at most', waitText(is.waits.medianSeconds), waitText(would.waits.medianSeconds)],
    ['Wait, nine of ten at most', waitText(is.waits.nineOfTenSeconds), waitText(would.waits.nineOfTenSeconds)],
    ['Longest wait', waitText(is.waits.longestSeconds), waitText(would.waits.longestSeconds)],
    ['Average of those that start', waitText(is.waits.averageSeconds), waitText(would.waits.averageSeconds)],
    [`GPUs allocated over ${waitText(periodSeconds)}`, percent(is.allocation), percent(would.allocation)],
    ['Restarts of jobs that make way', String(is.restarts), String(would.restarts)],
  ];
  const times = useMemo(() => is.allocated.map((_, i) => at / 1000 + ((i + 0.5) * periodSeconds) / is.allocated.length), [props.of]);
  const lines = useMemo(() => [
    { label: 'As it is', colour: '', values: is.allocated },
    { label: 'With the changes', colour: '#2f7ed8', values: would.allocated },
  ], [props.of]);
  const cut = [is, would].some((one) => one.end === 'out-of-time');
  return (
    <>
      <section class="card">
        <h2>{is.gpus} GPUs as it is, {would.gpus} with the changes</h2>
        {cut && <p class="warn" role="status">There was no time to look further than {waitText(Math.min(is.reachedSeconds, would.reachedSeconds))}; what comes later is not in here.</p>}
        <div class="table" tabIndex={0} role="group" aria-label="Comparison">
          <table>
            <thead><tr><th scope="col">From now on</th><th scope="col" class="number">As it is</th><th scope="col" class="number">With the changes</th></tr></thead>
            <tbody>
              {rows.map(([name, before, after]) => (
                <tr key={name}><th scope="row">{name}</th><td class="number">{before}</td><td class="number">{before === after ? after : <strong>{after}</strong>}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
        <Chart title="GPUs that are held" times={times} lines={lines} unit={(value) => `${Number(value.toFixed(2))} GPU`} top={Math.max(is.gpus, would.gpus)} />
      </section>
      <section class="card">
        <h2>{props.of.jobs.length === 0 ? 'Nobody waits' : plural(props.of.jobs.length, 'job waits', 'jobs wait')}</h2>
        {props.of.jobs.length > 0 && <Starts of={props.of} />}
      </section>
      <section class="card">
        <h2>What this assumes</h2>
        <ul>{props.of.assumptions.map((text) => <li key={text}>{text}</li>)}</ul>
      </section>
    </>
  );
}

function Starts(props: { of: WhatIf }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Starts">
      <table>
        <thead><tr><th scope="col">Job</th><th scope="col">Owner</th><th scope="col">Queue</th><th scope="col" class="number">Assumed length</th><th scope="col" class="number">Starts</th><th scope="col" class="number">Would start</th><th scope="col">Difference</th></tr></thead>
        <tbody>
          {props.of.jobs.slice(0, 200).map((job) => {
            const other = difference(job.startsInSeconds, job.wouldStartInSeconds);
            return (
              <tr key={job.id}>
                <td><a href={`/jobs/${job.id}`}>{job.name} <small>#{job.id}</small></a></td>
                <td><Owner name={job.owner} /></td>
                <td>{job.queue}</td>
                <td class="number nowrap">{job.lengthSeconds === null ? 'no end' : waitText(job.lengthSeconds)} <small>{job.lengthFrom}</small></td>
                <td class="number nowrap">{startText(job.startsInSeconds)}</td>
                <td class="number nowrap">{startText(job.wouldStartInSeconds)}</td>
                <td class={other === undefined ? 'quiet' : other.good ? 'good' : 'bad'}>{other?.text ?? 'none'}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {props.of.jobs.length > 200 && <p class="quiet">and {props.of.jobs.length - 200} more</p>}
    </div>
  );
}
