// What the owner of a job, or an admin, can do to it; each is asked about first, and what can be
// taken back says so.
import { useState } from 'preact/hooks';
import { patch, post, remove } from '../api/client';
import { isEnded, type Job } from '../api/types';
import { Confirm, Copy } from '../components/parts';
import { toast } from '../components/toast';
import { isAdmin, me } from '../live/store';
import { hasMembers, openTerminals, terminalAt, terminalName } from '../terminal/open_terminals';
import { share } from '../text/format';
import { submitCommand } from './command';
import { asWritten } from './spec';

type Act = 'suspend' | 'resume' | 'requeue' | 'delete' | 'change';

export function mayChange(job: Job): boolean {
  return isAdmin.value || me.data.value?.name === job.owner;
}

export function JobActions(props: { job: Job; onChanged: () => void }) {
  const { job } = props;
  const [asking, setAsking] = useState<Act>();
  const of = job.id;
  const name = job.name === '' ? `job ${job.id}` : job.name;
  const done = (text: string, undo?: { label: string; act: () => Promise<unknown> }) => {
    toast(text, undo && { label: undo.label, act: () => undo.act().then(props.onChanged) });
    props.onChanged();
  };
  const close = () => setAsking(undefined);
  const ended = isEnded(job);
  return (
    <div class="buttons start">
      {mayChange(job) && !ended && (
        <>
          {job.state === 'suspended' ? (
            <button type="button" class="primary" onClick={() => setAsking('resume')}>Resume</button>
          ) : (
            <button type="button" onClick={() => setAsking('suspend')} disabled={job.state === 'stopping'}>Suspend …</button>
          )}
          {job.state === 'running' && <button type="button" onClick={() => setAsking('requeue')}>Requeue …</button>}
          <button type="button" onClick={() => setAsking('change')}>Change …</button>
          <button type="button" class="danger" onClick={() => setAsking('delete')} disabled={job.state === 'stopping'}>Delete …</button>
        </>
      )}
      {mayChange(job) && hasMembers(job) && job.running.length === 1 && <TerminalLink job={job} rank={job.running[0]?.rank ?? 0} />}
      {job.spec && <Copy text={submitCommand(asWritten(job.spec))} label="Copy as command" />}
      {job.spec && <a class="button small" href={`/submit?from=${job.id}`}>Submit again …</a>}
      {asking === 'suspend' && (
        <Confirm title={`Suspend ${name}?`} text={job.state === 'queued' ? 'It keeps waiting in vain until it is resumed.' : 'Its members are told to end and its GPUs go to others. Resumed, it is started again.'}
          action="Suspend" onClose={close} onDo={async () => {
            await post('/v1/jobs/{id}/suspend', undefined, { of });
            done(`${name} is suspended`, { label: 'Resume', act: () => post('/v1/jobs/{id}/resume', undefined, { of }) });
          }} />
      )}
      {asking === 'resume' && (
        <Confirm title={`Resume ${name}?`} text="It waits for its turn again." action="Resume" onClose={close} onDo={async () => {
          await post('/v1/jobs/{id}/resume', undefined, { of });
          done(`${name} goes on`, { label: 'Suspend', act: () => post('/v1/jobs/{id}/suspend', undefined, { of }) });
        }} />
      )}
      {asking === 'requeue' && (
        <Confirm title={`Requeue ${name}?`} text="Its members are told to end, and it waits for its turn again." action="Requeue" onClose={close} onDo={async () => {
          await post('/v1/jobs/{id}/requeue', undefined, { of });
          done(`${name} waits again`);
        }} />
      )}
      {asking === 'delete' && (
        <Confirm title={`Delete ${name}?`} danger
          text={job.state === 'running' ? 'Its members are told to end. This cannot be taken back; its output stays.' : 'It will not be started. This cannot be taken back.'}
          action="Delete" onClose={close} onDo={async () => {
            await remove('/v1/jobs/{id}', { of });
            done(`${name} is deleted`);
          }} />
      )}
      {asking === 'change' && <Change job={job} name={name} onClose={close} onDone={done} />}
    </div>
  );
}

/** To a shell in one of its members. */
export function TerminalLink(props: { job: Job; rank: number }) {
  const isOpen = openTerminals.value.has(terminalName(props.job.id, props.rank));
  return (
    <a class="button small" href={terminalAt(props.job.id, props.rank)}
      {...(props.job.running.length > 1 ? { 'aria-label': `Terminal in member ${props.rank}` } : {})}>
      Terminal{isOpen && <small class="good">open</small>}
    </a>
  );
}

function Change(props: { job: Job; name: string; onClose: () => void; onDone: (text: string) => void }) {
  const { job } = props;
  const waits = job.state === 'queued' || job.state === 'suspended';
  const [priority, setPriority] = useState(String(job.priority));
  const [limit, setLimit] = useState(secondsText(job.spec?.time_limit));
  const [queue, setQueue] = useState(job.queue);
  const [gpu, setGpu] = useState(share(job.shareThousandths));
  const act = async () => {
    const body: { priority?: number; time_limit?: string | null; queue?: string; gpu?: string } = {};
    if (priority !== String(job.priority)) body.priority = Number(priority);
    if (limit !== secondsText(job.spec?.time_limit)) body.time_limit = limit === '' ? null : limit;
    if (waits && queue !== job.queue) body.queue = queue;
    if (waits && gpu !== share(job.shareThousandths)) body.gpu = gpu;
    await patch('/v1/jobs/{id}', body, { of: job.id });
    props.onDone(`${props.name} is changed`);
  };
  return (
    <Confirm title={`Change ${props.name}`} action="Change" onClose={props.onClose} onDo={act} text={
      <div class="fields">
        <label class="field">Priority, -1000 to 1000
          <input type="number" min={-1000} max={1000} value={priority} onInput={(event) => setPriority(event.currentTarget.value)} />
        </label>
        <label class="field">Time limit, like 2h; empty: none
          <input value={limit} onInput={(event) => setLimit(event.currentTarget.value)} />
        </label>
        {waits && (
          <>
            <label class="field">Queue
              <input value={queue} onInput={(event) => setQueue(event.currentTarget.value)} />
            </label>
            <label class="field">GPU: {gpu}
              <input type="range" min={0.05} max={Math.max(1, Number(gpu))} step={0.05} value={gpu} aria-label="Share of a GPU"
                onInput={(event) => setGpu(String(Number(event.currentTarget.value)))} />
            </label>
          </>
        )}
      </div>
    } />
  );
}

function secondsText(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'number' ? `${value}s` : value;
}
