// For who runs the machines: health and what happened to GPUs, people and their tokens, settings.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { get, patch, post, remove } from '../api/client';
import type { AuditEntry, GpuHealth, MachineEvent, Person, Token } from '../api/types';
import { Code, Confirm, Empty, Loading, Owner, Problem, State, Time } from '../components/parts';
import { toast } from '../components/toast';
import { Live, useLive } from '../live/live';
import { health, isAdmin, me } from '../live/store';
import { query, setQuery } from '../router';

const tabs = [['gpus', 'GPUs'], ['events', 'Health history'], ['people', 'People'], ['tokens', 'Tokens'], ['audit', 'Audit'], ['settings', 'Settings']] as const;

export function OperatorPage() {
  useLive(me);
  const tab = query.value.get('tab') ?? 'gpus';
  return (
    <div class="page">
      <header class="head"><h1>Operator</h1></header>
      <div class="bar">
        <div class="choices" role="group" aria-label="What">
          {tabs.filter(([name]) => isAdmin.value || (name !== 'people' && name !== 'settings')).map(([name, label]) => (
            <button type="button" key={name} aria-pressed={tab === name} onClick={() => setQuery({ tab: name === 'gpus' ? '' : name }, false)}>{label}</button>
          ))}
        </div>
      </div>
      {tab === 'gpus' && <Gpus />}
      {tab === 'events' && <Events />}
      {tab === 'people' && <People />}
      {tab === 'tokens' && <Tokens />}
      {tab === 'audit' && <Audit />}
      {tab === 'settings' && <Settings />}
    </div>
  );
}

