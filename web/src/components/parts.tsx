// Small things that every page is made of.
import type { ComponentChildren, TargetedMouseEvent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { colourOf } from '../colour';
import { now } from '../live/store';
import { exact, relative } from '../text/format';

/** A time, relative; the exact one is told on hover. */
export function Time(props: { at: number | null | undefined; none?: string }) {
  if (props.at === null || props.at === undefined) return <span class="quiet">{props.none ?? '–'}</span>;
  return (
    <time dateTime={new Date(props.at).toISOString()} title={exact(props.at)}>
      {relative(props.at, now.value)}
    </time>
  );
}

const stateLook: Record<string, string> = {
  queued: 'wait', starting: 'go', running: 'go', stopping: 'warn', suspended: 'rest',
  succeeded: 'good', failed: 'bad', cancelled: 'rest',
  healthy: 'good', suspect: 'warn', quarantined: 'bad', probation: 'warn', lost: 'bad',
  idle: 'rest', waiting: 'wait', held: 'rest', failing: 'bad', admin: 'go', user: 'rest',
};

export function State(props: { of: string; title?: string }) {
  return (
    <span class={`state ${stateLook[props.of] ?? 'rest'}`} title={props.title}>
      {props.of}
    </span>
  );
}

export function Owner(props: { name: string }) {
  return (
    <span class="owner">
      <i style={{ background: colourOf(props.name) }} aria-hidden="true" />
      {props.name}
    </span>
  );
}

export function Meter(props: { part: number; mark?: number; label: string; colour?: string }) {
  const width = (part: number) => `${Math.min(100, Math.max(0, part * 100))}%`;
  return (
    <span class="meter" role="meter" aria-label={props.label} aria-valuemin={0} aria-valuemax={1}
      aria-valuenow={Number(Math.min(1, Math.max(0, props.part)).toFixed(3))} title={props.label}>
      <span class="fill" style={{ width: width(props.part), background: props.colour ?? '' }} />
      {props.mark !== undefined && <span class="mark" style={{ left: width(props.mark) }} />}
    </span>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{props.title}</p>
      {props.children}
    </div>
  );
}

export function Loading(props: { what: string }) {
  return (
    <div class="empty" role="status">
      <span class="spinner" aria-hidden="true" /> {props.what}
    </div>
  );
}

export function Problem(props: { text: string }) {
  return props.text === '' ? null : (
    <p class="problem" role="alert">
      {props.text}
    </p>
  );
}

export function Fact(props: { name: string; children: ComponentChildren; title?: string }) {
  return (
    <div class="fact" title={props.title}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

export function Copy(props: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1600);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => {
    void navigator.clipboard.writeText(props.text).then(
      () => setDone(true),
      () => undefined,
    );
  };
  return (
    <button type="button" class="small" onClick={copy} aria-live="polite">
      {done ? 'Copied' : props.label}
    </button>
  );
}

export function Code(props: { text: string; label: string }) {
  return (
    <div class="code">
      <pre tabIndex={0} aria-label={props.label}>{props.text}</pre>
      <Copy text={props.text} label="Copy" />
    </div>
  );
}

export interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A modal dialog of the browser's own: it keeps the focus, and Escape closes it. */
export function Dialog(props: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const onClick = (event: TargetedMouseEvent<HTMLDialogElement>) => {
    if (event.target === element.current) props.onClose();
  };
  return (
    <dialog ref={element} onClose={props.onClose} onClick={onClick} aria-label={props.title}>
      <div class="inside">
        <h2>{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

/** Asks before it is done; what the daemon says against it stays in the dialog. */
export function Confirm(props: {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  onClose: () => void;
  onDo: () => Promise<unknown>;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const act = async () => {
    setBusy(true);
    setProblem('');
    try {
      await props.onDo();
      props.onClose();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <div>{props.text}</div>
      <Problem text={problem} />
      <div class="buttons">
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
        <button type="button" class={props.danger ? 'danger' : 'primary'} disabled={busy}
          onClick={() => void act()}>
          {props.action}
        </button>
      </div>
    </Dialog>
  );
}

export function Field(props: { label: string; hint?: string; wide?: boolean; children: ComponentChildren }) {
  return (
    <label class={`field${props.wide ? ' across' : ''}`}>
      <span>{props.label}{props.hint && <small> · {props.hint}</small>}</span>
      {props.children}
    </label>
  );
}
