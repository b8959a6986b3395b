// What people work in and what answers requests: sessions of `divvy session`, with the time that each
// has, and services of `divvy serve`, with their versions and replicas.
import { useState } from 'preact/hooks';
import { get, patch, post, remove, Refusal } from '../api/client';
import type { Service } from '../api/types';
import { Code, Confirm, Copy, Empty, Fact, Loading, Meter, Owner, Problem, State, Time } from '../components/parts';
import { toast } from '../components/toast';
import { mayChange, TerminalLink } from '../jobs/actions';
import { Live, useLive } from '../live/live';
import { activeJobs, isAdmin, me, now } from '../live/store';
import { addressOf, extended, mayRollBack, replicasText, scaleProblem, sessionsOf, splitOf, type AppSession } from '../services/model';
import { hasMembers } from '../terminal/open_terminals';
import { duration, gpuShare } from '../text/format';

// A daemon that keeps no services says so, which is no error of the page.
const services = new Live<Service[] | 'none'>(async () => {
  try {
    return (await get('/v1/services')).items;
  } catch (error) {
    if (error instanceof Refusal && error.status === 501) return 'none';
    throw error;
  }
}, { on: () => true, every: 2000 });

export function ServicesPage() {
  const jobs = useLive(activeJobs);
  const all = useLive(services);
  useLive(me);
  const sessions = sessionsOf(jobs ?? [], now.value);
  return (
    <div class="page services">
      <header class="head"><h1>Sessions and services</h1></header>
      <section class="card" aria-label="Sessions">
        <h2>Sessions</h2>
        <Problem text={activeJobs.error.value} />
        {!jobs && activeJobs.error.value === '' && <Loading what="Asking for sessions …" />}
        {jobs && sessions.length === 0 && <p class="quiet">{isAdmin.value ? 'There is no session.' : 'You have no session.'}</p>}
        {sessions.length > 0 && <Sessions sessions={sessions} />}
        <p class="quiet">A notebook, an editor or a shell on a part of a GPU. One begins on your own machine, which it is reached from:</p>
        <Code text="divvy session start --app jupyter --gpu 0.3" label="Command that starts a session" />
      </section>
      <Problem text={services.error.value} />
      {!all && services.error.value === '' && <Loading what="Asking for services …" />}
      {all === 'none' && <Empty title="This daemon keeps no services." />}
      {Array.isArray(all) && all.length === 0 && (
        <section class="card" aria-label="Services">
          <h2>Services</h2>
          <p class="quiet">There is none. A service is a command that is kept running as several replicas behind one port:</p>
          <Code text="divvy serve chat --replicas 1..3 --gpu 0.2 --port 8000 --ready /health -- ./server" label="Command that makes a service" />
        </section>
      )}
      {Array.isArray(all) && all.map((service) => <ServiceView key={service.name} service={service} />)}
    </div>
  );
}

function Sessions(props: { sessions: readonly AppSession[] }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead><tr><th scope="col">Session</th><th scope="col">App</th><th scope="col">Owner</th><th scope="col">State</th><th scope="col">GPU</th><th scope="col">Time left</th><th scope="col">Open</th><th scope="col">Change</th></tr></thead>
        <tbody>{props.sessions.map((one) => <SessionRow key={one.job.id} session={one} />)}</tbody>
      </table>
    </div>
  );
}

const hours: [string, number][] = [['1 hour', 3600], ['4 hours', 14_400], ['12 hours', 43_200], ['1 day', 86_400]];

