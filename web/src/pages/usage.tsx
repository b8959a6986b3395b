// What was held and used, by whom, in GPU hours and in money; and who holds GPUs now without using
// them.
import { useMemo, useState } from 'preact/hooks';
import { get, open } from '../api/client';
import type { Usage } from '../api/types';
import { Empty, Fact, Loading, Meter, Owner, Problem } from '../components/parts';
import { toast } from '../components/toast';
import { lazy } from '../components/lazy';
import { machinesOf } from '../fleet/model';
import { Live, useLive } from '../live/live';
import { activeJobs, health, isAdmin, me, owners, stats } from '../live/store';
import { query, setQuery } from '../router';
import { gpuHours, percent, share } from '../text/format';
import { colourOf } from '../colour';
import { keepPrices, meanPrice, modelsOf, money, priceOf, readPrices, withCost, type Prices } from '../usage/cost';

const Chart = lazy(async () => (await import('../jobs/chart')).Chart);
const spans: [string, string, number][] = [
  ['day', 'Last day', 1], ['week', 'Last week', 7], ['month', 'Last 30 days', 30], ['all', 'All', 0],
];

export function UsagePage() {
  useLive(me);
  const by = query.value.get('by') ?? 'user';
  const span = spans.find(([name]) => name === query.value.get('span')) ?? spans[1];
  const days = span?.[2] ?? 7;
  const [prices, setPrices] = useState(readPrices);
  const machine = useLive(stats);
  const models = useMemo(() => modelsOf(machine?.gpus ?? []), [machine]);
  const everybody = isAdmin.value;
  const ask = useMemo(() => {
    const since = days === 0 ? undefined : Math.floor((Date.now() - days * 86_400_000) / 1000) * 1000;
    const user = everybody ? undefined : me.data.value?.name;
    return { since, user };
  }, [days, everybody, me.data.value?.name]);
  const report = useMemo(() => new Live(async () => (await get('/v1/usage', { query: { by, ...ask } })).items, { every: 30_000 }), [by, ask]);
  const hours = useMemo(() => new Live(async () => (await get('/v1/usage', { query: { by: 'hour', ...ask } })).items, { every: 60_000 }), [ask]);
  const rows = useLive(report);
  const overTime = useLive(hours);
  const mean = useMemo(() => meanPrice(prices, machine?.gpus ?? []), [prices, machine]);
  const cost = mean?.price;
  const sum = (rows ?? []).reduce((all, row) => ({ held: all.held + row.heldShareThousandthSeconds, used: all.used + row.usedShareThousandthSeconds }), { held: 0, used: 0 });
  const save = async () => {
    try {
      const response = await open('get', '/v1/usage', { query: { by, ...ask, format: 'csv' } });
      const link = document.createElement('a');
      const table = await response.text();
      link.href = URL.createObjectURL(new Blob([cost === undefined ? table : withCost(table, cost)], { type: 'text/csv' }));
      link.download = `divvy-usage-by-${by}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div class="page">
      <header class="head">
        <h1>Usage</h1>
        <dl class="facts">
          <Fact name="Held">{gpuHours(sum.held)} <small>GPU hours</small></Fact>
          <Fact name="Of that used">{sum.held > 0 ? percent(sum.used / sum.held) : '–'}</Fact>
          {cost !== undefined && <Fact name="Cost">{costOf(sum.held, cost)}</Fact>}
          {cost !== undefined && <Fact name="Of that not used">{costOf(Math.max(0, sum.held - sum.used), cost)}</Fact>}
        </dl>
      </header>
      <div class="bar">
        <div class="choices" role="group" aria-label="By">
          {['user', 'queue', 'job'].map((name) => <button key={name} type="button" aria-pressed={by === name} onClick={() => setQuery({ by: name === 'user' ? '' : name })}>By {name}</button>)}
        </div>
        <select aria-label="Since" value={span?.[0]} onChange={(event) => setQuery({ span: event.currentTarget.value === 'week' ? '' : event.currentTarget.value })}>
          {spans.map(([name, label]) => <option key={name} value={name}>{label}</option>)}
        </select>
        <PriceFields models={models} prices={prices} onChange={(next) => {
          setPrices(next);
          keepPrices(next);
        }} />
        <button type="button" onClick={() => void save()}>Save as CSV</button>
        {!everybody && <span class="quiet">Yours; that of others is for admins.</span>}
      </div>
      <Problem text={report.error.value} />
      {!rows && report.error.value === '' && <Loading what="Adding up …" />}
      {overTime && overTime.length > 1 && <OverTime rows={overTime} />}
      {rows && rows.length === 0 && <Empty title="Nothing was used in this time." />}
      {rows && rows.length > 0 && <UsageTable rows={rows} by={by} price={cost} />}
      {mean && !mean.isExact && <p class="quiet">Models cost differently here, and what was held is not recorded by model: it is counted at the mean of the fleet, {money(mean.price)} an hour.</p>}
      <IdleView prices={prices} />
    </div>
  );
}

function costOf(thousandthSeconds: number, price: number): string {
  return money((thousandthSeconds / 1000 / 3600) * price);
}

function PriceFields(props: { models: readonly string[]; prices: Prices; onChange: (prices: Prices) => void }) {
  const { models, prices } = props;
  const field = (model: string, label: string) => (
    <label class="inline" key={model}>{label}
      <input class="short" inputMode="decimal" placeholder="–" value={prices[model] ?? ''}
        onInput={(event) => props.onChange({ ...prices, [model]: event.currentTarget.value })} />
    </label>
  );
  if (models.length === 1) return field(models[0] ?? '', 'A GPU hour costs');
  return models.length === 0 ? null : (
    <fieldset class="prices">
      <legend>A GPU hour costs</legend>
      {models.map((model) => field(model, model))}
    </fieldset>
  );
}

function OverTime(props: { rows: readonly Usage[] }) {
  const points = props.rows
    .map((row) => ({ at: Date.parse(row.name) / 1000 || Number(row.name) / 1000, row }))
    .filter((one) => Number.isFinite(one.at))
    .sort((a, b) => a.at - b.at);
  if (points.length < 2) return null;
  return (
    <section class="card">
      <Chart title="GPUs over time, mean of each hour" times={points.map((one) => one.at)} top={1} unit={(value) => `${Number(value.toFixed(2))} GPU`}
        lines={[
          { label: 'held', colour: '', dashed: true, values: points.map((one) => one.row.heldShareThousandthSeconds / 3_600_000) },
          { label: 'used', colour: colourOf('used'), values: points.map((one) => one.row.usedShareThousandthSeconds / 3_600_000) },
        ]} />
    </section>
  );
}

function UsageTable(props: { rows: readonly Usage[]; by: string; price: number | undefined }) {
  const rows = [...props.rows].sort((a, b) => b.heldShareThousandthSeconds - a.heldShareThousandthSeconds).slice(0, 500);
  const most = rows[0]?.heldShareThousandthSeconds ?? 1;
  return (
    <section class="card">
      <div class="table" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead><tr><th scope="col">{props.by === 'user' ? 'User' : props.by === 'queue' ? 'Queue' : 'Job'}</th><th scope="col">Held</th><th scope="col" class="number">GPU hours</th><th scope="col" class="number">Used</th><th scope="col" class="number">CPU hours</th><th scope="col" class="number">Jobs</th>{props.price !== undefined && <th scope="col" class="number">Cost</th>}</tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td>{props.by === 'user' ? <Owner name={row.name} /> : props.by === 'job' ? <a href={`/jobs/${/\d+/.exec(row.name)?.[0] ?? ''}`}>{row.name}</a> : row.name}</td>
                <td class="grow"><Meter part={row.heldShareThousandthSeconds / Math.max(1, most)} label={`${gpuHours(row.heldShareThousandthSeconds)} GPU hours`} {...(props.by === 'user' ? { colour: colourOf(row.name) } : {})} /></td>
                <td class="number">{gpuHours(row.heldShareThousandthSeconds)}</td>
                <td class="number">{row.heldShareThousandthSeconds > 0 ? percent(row.usedShareThousandthSeconds / row.heldShareThousandthSeconds) : '–'}</td>
                <td class="number">{(row.cpuMilliseconds / 3_600_000).toFixed(2)}</td>
                <td class="number">{row.jobs}</td>
                {props.price !== undefined && <td class="number">{costOf(row.heldShareThousandthSeconds, props.price)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function IdleView(props: { prices: Prices }) {
  const now = useLive(stats);
  const healthNow = useLive(health);
  useLive(activeJobs);
  const machines = now ? machinesOf(now, healthNow ?? [], owners.value) : [];
  const idle = machines.flatMap((machine) =>
    machine.gpus.flatMap((one) =>
      one.bands.filter((band) => band.used !== undefined && band.used < 0.005).map((band) => ({ machine: machine.name, one, band })),
    ),
  );
  const held = idle.reduce((sum, { band }) => sum + band.share, 0);
  // Of what is held now, the model is known.
  const hourly = idle.map(({ one, band }) => {
    const price = priceOf(props.prices, one.gpu.model);
    return price === undefined ? undefined : price * band.share;
  });
  const isPriced = hourly.some((one) => one !== undefined);
  const sum = hourly.reduce<number>((all, one) => all + (one ?? 0), 0);
  return (
    <section class="card">
      <h2>Held now, and not used</h2>
      {idle.length === 0 ? <p class="quiet">Whoever holds a slice uses it.</p> : (
        <>
          <p>{share(Math.round(held * 1000))} GPU{isPriced ? `, which is ${money(sum)} an hour and ${money(sum * 24)} a day` : ''}.</p>
          <div class="table" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead><tr><th scope="col">Held by</th><th scope="col">Owner</th><th scope="col">GPU</th><th scope="col" class="number">Share</th>{isPriced && <th scope="col" class="number">An hour</th>}</tr></thead>
              <tbody>
                {idle.map(({ machine, one, band }, i) => (
                  <tr key={band.name + one.gpu.uuid}>
                    <td>{band.job === undefined ? band.title : <a href={`/jobs/${band.job}`}>{band.title}</a>}</td>
                    <td><Owner name={band.owner} /></td>
                    <td><a href={`/?gpu=${one.gpu.uuid}`}>GPU {one.gpu.index}</a> <small>{machine}</small></td>
                    <td class="number">{share(Math.round(band.share * 1000))}</td>
                    {isPriced && <td class="number">{hourly[i] === undefined ? '–' : money(hourly[i])}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}