function Table(props: { head: string[]; children: ComponentChildren }) {
  return (
    <section class="card"><div class="table" tabIndex={0} role="group" aria-label="Table"><table>
      <thead><tr>{props.head.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
      <tbody>{props.children}</tbody>
    </table></div></section>
  );
}

const events = new Live(async () => ((await get('/v1/events')) as unknown as { items: MachineEvent[] }).items, { on: (event) => event.kind !== 'job', every: 30_000 });

function Gpus() {
  const all = useLive(health);
  const [asking, setAsking] = useState<{ act: 'cordon' | 'drain' | 'uncordon'; gpu: GpuHealth }>();
  const [reason, setReason] = useState('');
  if (!all) return <Loading what="Asking for the GPUs …" />;
  const act = async () => {
    if (!asking) return;
    const of = asking.gpu.uuid;
    const body = reason === '' ? {} : { reason };
    if (asking.act === 'cordon') await post('/v1/gpus/{gpu}/cordon', body, { of });
    else if (asking.act === 'drain') await post('/v1/gpus/{gpu}/drain', body, { of });
    else await post('/v1/gpus/{gpu}/uncordon', {}, { of });
    setReason('');
    await health.refresh();
  };
  return (
    <>
      <Table head={['GPU', 'Model', 'State', 'Since', 'Why', 'Temperature', 'Power', 'Busy', '']}>
        {all.map((gpu) => (
          <tr key={gpu.uuid}>
            <td><a href={`/?gpu=${gpu.uuid}`}>GPU {gpu.index}</a></td>
            <td class="quiet">{gpu.model}</td>
            <td class="nowrap"><State of={gpu.state} /> {gpu.draining ? <State of="draining" /> : gpu.cordoned && <State of="cordoned" />}</td>
            <td class="nowrap"><Time at={gpu.sinceUnixMilliseconds} /></td>
            <td class="wrap">{gpu.reason ?? gpu.cordonReason ?? ''}</td>
            <td>{gpu.sample?.temperatureCelsius ?? '–'} °C</td>
            <td>{gpu.sample?.powerMilliwatts == null ? '–' : `${Math.round(gpu.sample.powerMilliwatts / 1000)} W`}</td>
            <td>{gpu.sample?.utilizationPercent ?? '–'} %</td>
            <td class="nowrap right">
              {isAdmin.value && (gpu.cordoned
                ? <button type="button" class="small" onClick={() => setAsking({ act: 'uncordon', gpu })}>Uncordon</button>
                : <><button type="button" class="small" onClick={() => setAsking({ act: 'cordon', gpu })}>Cordon …</button>{' '}
                  <button type="button" class="small danger" onClick={() => setAsking({ act: 'drain', gpu })}>Drain …</button></>)}
            </td>
          </tr>
        ))}
      </Table>
      {asking && (
        <Confirm title={`${asking.act === 'drain' ? 'Drain' : asking.act === 'cordon' ? 'Cordon' : 'Uncordon'} GPU ${asking.gpu.index}?`}
          danger={asking.act === 'drain'} action={asking.act === 'drain' ? 'Drain' : asking.act === 'cordon' ? 'Cordon' : 'Uncordon'}
          onClose={() => setAsking(undefined)} onDo={act}
          text={<>
            <p>{asking.act === 'drain' ? 'No new work goes there, and what is there is told to end.' : asking.act === 'cordon' ? 'No new work goes there. What runs goes on.' : 'It takes new work again.'}</p>
            {asking.act !== 'uncordon' && <label class="field">Reason, for others to read<input value={reason} maxLength={300} onInput={(event) => setReason(event.currentTarget.value)} /></label>}
          </>} />
      )}
    </>
  );
}

function Events() {
  const all = useLive(events);
  const gpu = query.value.get('of') ?? '';
  if (!all) return events.error.value === '' ? <Loading what="Asking what happened …" /> : <Problem text={events.error.value} />;
  const shown = all.filter((event) => gpu === '' || String(event.gpu) === gpu).reverse().slice(0, 500);
  const gpus = [...new Set(all.map((event) => event.gpu).filter((one) => one !== null))].sort((a, b) => a - b);
  return (
    <>
      <div class="bar">
        <select aria-label="Of which GPU" value={gpu} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
          <option value="">every GPU</option>
          {gpus.map((one) => <option key={one} value={String(one)}>GPU {one}</option>)}
        </select>
      </div>
      {shown.length === 0 ? <Empty title="Nothing happened to a GPU." /> : (
        <Table head={['When', 'GPU', 'What', 'State', 'Why', 'Tenant']}>
          {shown.map((event) => (
            <tr key={event.number}>
              <td class="nowrap"><Time at={event.unixMilliseconds} /></td>
              <td class="nowrap">{event.gpu === null ? '' : `GPU ${event.gpu}`} <small>{event.node ?? ''}</small></td>
              <td>{event.kind}</td>
              <td>{event.state === null ? '' : <State of={event.state} />}</td>
              <td class="wrap">{event.reason ?? ''}</td>
              <td>{event.tenant ?? ''}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

const people = new Live(async () => (await get('/v1/people')).items);

function People() {
  const all = useLive(people);
  const [adding, setAdding] = useState(false);
  const [name, setName] = useState('');
  const [role, setRole] = useState<'user' | 'admin'>('user');
  const [asking, setAsking] = useState<{ person: Person; act: 'disable' | 'enable' | 'admin' | 'user' | 'remove' }>();
  if (!all) return people.error.value === '' ? <Loading what="Asking for people …" /> : <Problem text={people.error.value} />;
  const act = async () => {
    if (!asking) return;
    const of = asking.person.name;
    if (asking.act === 'remove') await remove('/v1/people/{name}', { of });
    else if (asking.act === 'disable' || asking.act === 'enable') await patch('/v1/people/{name}', { disabled: asking.act === 'disable' }, { of });
    else await patch('/v1/people/{name}', { role: asking.act }, { of });
    await people.refresh();
  };
  const words = { disable: 'Disable', enable: 'Enable', admin: 'Make an admin', user: 'Make a user', remove: 'Remove' };
  const texts = {
    disable: 'Their tokens are refused from now on. Their jobs go on.', enable: 'Their tokens work again.',
    admin: 'Admins may do everything here, to the jobs of everybody, and run jobs as any user of the machine.',
    user: 'They keep what is their own.', remove: 'Their tokens go along. This cannot be taken back.',
  };
  return (
    <>
      <div class="bar"><button type="button" class="primary" onClick={() => setAdding(true)}>Add somebody …</button></div>
      <Table head={['Name', 'Role', 'User of the machine', 'Since', '']}>
        {all.map((person) => (
          <tr key={person.name}>
            <td><a href={`/jobs?state=all&owner=${encodeURIComponent(person.name)}`}><Owner name={person.name} /></a></td>
            <td><State of={person.role ?? 'user'} /> {person.disabled && <State of="disabled" />}</td>
            <td>{person.uid == null ? <span class="quiet">none</span> : `uid ${person.uid}`}</td>
            <td><Time at={person.createdUnixMilliseconds} /></td>
            <td class="nowrap right">
              <button type="button" class="small" onClick={() => setAsking({ person, act: person.role === 'admin' ? 'user' : 'admin' })}>{person.role === 'admin' ? 'Make a user …' : 'Make an admin …'}</button>{' '}
              <button type="button" class="small" onClick={() => setAsking({ person, act: person.disabled ? 'enable' : 'disable' })}>{person.disabled ? 'Enable …' : 'Disable …'}</button>{' '}
              <button type="button" class="small danger" onClick={() => setAsking({ person, act: 'remove' })}>Remove …</button>
            </td>
          </tr>
        ))}
      </Table>
      {all.length === 0 && <p class="quiet">Nobody was added. Users of the machine are themselves without it.</p>}
      {asking && <Confirm title={`${words[asking.act]}: ${asking.person.name}?`} text={texts[asking.act]} action={words[asking.act]} danger={asking.act === 'remove' || asking.act === 'disable'} onClose={() => setAsking(undefined)} onDo={act} />}
      {adding && (
        <Confirm title="Add somebody" action="Add" onClose={() => setAdding(false)} onDo={async () => {
          await post('/v1/people', { name, role });
          setName('');
          await people.refresh();
        }} text={
          <div class="fields">
            <label class="field">Name<input value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
            <label class="field">Role<select value={role} onChange={(event) => setRole(event.currentTarget.value as 'user' | 'admin')}><option>user</option><option>admin</option></select></label>
          </div>
        } />
      )}
    </>
  );
}

/** A path of the API; where there is a page for what it names, a link to that. */
function Named(props: { path: string }) {
  const job = /^\/v1\/jobs\/(\d+)/.exec(props.path)?.[1];
  return job === undefined ? <>{props.path}</> : <a href={`/jobs/${job}`}>{props.path}</a>;
}

function Audit() {
  const user = query.value.get('user') ?? '';
  const live = useMemo(() => new Live(async () => await get('/v1/audit', { query: { user: user === '' ? undefined : user } }), { every: 10_000 }), [user]);
  const page = useLive(live);
  // What was asked for besides, page by page.
  const [older, setOlder] = useState<AuditEntry[]>([]);
  const [next, setNext] = useState<number | null>();
  const [trouble, setTrouble] = useState('');
  useEffect(() => {
    setOlder([]);
    setNext(undefined);
  }, [user]);
  if (!page) return live.error.value === '' ? <Loading what="Asking for the audit log …" /> : <Problem text={live.error.value} />;
  const first = older[0]?.number;
  const all = [...page.items.filter((one) => first === undefined || one.number > first), ...older];
  const more = next === undefined ? page.next : next;
  const fetchMore = async () => {
    try {
      const from = next === undefined ? page.items : older;
      const answer = await get('/v1/audit', { query: { user: user === '' ? undefined : user, after: from[from.length - 1]?.number } });
      setOlder([...(next === undefined ? page.items : older), ...answer.items]);
      setNext(answer.next);
      setTrouble('');
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      {isAdmin.value && (
        <div class="bar">
          <input type="search" aria-label="Of whom" placeholder="of everybody" value={user} onChange={(event) => setQuery({ user: event.currentTarget.value.trim() }, false)} />
        </div>
      )}
      {all.length === 0 ? <Empty title="Nothing was asked for that changes something." /> : (
        <Table head={['When', 'Who', 'From', 'Action', 'Of what', 'Result', 'What came of it']}>
          {all.map((one) => (
            <tr key={one.number}>
              <td class="nowrap"><Time at={one.unixMilliseconds} /></td>
              <td><Owner name={one.user} /></td>
              <td class="nowrap quiet" title={one.token === null ? '' : `token ${one.token}`}>{one.from}</td>
              <td>{one.action}</td>
              <td class="wrap"><Named path={one.object} /></td>
              <td class="nowrap"><State of={one.status === null ? 'no answer' : one.status < 400 ? 'done' : one.status === 403 ? 'denied' : 'refused'} /></td>
              <td class="wrap"><Named path={one.outcome} /></td>
            </tr>
          ))}
        </Table>
      )}
      {trouble !== '' && <Problem text={trouble} />}
      {more != null && <div class="bar"><button type="button" onClick={() => void fetchMore()}>Older ones</button></div>}
    </>
  );
}

function Tokens() {
  const everybody = isAdmin.value;
  const live = useMemo(() => new Live(async () => (await get('/v1/tokens', { query: { everybody: everybody || undefined } })).items), [everybody]);
  const all = useLive(live);
  const [adding, setAdding] = useState(false);
  const [label, setLabel] = useState('');
  const [user, setUser] = useState('');
  const [lasts, setLasts] = useState('30d');
  const [shown, setShown] = useState('');
  const [asking, setAsking] = useState<Token>();
  if (!all) return live.error.value === '' ? <Loading what="Asking for tokens …" /> : <Problem text={live.error.value} />;
  return (
    <>
      <div class="bar"><button type="button" class="primary" onClick={() => setAdding(true)}>Make a token …</button></div>
      {shown !== '' && <section class="card"><p>This is the token. It is shown once, and nobody can show it again.</p><Code text={shown} label="Token" /></section>}
      <Table head={['Label', 'Of', 'Made', 'Last used', 'Ends', '']}>
        {all.map((token) => (
          <tr key={token.id}>
            <td>{token.label === undefined || token.label === '' ? <span class="quiet mono">{token.id.slice(0, 8)}</span> : token.label}</td>
            <td>{token.user && <Owner name={token.user} />}</td>
            <td><Time at={token.createdUnixMilliseconds} /></td>
            <td><Time at={token.lastUsedUnixMilliseconds} none="never" /></td>
            <td>{token.revokedUnixMilliseconds != null ? <State of="revoked" /> : <Time at={token.expiresUnixMilliseconds} none="never" />}</td>
            <td class="right">{token.revokedUnixMilliseconds == null && <button type="button" class="small danger" onClick={() => setAsking(token)}>Revoke …</button>}</td>
          </tr>
        ))}
      </Table>
      {asking && <Confirm title="Revoke the token?" text={`${asking.label === '' || asking.label === undefined ? asking.id : asking.label} of ${asking.user ?? ''} is refused from now on. This cannot be taken back.`} action="Revoke" danger
        onClose={() => setAsking(undefined)} onDo={async () => {
          await remove('/v1/tokens/{id}', { of: asking.id });
          await live.refresh();
        }} />}
      {adding && (
        <Confirm title="Make a token" action="Make it" onClose={() => setAdding(false)} onDo={async () => {
          const made = await post('/v1/tokens', { label, ...(user === '' ? {} : { user }), ...(lasts === '' ? {} : { expires_in: lasts }) });
          setShown(made.token ?? '');
          toast('The token is made');
          await live.refresh();
        }} text={
          <div class="fields">
            <label class="field">Label<input value={label} placeholder="what it is for" onInput={(event) => setLabel(event.currentTarget.value)} /></label>
            {everybody && <label class="field">Of; empty: yourself<input value={user} onInput={(event) => setUser(event.currentTarget.value)} /></label>}
            <label class="field">Lasts; empty: without end<input value={lasts} onInput={(event) => setLasts(event.currentTarget.value)} /></label>
          </div>
        } />
      )}
    </>
  );
}

const settings = new Live(async () => (await get('/v1/settings')).items);

function Settings() {
  const all = useLive(settings);
  const search = query.value.get('search') ?? '';
  if (!all) return settings.error.value === '' ? <Loading what="Asking for the settings …" /> : <Problem text={settings.error.value} />;
  const shown = all.filter((one) => `${one.name} ${one.meaning}`.toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      <div class="bar">
        <input type="search" aria-label="Search the settings" placeholder="Search" value={search} onInput={(event) => setQuery({ search: event.currentTarget.value })} />
        <span class="quiet">As they are in force. They are changed in divvyd.yaml.</span>
      </div>
      <Table head={['Setting', 'Value', 'Meaning', 'Changes']}>
        {shown.map((one) => (
          <tr key={one.name}>
            <td class="mono">{one.name}</td>
            <td class="mono wrap">{one.value}</td>
            <td>{one.meaning}</td>
            <td class="quiet">{one.reloads ? 'on reload' : 'on restart'}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
