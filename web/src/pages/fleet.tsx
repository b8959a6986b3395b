// Every GPU, who holds how much of it, and what they do with it.
import { useMemo } from 'preact/hooks';
import { Empty, Fact, Loading, Meter, Owner, Problem, State, Time } from '../components/parts';
import type { Stats } from '../api/types';
import { colourOf } from '../colour';
import { FleetCanvas } from '../fleet/canvas';
import {
  filtered, isIdle, machinesOf, totals, trouble, type Band, type FleetGpu, type Machine, type Show,
} from '../fleet/model';
import type { Size } from '../fleet/layout';
import { GpuActions } from '../fleet/actions';
import { ReplayBar, useReplay } from '../fleet/replay';
import { Resize } from '../fleet/resize';
import { isResizable } from '../fleet/resize_model';
import { useLive } from '../live/live';
import { activeJobs, health, isAdmin, me, owners, stats } from '../live/store';
import { query, setQuery } from '../router';
import { bytes, percent, plural, share } from '../text/format';

const shows: [Show, string][] = [
  ['all', 'All'], ['free', 'Free'], ['busy', 'Held'], ['idle', 'Idle'], ['trouble', 'In trouble'],
];

export function FleetPage() {
  const now = useLive(stats);
  const healthNow = useLive(health);
  useLive(activeJobs);
  const names = owners.value;
  const replay = useReplay();
  const live = useMemo(
    () => (now ? machinesOf(now, healthNow ?? [], names) : []),
    [now, healthNow, names],
  );
  const all = useMemo(() => (replay ? replay.apply(live) : live), [live, replay]);
  const show = (query.value.get('show') ?? 'all') as Show;
  const search = query.value.get('search') ?? '';
  const size = (query.value.get('size') ?? 'auto') as Size['name'] | 'auto';
  const selected = query.value.get('gpu') ?? '';
  const shown = useMemo(() => filtered(all, show, search), [all, show, search]);
  const sum = useMemo(() => totals(all), [all]);

  if (!now) {
    return stats.error.value === '' ? <Loading what="Asking for the GPUs …" /> : <Problem text={stats.error.value} />;
  }
  const chosen = find(all, selected);
  return (
    <div class="page fleet">
      <header class="head">
        <h1>Fleet</h1>
        <dl class="facts">
          <Fact name="GPUs">{sum.gpus.toLocaleString('en')}</Fact>
          <Fact name="Held" title="Shares that somebody holds">
            {share(Math.round(sum.held * 1000))} <small>of {sum.gpus}</small>
          </Fact>
          <Fact name="In use" title="Measured, of all GPUs">{percent(sum.gpus ? sum.used / sum.gpus : 0)}</Fact>
          <Fact name="Memory held">
            {percent(sum.memory ? sum.memoryHeld / sum.memory : 0)} <small>of {bytes(sum.memory)}</small>
          </Fact>
          <Fact name="Free GPUs">{sum.free.toLocaleString('en')}</Fact>
          <Fact name="Waiting"><a href="/jobs?state=queued">{now.waiting}</a></Fact>
          {sum.troubled > 0 && (
            <Fact name="In trouble">
              <a class="bad" href="/?show=trouble">{sum.troubled}</a>
            </Fact>
          )}
          {sum.watts > 0 && <Fact name="Power">{sum.watts < 10_000 ? `${Math.round(sum.watts)} W` : `${(sum.watts / 1000).toFixed(1)} kW`}</Fact>}
        </dl>
      </header>
      <div class="bar">
        <div class="choices" role="group" aria-label="Which GPUs">
          {shows.map(([name, label]) => (
            <button type="button" key={name} aria-pressed={show === name}
              onClick={() => setQuery({ show: name === 'all' ? '' : name })}>
              {label}
            </button>
          ))}
        </div>
        <input type="search" placeholder="Owner, job, node, model" aria-label="Search the fleet" value={search}
          onInput={(event) => setQuery({ search: event.currentTarget.value })} />
        <select aria-label="Size" value={size} onChange={(event) => setQuery({ size: event.currentTarget.value === 'auto' ? '' : event.currentTarget.value })}>
          <option value="auto">Size: as fits</option>
          <option value="large">Large</option>
          <option value="medium">Medium</option>
          <option value="small">Small</option>
        </select>
        <ReplayBar />
      </div>
      <Problem text={stats.error.value} />
      <div class="fleet-body">
        {shown.length === 0 ? (
          <Empty title={sum.gpus === 0 ? 'There is no GPU here.' : 'No GPU is like that.'}>
            {sum.gpus > 0 && <a href="/">Show all</a>}
          </Empty>
        ) : (
          <FleetCanvas machines={shown} size={size} selected={selected}
            onSelect={(uuid) => setQuery({ gpu: uuid === selected ? '' : uuid })} />
        )}
        {chosen && <GpuPanel node={chosen.node} one={chosen.one} machine={replay ? undefined : now} onClose={() => setQuery({ gpu: '' })} />}
      </div>
      <Legend machines={all} />
    </div>
  );
}