function SessionRow(props: { session: AppSession }) {
  const { job, app, secondsLeft, limit } = props.session;
  const [asking, setAsking] = useState<'stop' | 'extend'>();
  const [by, setBy] = useState(14_400);
  const name = job.name === '' ? `session ${job.id}` : job.name;
  const close = () => setAsking(undefined);
  const done = async (text: string) => {
    toast(text);
    await activeJobs.refresh();
  };
  const isIdle = job.idleLeftSeconds !== null && job.idleLeftSeconds !== undefined;
  return (
    <tr>
      <td><a href={`/jobs/${job.id}`}>{name} <small>#{job.id}</small></a></td>
      <td>{app}</td>
      <td><Owner name={job.owner} /></td>
      <td><State of={job.state} /></td>
      <td class="nowrap">{gpuShare(job.members, job.shareThousandths, job.gpuMemoryBytes)}</td>
      <td class="nowrap">
        {secondsLeft !== undefined ? duration(secondsLeft * 1000) : limit === undefined ? 'no limit' : '–'}
        {isIdle && <small class="warn"> idle: ends in {duration((job.idleLeftSeconds ?? 0) * 1000)}</small>}
      </td>
      <td class="nowrap">
        {job.state === 'running' && mayChange(job) && hasMembers(job) ? (
          <><Copy text={`divvy session open ${job.id}`} label="Copy command" /> <TerminalLink job={job} rank={job.running[0]?.rank ?? 0} /></>
        ) : '–'}
      </td>
      <td class="nowrap">
        {mayChange(job) && (
          <>
            {limit !== undefined && <button type="button" class="small" onClick={() => setAsking('extend')}>Extend …</button>}{' '}
            <button type="button" class="small danger" disabled={job.state === 'stopping'} onClick={() => setAsking('stop')}>Stop …</button>
          </>
        )}
        {asking === 'stop' && (
          <Confirm title={`Stop ${name}?`} danger text="What runs in it ends; what is not saved is lost. Its output stays." action="Stop" onClose={close} onDo={async () => {
            await remove('/v1/jobs/{id}', { of: job.id });
            await done(`${name} ends`);
          }} />
        )}
        {asking === 'extend' && (
          <Confirm title={`Give ${name} more time`} action="Extend" onClose={close} text={
            <label class="field">So much longer
              <select value={by} onChange={(event) => setBy(Number(event.currentTarget.value))}>
                {hours.map(([label, seconds]) => <option key={seconds} value={seconds}>{label}</option>)}
              </select>
            </label>
          } onDo={async () => {
            await patch('/v1/jobs/{id}', extended(props.session, by), { of: job.id });
            await done(`${name} has ${duration(by * 1000)} more`);
          }} />
        )}
      </td>
    </tr>
  );
}

const look: Record<string, string> = { ready: 'good', starting: 'wait', updating: 'go', asleep: 'rest', deleting: 'warn', waiting: 'wait', draining: 'warn', stopping: 'warn', stable: 'good', candidate: 'go', rejected: 'bad', replaced: 'rest' };
const Badge = (props: { of: string }) => <span class={`state ${look[props.of] ?? 'rest'}`}>{props.of}</span>;

function ServiceView(props: { service: Service }) {
  const { service } = props;
  const where = addressOf(service, location.hostname);
  const may = isAdmin.value || me.data.value?.name === service.owner;
  const last = service.history?.at(-1);
  const parts = splitOf(service);
  return (
    <section class="card" aria-label={`Service ${service.name}`}>
      <h2>{service.name} <Badge of={service.state} /></h2>
      {service.trouble !== '' && <p class="problem">{service.trouble}</p>}
      <dl class="facts">
        <Fact name="Owner"><Owner name={service.owner} /></Fact>
        <Fact name="Address">{where.href === undefined ? where.text : <a href={where.href} target="_blank" rel="noreferrer noopener">{where.text}</a>}</Fact>
        <Fact name="Ready">{service.readyReplicas} <small>of {service.desiredReplicas}; {replicasText(service.scale)}</small></Fact>
        <Fact name="In flight" title="Requests that are worked on or wait">{service.inFlight}</Fact>
        <Fact name="Made"><Time at={service.madeUnixMilliseconds} /></Fact>
      </dl>
      {may && <ServiceActions service={service} />}
      <h3>Requests go to</h3>
      <ul class="split">
        {parts.map((one) => (
          <li key={one.version}>
            <span>version {one.version} <Badge of={one.state} /></span>
            <Meter part={one.weight / 100} label={`${one.weight} % of the requests go to version ${one.version}`} />
            <span><strong>{one.weight} %</strong> <small>{one.ready} of {one.replicas} replicas ready</small></span>
          </li>
        ))}
      </ul>
      {service.replicas.length > 0 && <Replicas service={service} />}
      {service.versions.length > 1 && <Versions service={service} />}
      {last && <p class="quiet"><Time at={last.unixMilliseconds} />: {last.text}</p>}
    </section>
  );
}

