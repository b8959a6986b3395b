// What a tenant holds of a GPU, with edges that can be pulled. Nothing is changed before it was
// confirmed, and the way back is offered.
import { useRef, useState } from 'preact/hooks';
import type { TargetedKeyboardEvent, TargetedPointerEvent } from 'preact';
import { patch } from '../api/client';
import type { Stats, Tenant } from '../api/types';
import { colourOf } from '../colour';
import { Code, Confirm } from '../components/parts';
import { toast } from '../components/toast';
import { stats } from '../live/store';
import { bytes, share } from '../text/format';
import { changeOf, edgesOf, moved, rest, setCommand, type Edge, type What } from './resize_model';

const names: Record<What, string> = { share: 'Share', memory: 'Memory' };
const worded = (what: What, value: number) => (what === 'share' ? `${share(value)} GPU` : bytes(value));

export interface ResizeProps {
  tenant: Tenant;
  owner: string;
  machine: Stats;
  /** Compute in use, in thousandths; nothing: not measured. */
  used: number | null;
  memoryUsed: number;
}

export function Resize(props: ResizeProps) {
  const { tenant } = props;
  const [wish, setWish] = useState<{ what: What; from: number; to: number }>();
  const edges = edgesOf(tenant, props.machine);
  if (!edges) return null;
  const change = async (what: What, value: number) => {
    await patch('/v1/tenants/{id}', changeOf(what, value), { of: tenant.name });
    await stats.refresh();
  };
  const act = async () => {
    if (!wish) return;
    await change(wish.what, wish.to);
    toast(`${tenant.name} holds ${worded(wish.what, wish.to)}${tenant.slices.length > 1 ? ' of each of its GPUs' : ''}`,
      { label: 'Undo', act: () => change(wish.what, wish.from) });
  };
  return (
    <div class="resize">
      <Bar edge={edges.share} used={props.used ?? 0} owner={props.owner} tenant={tenant.name} wish={wish?.what === 'share' ? wish.to : undefined}
        onWish={(to) => setWish({ what: 'share', from: edges.share.now, to })} />
      <Bar edge={edges.memory} used={props.memoryUsed} owner={props.owner} tenant={tenant.name} wish={wish?.what === 'memory' ? wish.to : undefined}
        onWish={(to) => setWish({ what: 'memory', from: edges.memory.now, to })} />
      {wish && (
        <Confirm title={`Change what ${tenant.name} holds?`} action="Change" onClose={() => setWish(undefined)} onDo={act} text={
          <>
            <p>{names[wish.what]}: {worded(wish.what, wish.from)} → <strong>{worded(wish.what, wish.to)}</strong>{tenant.slices.length > 1 ? `, on each of its ${tenant.slices.length} GPUs` : ''}. It takes effect at once, for everything that runs in it.</p>
            {wish.what === 'memory' && wish.to < props.memoryUsed && <p class="bad">It has {bytes(props.memoryUsed)} now: it keeps that, and gets no more.</p>}
            <Code text={setCommand(tenant.name, wish.what, wish.to)} label="Command" />
          </>
        } />
      )}
    </div>
  );
}

function Bar(props: { edge: Edge; used: number; owner: string; tenant: string; wish: number | undefined; onWish: (to: number) => void }) {
  const { edge } = props;
  const bar = useRef<HTMLDivElement>(null);
  const [pulled, setPulled] = useState<number>();
  const at = pulled ?? props.wish ?? edge.now;
  const place = (value: number) => `${Math.min(100, (100 * value) / edge.whole)}%`;

  const valueAt = (event: TargetedPointerEvent<HTMLElement>): number => {
    const box = bar.current?.getBoundingClientRect();
    return box && box.width > 0 ? ((event.clientX - box.left) / box.width) * edge.whole : edge.now;
  };
  const onDown = (event: TargetedPointerEvent<HTMLElement>) => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setPulled(edge.now);
  };
  const onMove = (event: TargetedPointerEvent<HTMLElement>) => {
    if (pulled !== undefined && event.currentTarget.hasPointerCapture(event.pointerId)) setPulled(rest(edge, valueAt(event), event.shiftKey));
  };
  const settle = (to: number | undefined) => {
    setPulled(undefined);
    if (to !== undefined && to !== edge.now) props.onWish(to);
  };
  const onKey = (event: TargetedKeyboardEvent<HTMLElement>) => {
    const to = moved(edge, at, event.key, event.shiftKey);
    if (to !== undefined) setPulled(to);
    else if (event.key === 'Enter' || event.key === ' ') settle(pulled);
    else if (event.key === 'Escape' && pulled !== undefined) setPulled(undefined);
    else return;
    event.preventDefault();
  };
  const what = names[edge.what];
  return (
    <div>
      <div class="resize-bar" ref={bar}>
        <span class="mine" style={{ width: place(at), background: colourOf(props.owner) }} />
        <span class="in-use" style={{ width: place(Math.min(props.used, edge.whole)), background: colourOf(props.owner) }} />
        <span class="taken" style={{ left: place(edge.most) }} title="held by others" />
        <span class="edge" role="slider" tabIndex={0} style={{ left: place(at) }}
          aria-label={`${what} of ${props.tenant}`} aria-valuemin={edge.least} aria-valuemax={edge.most} aria-valuenow={at}
          aria-valuetext={`${worded(edge.what, at)}; at most ${worded(edge.what, edge.most)}`}
          title={`Pull, or use the arrow keys and Enter: ${worded(edge.what, edge.least)} to ${worded(edge.what, edge.most)}`}
          onPointerDown={onDown} onPointerMove={onMove} onPointerUp={() => settle(pulled)} onPointerCancel={() => settle(undefined)}
          onKeyDown={onKey} onBlur={() => { if (pulled !== undefined) setPulled(undefined); }} />
      </div>
      <div class="quiet">
        {what}: <strong>{worded(edge.what, at)}</strong>
        {at === edge.now ? ` · uses ${edge.what === 'share' ? share(props.used) : bytes(props.used)}` : ` instead of ${worded(edge.what, edge.now)}${pulled === undefined ? '' : '; Enter or let go'}`}
      </div>
    </div>
  );
}
