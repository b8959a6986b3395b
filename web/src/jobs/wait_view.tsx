// Why a job waits: the daemon's sentence, where it stands in line, and every GPU with what it would
// have to have.
import { colourOf } from '../colour';
import { get } from '../api/client';
import type { Job } from '../api/types';
import { Fact, Time } from '../components/parts';
import { machinesOf } from '../fleet/model';
import { Live, useLive } from '../live/live';
import { activeJobs, health, owners, stats } from '../live/store';
import { plural, share } from '../text/format';
import { useMemo } from 'preact/hooks';
import { askOf, obstacles, type Obstacle } from './wait_model';

const mostShown = 24;

export function WaitView(props: { job: Job }) {
  const { job } = props;
  const explanation = useMemo(
    () => new Live(() => get('/v1/jobs/{id}/explain', { of: job.id }), { on: () => true, every: 5000 }),
    [job.id],
  );
  const why = useLive(explanation);
  const now = useLive(stats);
  const healthNow = useLive(health);
  useLive(activeJobs);
  const names = owners.value;
  const machines = useMemo(() => (now ? machinesOf(now, healthNow ?? [], names) : []), [now, healthNow, names]);
  const ask = askOf(job);
  const all = obstacles(ask, machines);
  const fitting = all.filter((one) => one.fits).length;
  const held = (one: Obstacle) => one.one.bands.reduce((sum, band) => sum + band.share, 0);
  // The longest of held and asked together is as wide as there is room.
  const scale = 1 / Math.max(1, ...all.slice(0, mostShown).map((one) => held(one) + ask.share / 1000));
  const waits = why?.waits ?? job.waits;
  if (!waits) return null;
  const about = waits.kind === 'full' || waits.kind === 'never' || waits.kind === 'reservation' || waits.kind === 'room';
  return (
    <section class="card wait" aria-label="Why it waits">
      <h2>Why it waits</h2>
      <p class="sentence">{sentence(waits.text)}</p>
      <dl class="facts">
        {waits.place !== null && <Fact name="In line">{waits.place} <small>of {waits.inLine}</small></Fact>}
        <Fact name="Starts" title="The best guess, from how long jobs are expected to take">
          <Time at={waits.startsUnixMilliseconds} none="not known" />
        </Fact>
        <Fact name="It asks for">
          {ask.gpus > 1 ? `${ask.gpus} × ` : ''}{share(ask.share)} GPU{job.members > 1 ? <small> for each of {plural(job.members, 'member')}</small> : null}
        </Fact>
        {about && <Fact name="GPUs with room now">{fitting} <small>of {all.length}, {plural(ask.gpus * job.members, 'is', 'are')} needed</small></Fact>}
      </dl>
      {about && ask.share > 0 && (
        <ul class="obstacles">
          {all.slice(0, mostShown).map((one) => <Device key={one.one.gpu.uuid} obstacle={one} share={ask.share} scale={scale} />)}
        </ul>
      )}
      {about && all.length > mostShown && <p class="quiet">and {plural(all.length - mostShown, 'GPU')} that are further from it</p>}
      {why && why.details !== '' && (
        <details>
          <summary>All of it, in words</summary>
          <pre class="details">{why.details}</pre>
        </details>
      )}
    </section>
  );
}

// It may begin with the name of a machine, which stays as it is.
function sentence(text: string): string {
  return text === '' ? '' : `${text}.`;
}

function Device(props: { obstacle: Obstacle; share: number; scale: number }) {
  const { one, node, fits, text } = props.obstacle;
  const asked = props.share / 1000;
  const held = one.bands.reduce((sum, band) => sum + band.share, 0);
  return (
    <li>
      <span class="device-name">GPU {one.gpu.index} <small>{node}</small></span>
      <span class="device" role="img" aria-label={`${share(Math.round(held * 1000))} held, ${share(one.gpu.freeShareThousandths)} free; ${fits ? 'it fits' : text}`}>
        <span class="whole" style={{ width: `${100 * props.scale}%` }} />
        {one.bands.map((band) => (
          <i key={band.name} title={`${band.title} of ${band.owner}: ${share(Math.round(band.share * 1000))}`}
            style={{ width: `${100 * band.share * props.scale}%`, background: colourOf(band.owner) }} />
        ))}
        <b class={fits ? 'fits' : 'short'} style={{ left: `${100 * held * props.scale}%`, width: `${100 * asked * props.scale}%` }} />
      </span>
      <span class={fits ? 'good' : 'quiet'}>{fits ? 'has room' : text}</span>
    </li>
  );
}