function Replicas(props: { service: Service }) {
  return (
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead><tr><th scope="col">Replica</th><th scope="col" class="number">Version</th><th scope="col">State</th><th scope="col" class="number">In flight</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Errors</th></tr></thead>
        <tbody>
          {props.service.replicas.map((one) => (
            <tr key={one.job}>
              <td><a href={`/jobs/${one.job}`}>job {one.job}</a></td>
              <td class="number">{one.version}</td>
              <td><Badge of={one.state} /></td>
              <td class="number">{one.inFlight}</td>
              <td class="number">{one.requests.toLocaleString('en')}</td>
              <td class="number">{one.errors === 0 ? '0' : <span class="bad">{one.errors.toLocaleString('en')}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Versions(props: { service: Service }) {
  return (
    <details>
      <summary>{props.service.versions.length} versions</summary>
      <div class="table" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead><tr><th scope="col" class="number">Version</th><th scope="col">State</th><th scope="col">Made</th><th scope="col">Command</th><th scope="col">Taken back because</th></tr></thead>
          <tbody>
            {[...props.service.versions].reverse().map((one) => (
              <tr key={one.number}>
                <td class="number">{one.number}</td>
                <td><Badge of={one.state} /></td>
                <td class="nowrap"><Time at={one.madeUnixMilliseconds} /></td>
                <td class="wrap mono">{[one.spec?.container?.image ?? '', ...(one.spec?.command ?? [])].filter(Boolean).join(' ')}</td>
                <td class="wrap">{one.rejected}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function ServiceActions(props: { service: Service }) {
  const { service } = props;
  const of = service.name;
  const [asking, setAsking] = useState<'scale' | 'promote' | 'back' | 'delete'>();
  const [least, setLeast] = useState('');
  const [most, setMost] = useState('');
  const [weight, setWeight] = useState('100');
  const close = () => setAsking(undefined);
  const done = async (text: string) => {
    toast(text);
    await services.refresh();
  };
  const candidate = service.candidate;
  const earlier = service.versions.filter((one) => one.number < service.stable && one.state === 'replaced').at(-1);
  return (
    <div class="buttons start">
      <button type="button" disabled={service.state === 'deleting'} onClick={() => {
        setLeast(String(service.scale.least));
        setMost(String(service.scale.most));
        setAsking('scale');
      }}>Scale …</button>
      {candidate && candidate.weight < 100 && <button type="button" onClick={() => setAsking('promote')}>Promote …</button>}
      {mayRollBack(service) && <button type="button" onClick={() => setAsking('back')}>Roll back …</button>}
      <button type="button" class="danger" disabled={service.state === 'deleting'} onClick={() => setAsking('delete')}>Delete …</button>
      {asking === 'scale' && (
        <Confirm title={`Scale ${of}`} action="Scale" onClose={close} text={
          <>
            <div class="fields">
              <label class="field">Replicas, at least
                <input inputMode="numeric" value={least} onInput={(event) => setLeast(event.currentTarget.value.trim())} />
              </label>
              <label class="field">At most
                <input inputMode="numeric" value={most} onInput={(event) => setMost(event.currentTarget.value.trim())} />
              </label>
            </div>
            <p class="quiet">Between the two there are as many as the requests need; 0: none while nobody asks.</p>
          </>
        } onDo={async () => {
          const problem = scaleProblem(least, most);
          if (problem !== undefined) throw new Error(problem);
          await patch('/v1/services/{name}', { replicas: { least: Number(least), most: Number(most) } }, { of });
          await done(`${of} has ${replicasText({ ...service.scale, least: Number(least), most: Number(most) })}`);
        }} />
      )}
      {asking === 'promote' && candidate && (
        <Confirm title={`Give version ${candidate.version} more of the requests?`} action="Promote" onClose={close} text={
          <label class="field">Percent of the requests, now {candidate.weight}; 100: all, and version {service.stable} ends
            <input type="number" min={1} max={100} value={weight} onInput={(event) => setWeight(event.currentTarget.value)} />
          </label>
        } onDo={async () => {
          const share = Number(weight);
          if (!Number.isInteger(share) || share < 1 || share > 100) throw new Error('Percent: a number from 1 to 100.');
          await post('/v1/services/{name}/promote', { weight: share }, { of });
          await done(`version ${candidate.version} of ${of} gets ${share} %`);
        }} />
      )}
      {asking === 'back' && (
        <Confirm title={`Roll ${of} back?`} danger action="Roll back" onClose={close}
          text={candidate ? `All requests go to version ${service.stable} again, and version ${candidate.version} ends.`
            : `Version ${earlier?.number ?? ''} comes back, replica by replica, and version ${service.stable} ends.`}
          onDo={async () => {
            await post('/v1/services/{name}/rollback', candidate ? {} : { to: earlier?.number ?? null }, { of });
            await done(`${of} goes back`);
          }} />
      )}
      {asking === 'delete' && (
        <Confirm title={`Delete ${of}?`} danger action="Delete" onClose={close} text="It takes no new requests; its replicas end when they have answered. This cannot be taken back." onDo={async () => {
          await remove('/v1/services/{name}', { of });
          await done(`${of} ends`);
        }} />
      )}
    </div>
  );
}
