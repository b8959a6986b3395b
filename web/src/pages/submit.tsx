// A job, put together: the command and the job file that are the same, and whether it would fit,
// while one types.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TargetedSubmitEvent } from 'preact';
import { get, post } from '../api/client';
import type { JobSpec } from '../api/types';
import { Code, Field, Problem } from '../components/parts';
import { toast } from '../components/toast';
import { machinesOf } from '../fleet/model';
import { emptyForm, formOf, specOf, type Form } from '../jobs/form';
import { beyondOptions, submitCommand } from '../jobs/command';
import { placesFor } from '../jobs/fit';
import { asWritten } from '../jobs/spec';
import { Live, useLive } from '../live/live';
import { health, owners, stats } from '../live/store';
import { navigate, query } from '../router';
import { plural } from '../text/format';
import { yaml } from '../text/yaml';

const queues = new Live(() => get('/v1/queues'));

function newKey(): string {
  return `console-${Date.now()}-${Math.random()}`;
}

export function SubmitPage() {
  const [form, setForm] = useState<Form>(emptyForm);
  const [problem, setProblem] = useState('');
  const [checked, setChecked] = useState<{ text: string; good: boolean }>();
  const [busy, setBusy] = useState(false);
  // Of one submit, however often it is sent.
  const key = useRef(newKey());
  const known = useLive(queues);
  const from = query.value.get('from') ?? '';

  useEffect(() => {
    if (from === '') return;
    get('/v1/jobs/{id}', { of: from }).then(
      (job) => {
        if (job.spec) setForm(formOf(asWritten(job.spec)));
      },
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  }, [from]);

  const made = useMemo(() => specOf(form), [form]);
  const spec: JobSpec | undefined = 'spec' in made ? made.spec : undefined;
  const text = spec ? JSON.stringify(spec) : '';

  // The daemon has the last word: it is asked when one stops typing for a moment.
  useEffect(() => {
    setChecked(undefined);
    if (!spec) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      post('/v1/jobs', spec, { query: { dry_run: true }, signal: stop.signal }).then(
        () => setChecked({ text: 'The daemon would take it.', good: true }),
        (error: unknown) => {
          if (!stop.signal.aborted) setChecked({ text: error instanceof Error ? error.message : String(error), good: false });
        },
      );
    }, 350);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);

  const set = (part: Partial<Form>) => setForm({ ...form, ...part });
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (!spec) return;
    setBusy(true);
    setProblem('');
    try {
      const answer = await post('/v1/jobs', spec, { headers: { 'idempotency-key': key.current } });
      const first = answer.items[0];
      toast(`${first?.name ?? 'The job'} is submitted`);
      navigate(answer.items.length > 1 ? '/jobs' : `/jobs/${first?.id ?? ''}`);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
    key.current = newKey();
  };

  return (
    <div class="page">
      <header class="head"><h1>Submit a job</h1></header>
      <form class="submit" onSubmit={(event) => void submit(event)}>
        <div class="card fields">
          <Field label="Command" hint="As in a shell, without its expansions; for those: sh -c '…'" wide>
            <textarea rows={3} class="mono" required autoFocus spellcheck={false} value={form.command} placeholder="python train.py --epochs 3"
              onInput={(event) => set({ command: event.currentTarget.value })} />
          </Field>
          <Field label="Name"><input value={form.name} placeholder="from the command" onInput={(event) => set({ name: event.currentTarget.value })} /></Field>
          <Field label="Queue">
            <input list="queues" value={form.queue} placeholder="default" onInput={(event) => set({ queue: event.currentTarget.value })} />
            <datalist id="queues">{(known?.items ?? []).map((queue) => <option key={queue.path} value={queue.path} />)}</datalist>
          </Field>
          <Field label={`GPU for each member`} hint="0.3, 1, 2.5">
            <span class="pair">
              <input value={form.gpu} inputMode="decimal" class="short" onInput={(event) => set({ gpu: event.currentTarget.value })} />
              <input type="range" min={0.05} max={1} step={0.05} aria-label="Share of one GPU" value={Number(form.gpu) || 1}
                onInput={(event) => set({ gpu: String(Number(event.currentTarget.value)) })} />
            </span>
          </Field>
          <Field label="GPU memory" hint="10GiB; empty: the same part as of the GPU">
            <input value={form.gpuMemory} placeholder="its part" onInput={(event) => set({ gpuMemory: event.currentTarget.value })} />
          </Field>
          <Field label="Members" hint="They start together or not at all">
            <input type="number" min={1} value={form.members} onInput={(event) => set({ members: event.currentTarget.value })} />
          </Field>
          <Field label="Class">
            <select value={form.class} onChange={(event) => set({ class: event.currentTarget.value as Form['class'] })}>
              <option value="batch">batch</option>
              <option value="latency">latency: goes before batch on a GPU</option>
            </select>
          </Field>
          <Field label="Time limit" hint="2h, 30m; empty: none"><input value={form.timeLimit} onInput={(event) => set({ timeLimit: event.currentTarget.value })} /></Field>
          <Field label="Expected" hint="How long it will take; lets it pass others"><input value={form.expected} onInput={(event) => set({ expected: event.currentTarget.value })} /></Field>
          <Field label="Priority" hint="-1000 to 1000"><input type="number" min={-1000} max={1000} value={form.priority} onInput={(event) => set({ priority: event.currentTarget.value })} /></Field>
          <Field label="Container image" hint="Empty: a plain process"><input value={form.image} placeholder="docker.io/pytorch/pytorch" onInput={(event) => set({ image: event.currentTarget.value })} /></Field>
          <Field label="Working folder" hint="On the machine"><input value={form.folder} onInput={(event) => set({ folder: event.currentTarget.value })} /></Field>
          <Field label="Retries" hint="When it fails"><input type="number" min={0} max={1000} value={form.retries} onInput={(event) => set({ retries: event.currentTarget.value })} /></Field>
          <Field label="Environment" hint="NAME=VALUE, one on each line" wide>
            <textarea rows={2} class="mono" spellcheck={false} value={form.environment} onInput={(event) => set({ environment: event.currentTarget.value })} />
          </Field>
          <label class="check"><input type="checkbox" checked={form.cap} onChange={() => set({ cap: !form.cap })} /> Never more than its share, even of an idle GPU</label>
        </div>
        <div class="preview">
          <section class="card" aria-label="Would it fit?">
            <h2>Would it fit?</h2>
            {'problem' in made ? <p class="quiet">{made.problem}</p> : <Fit spec={made.spec} />}
            {checked && <p class={checked.good ? 'good' : 'problem'} role="status">{checked.text}</p>}
            <Problem text={problem} />
            <div class="buttons start"><button type="submit" class="primary" disabled={busy || !spec || checked?.good === false}>Submit</button></div>
          </section>
          {spec && (
            <section class="card" aria-label="The same elsewhere">
              <h2>The same as a command</h2>
              <Code text={submitCommand(spec)} label="Command" />
              {beyondOptions(spec).length > 0 && <p class="quiet">{beyondOptions(spec).join(', ')}: only in a job file.</p>}
              <h2 class="gap">and as a job file</h2>
              <Code text={yaml(spec)} label="Job file" />
            </section>
          )}
        </div>
      </form>
    </div>
  );
}

function Fit(props: { spec: JobSpec }) {
  const now = useLive(stats);
  const healthNow = useLive(health);
  const machines = useMemo(() => (now ? machinesOf(now, healthNow ?? [], owners.value) : []), [now, healthNow]);
  if (!now) return null;
  const answer = placesFor(props.spec, machines);
  const total = machines.reduce((sum, machine) => sum + machine.gpus.length, 0);
  return (
    <div>
      {answer.fits ? (
        <p><strong class="good">There is room now.</strong> {answer.where.join(', ')}{answer.more > 0 ? ` and ${plural(answer.more, 'more place')}` : ''} could take {answer.needed > 1 ? `one of its ${answer.needed} parts` : 'it'}.{now.waiting > 0 ? ` ${plural(now.waiting, 'job waits', 'jobs wait')} already, and may go first.` : ''}</p>
      ) : (
        <p><strong class="warn">Not now.</strong> {answer.found} of {total} GPUs {answer.found === 1 ? 'has' : 'have'} room for one part of it, and {plural(answer.needed, 'is', 'are')} needed. It would wait.</p>
      )}
    </div>
  );
}
