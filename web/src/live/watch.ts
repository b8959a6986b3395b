// The one stream of events that the whole console lives on. Opened while the page is visible and
// somebody is signed in; after a cut it is opened again behind the last event, and whoever listens
// is told to look at everything again. A browser has few connections to one server, so a page that
// nobody looks at gives its own back.
import { effect, signal } from '@preact/signals';
import { open, Refusal } from '../api/client';
import { signedOut } from '../api/session';
import { backOff, EventParser } from './event_stream';
import { pause } from './pause';

export interface Happening {
  kind: string;
  job?: number;
  gpu?: number;
  state?: string;
}

export type Connection = 'live' | 'connecting' | 'stale' | 'off';
export const connection = signal<Connection>('off');
/** When the daemon was last heard, in Unix milliseconds. */
export const lastHeard = signal(0);
/** Why it is stale, in a sentence. */
export const trouble = signal('');

// The daemon says something every 15 seconds.
const silence = 25_000;

type Listener = (event: Happening | 'everything') => void;
const listeners = new Set<Listener>();

/** Called for each event, and with 'everything' after a gap. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(event: Happening | 'everything'): void {
  for (const listener of listeners) listener(event);
}

let running: AbortController | undefined;

async function follow(last: string, stop: AbortSignal, onHeard: () => void, onEvent: (id: string) => void) {
  const cut = new AbortController();
  const abort = () => cut.abort();
  stop.addEventListener('abort', abort);
  let timer = setTimeout(abort, silence);
  try {
    const query = last === '' ? { about: 'all', from: 'now' } : { about: 'all' };
    const headers: Record<string, string> = last === '' ? {} : { 'last-event-id': last };
    const response = await open('get', '/v1/watch', { query, headers, signal: cut.signal });
    const reader = response.body?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(abort, silence);
      lastHeard.value = Date.now();
      onHeard();
      if (connection.value !== 'live') {
        connection.value = 'live';
        trouble.value = '';
        tell('everything');
      }
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        onEvent(event.id);
        tell(parse(event.kind, event.data));
      }
    }
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', abort);
  }
}

function parse(kind: string, data: string): Happening {
  try {
    return { ...(JSON.parse(data) as Happening), kind };
  } catch {
    return { kind };
  }
}

// Asked anew each time: it changes while something is awaited.
const isOver = (stop: AbortSignal): boolean => stop.aborted;

async function run(stop: AbortSignal): Promise<void> {
  let last = '';
  let failures = 0;
  while (!isOver(stop)) {
    if (connection.value !== 'stale') connection.value = 'connecting';
    try {
      await follow(last, stop, () => {
        failures = 0;
      }, (id) => {
        last = id;
      });
      trouble.value = 'the daemon ended the stream of events';
    } catch (error) {
      if (isOver(stop)) return;
      trouble.value = error instanceof Error ? error.message : 'the stream of events was cut';
      if (error instanceof Refusal && error.status === 401) return;
    }
    if (isOver(stop)) return;
    connection.value = 'stale';
    failures += 1;
    await pause(backOff(failures, Math.random()), stop);
  }
}

function update(): void {
  const wanted = !signedOut.value && document.visibilityState === 'visible';
  if (wanted && !running) {
    running = new AbortController();
    void run(running.signal);
  } else if (!wanted && running) {
    running.abort();
    running = undefined;
    connection.value = 'off';
  }
}

export function startWatching(): void {
  document.addEventListener('visibilitychange', update);
  effect(update);
}