function find(machines: readonly Machine[], uuid: string) {
  if (uuid === '') return undefined;
  for (const machine of machines) {
    const one = machine.gpus.find((gpu) => gpu.gpu.uuid === uuid);
    if (one) return { node: machine.name, one };
  }
  return undefined;
}

function Legend(props: { machines: readonly Machine[] }) {
  const held = new Map<string, number>();
  for (const machine of props.machines) {
    for (const one of machine.gpus) {
      for (const band of one.bands) held.set(band.owner, (held.get(band.owner) ?? 0) + band.share);
    }
  }
  const largest = [...held].sort((a, b) => b[1] - a[1]).slice(0, 12);
  return (
    <footer class="legend">
      {largest.map(([owner, sum]) => (
        <a key={owner} href={`/?search=${encodeURIComponent(owner)}`}>
          <Owner name={owner} /> <small>{share(Math.round(sum * 1000))}</small>
        </a>
      ))}
      <span class="quiet">
        A box is a GPU, a band a slice: its height is memory, the tint up to the mark what is
        guaranteed, the fill what is used. Right edge: memory in use.
      </span>
    </footer>
  );
}

function GpuPanel(props: { node: string; one: FleetGpu; machine: Stats | undefined; onClose: () => void }) {
  const { gpu, health: state, bands } = props.one;
  const sample = state?.sample;
  const wrong = trouble(props.one);
  return (
    <aside class="panel" aria-label={`GPU ${gpu.index} of ${props.node}`}>
      <div class="panel-head">
        <h2>GPU {gpu.index} <small>{props.node}</small></h2>
        <button type="button" class="small" onClick={props.onClose} aria-label="Close">✕</button>
      </div>
      <p class="quiet">{gpu.model} · {bytes(gpu.memoryBytes)}{gpu.mode ? ` · ${gpu.mode}` : ''}</p>
      <p class="wrap">
        <State of={state?.state ?? 'unknown'} />
        {state && <span class="quiet"> since <Time at={state.sinceUnixMilliseconds} /></span>}
        {wrong !== '' && <span class="bad"> {state?.reason ?? state?.cordonReason ?? gpu.unusable ?? wrong}</span>}
        {isIdle(props.one) && <span class="warn"> held, and nobody uses it</span>}
      </p>
      <dl class="facts">
        <Fact name="Temperature">{sample?.temperatureCelsius ?? '–'} °C
          {sample?.slowdownTemperatureCelsius ? <small> of {sample.slowdownTemperatureCelsius}</small> : null}</Fact>
        <Fact name="Power">{sample?.powerMilliwatts == null ? '–' : `${Math.round(sample.powerMilliwatts / 1000)} W`}</Fact>
        <Fact name="In use">{percent(props.one.used)}</Fact>
        <Fact name="Free">{share(gpu.freeShareThousandths)} <small>and {bytes(gpu.freeMemoryBytes)}</small></Fact>
      </dl>
      <h3>{bands.length === 0 ? 'Nobody holds a slice of it' : plural(bands.length, 'slice')}</h3>
      {bands.map((band) => (
        <div class="slice" key={band.name}>
          <div class="slice-head">
            {band.job === undefined ? <strong>{band.title}</strong> : <a href={`/jobs/${band.job}`}><strong>{band.title}</strong> <small>#{band.job}</small></a>}
            <Owner name={band.owner} />
          </div>
          <SliceUse band={band} machine={props.machine} />
        </div>
      ))}
      <GpuActions one={props.one} />
      <p class="quiet mono small-text">{gpu.uuid}</p>
    </aside>
  );
}

/** What a slice is of the GPU and what is done with it; whose it is may pull its edges. */
function SliceUse(props: { band: Band; machine: Stats | undefined }) {
  const { band, machine } = props;
  const may = isResizable(band.holder) && (isAdmin.value || me.data.value?.name === band.owner);
  const tenant = may ? machine?.tenants.find((one) => one.name === band.name) : undefined;
  if (tenant && machine) {
    return <Resize tenant={tenant} owner={band.owner} machine={machine} used={band.used === undefined ? null : Math.round(band.used * 1000)} memoryUsed={band.memoryUsed} />;
  }
  return (
    <>
      <Meter part={band.used ?? 0} mark={band.share} colour={colourOf(band.owner)}
        label={`uses ${percent(band.used ?? 0)} of the GPU; ${share(Math.round(band.share * 1000))} ${band.capped ? 'at most' : 'guaranteed'}`} />
      <div class="quiet">{band.used === undefined ? 'use not measured' : `uses ${percent(band.used)}`} · {share(Math.round(band.share * 1000))} {band.capped ? 'at most' : 'guaranteed'}</div>
      <Meter part={band.memoryLimit ? band.memoryUsed / band.memoryLimit : 0}
        label={`${bytes(band.memoryUsed)} of ${bytes(band.memoryLimit)}`} />
      <div class="quiet">{bytes(band.memoryUsed)} of {bytes(band.memoryLimit)}</div>
    </>
  );
}
