// A shell in a member and the terminal that shows it: they go on while other pages are looked at, and
// over restarts of the daemon, until the shell ends or somebody closes it.
import { effect, signal, type Signal } from '@preact/signals';
import { open, Refusal, Unreachable } from '../api/client';
import { sessionKey, signedOut } from '../api/session';
import { Carrier, type Means, type Outlook, type Wire, type WireEvents } from '../channel/carrier';
import { Channel, newChannelName } from '../channel/channel';
import { FrameReader, inputFrames, windowFrame, type Frame } from '../channel/frames';
import { pause } from '../live/pause';
import { openTerminals, terminalName, tooManyEnded } from './open_terminals';
import { Screen } from './screen';

/** Of those that a WebSocket offers: what it carries, and the key of the session, because it has no
 * headers of its own. */
const channelProtocol = 'divvy.channel.v1';
const keyProtocol = 'divvy-session.';

/** The best shell that is there. */
const shell = ['sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash; exec sh'];

export type TerminalState = 'starting' | 'open' | 'reconnecting' | 'ended';

/** How a command ended, in words. */
export function ending(frame: Extract<Frame, { kind: 'end' }>): string {
  const how = frame.signal > 0 ? `was ended by signal ${frame.signal}` : `ended with status ${frame.exitCode}`;
  return `The shell ${how}${frame.reason === '' ? '' : ` (${frame.reason})`}.`;
}

export class TerminalSession {
  readonly state: Signal<TerminalState> = signal<TerminalState>('starting');
  /** Once it has ended: how. */
  readonly end = signal('');
  readonly screen: Screen;
  /** Where whoever leaves it by the keyboard goes: the page that shows it just now says so. */
  onLeft: () => void = () => undefined;
  private readonly channel = new Channel();
  private readonly frames = new FrameReader();
  private readonly name = newChannelName();
  private readonly carrier: Carrier;
  private keep = 600_000;
  private isBegun = false;
  private isCarried = false;
  private readonly stop: (() => void)[] = [];

  constructor(
    readonly job: number,
    readonly rank: number,
  ) {
    this.screen = new Screen(`Terminal in member ${rank} of job ${job}`, {
      typed: (bytes) => this.send(inputFrames(bytes)),
      resized: (rows, columns) => this.send([windowFrame(rows, columns)]),
      left: () => this.onLeft(),
    });
    this.carrier = new Carrier(this.channel, this.means(), (bytes) => this.receive(bytes), () => this.keep);
    this.stop.push(this.carrier.state.subscribe((carried) => {
      if (this.state.value === 'ended') return;
      if (carried === 'over') this.finish(this.carrier.why === '' ? 'The terminal was closed.' : `The connection to the job is lost: ${this.carrier.why}.`);
      else if (carried === 'lost') this.state.value = 'reconnecting';
      else if (carried === 'carried' && this.state.value === 'reconnecting') this.state.value = 'open';
    }));
  }

  /** Once the screen is in the page and has its size. */
  async start(): Promise<void> {
    if (this.isBegun) return;
    this.isBegun = true;
    const because = await this.begin();
    if (because !== '') this.finish(because);
    if (this.isEnded()) return;
    this.isCarried = true;
    this.noticeSleep();
    await this.carrier.run();
  }

  /** Hangs up: the shell and what it runs end. */
  close(): void {
    if (this.state.value === 'ended') return;
    this.finish('The terminal was closed.');
  }

  dispose(): void {
    this.close();
    this.screen.dispose();
  }

  private async begin(): Promise<string> {
    const body = {
      kind: 'exec', rank: this.rank, channel: this.name, terminal: true, command: shell,
      environment: ['TERM=xterm-256color', 'COLORTERM=truecolor'],
      rows: this.screen.rows, columns: this.screen.columns,
    };
    for (let tries = 1; ; tries += 1) {
      try {
        // The same name again opens nothing new, should the answer have been lost.
        const answer = await open('post', '/v1/jobs/{id}/channels', { of: this.job }, { body });
        const { keep_seconds: seconds } = (await answer.json()) as { keep_seconds?: number };
        if (seconds !== undefined && seconds > 0) this.keep = seconds * 1000;
        return '';
      } catch (error) {
        const mayWork = error instanceof Unreachable || (error instanceof Refusal && isTemporary(error.status));
        if (!mayWork || tries === 5) return error instanceof Error ? error.message : String(error);
        await pause(200 * 2 ** tries);
      }
    }
  }

  // Asked anew each time: it changes while something is awaited.
  private isEnded(): boolean {
    return this.state.value === 'ended';
  }

  private send(frames: Uint8Array[]): void {
    if (this.state.value === 'ended') return;
    for (const frame of frames) this.channel.write(frame);
    this.carrier.flush();
  }

  private receive(bytes: Uint8Array): void {
    let frames: Frame[];
    try {
      frames = this.frames.push(bytes);
    } catch (error) {
      this.finish(`What comes from the job cannot be understood: ${error instanceof Error ? error.message : String(error)}.`);
      return;
    }
    for (const frame of frames) {
      if (frame.kind === 'output') this.screen.write(frame.bytes, () => undefined);
      else if (frame.kind === 'started') this.state.value = 'open';
      else if (frame.kind === 'refused') this.finish(`It was not started: ${frame.reason}`);
      else this.finish(ending(frame));
    }
    // Not before it is drawn may more come: who writes faster than that waits.
    this.screen.write(new Uint8Array(), () => {
      this.channel.handedOn(bytes.length);
      this.carrier.flush();
    });
  }

  private finish(how: string): void {
    if (this.state.value === 'ended') return;
    this.end.value = how;
    this.state.value = 'ended';
    this.screen.say(how);
    this.screen.stopInput();
    if (this.isCarried) this.carrier.leave();
    for (const stop of this.stop) stop();
    const left = new Set(openTerminals.value);
    left.delete(terminalName(this.job, this.rank));
    openTerminals.value = left;
  }

  // A connection that was cut while the machine slept says nothing.
  private noticeSleep(): void {
    const every = 5000;
    let last = Date.now();
    const timer = setInterval(() => {
      const now = Date.now();
      if (now - last > 4 * every) this.carrier.renew();
      last = now;
    }, every);
    const renew = () => this.carrier.renew();
    addEventListener('online', renew);
    this.stop.push(() => {
      clearInterval(timer);
      removeEventListener('online', renew);
    });
  }

  private means(): Means {
    const path = `/v1/jobs/${this.job}/channels?channel=${this.name}&rank=${this.rank}`;
    return {
      connect: (events) => webSocket(path, events),
      look: () => look(path),
      pause,
      now: () => Date.now(),
      random: () => Math.random(),
    };
  }
}

function isTemporary(status: number): boolean {
  return status === 429 || status === 502 || status === 503 || status === 504;
}

function webSocket(path: string, events: WireEvents): Wire {
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${path}`, [channelProtocol, keyProtocol + sessionKey()]);
  socket.binaryType = 'arraybuffer';
  let isClosed = false;
  socket.onopen = () => events.opened();
  socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
    if (!isClosed && typeof event.data !== 'string') events.received(new Uint8Array(event.data));
  };
  const closed = () => {
    if (isClosed) return;
    isClosed = true;
    events.closed();
  };
  socket.onclose = closed;
  return {
    send: (bytes) => socket.send(bytes),
    // The other side may be gone, and then nobody answers to the goodbye of a WebSocket.
    close: () => {
      socket.close();
      queueMicrotask(closed);
    },
  };
}

/** A page is not told why a WebSocket was refused; without the upgrade the daemon says whether there
 * is such a channel: 426 if so. */
async function look(path: string): Promise<Outlook> {
  try {
    await open('get', path);
    return { later: true };
  } catch (error) {
    if (!(error instanceof Refusal)) return { later: true };
    if (error.status === 426 || isTemporary(error.status)) return { later: true };
    return { later: false, why: error.message };
  }
}

const sessions = new Map<string, TerminalSession>();

/** The terminal of a member, if there is one: open, or ended and still to be read. */
export function findTerminal(job: number, rank: number): TerminalSession | undefined {
  return sessions.get(terminalName(job, rank));
}

/** A new one, in the place of one that has ended. */
export function openTerminal(job: number, rank: number): TerminalSession {
  const name = terminalName(job, rank);
  sessions.get(name)?.dispose();
  sessions.delete(name);
  const ended = [...sessions].filter(([, one]) => one.state.value === 'ended').map(([key]) => key);
  for (const old of tooManyEnded(ended)) {
    sessions.get(old)?.dispose();
    sessions.delete(old);
  }
  const session = new TerminalSession(job, rank);
  sessions.set(name, session);
  openTerminals.value = new Set([...openTerminals.value, name]);
  return session;
}

// Whoever signs out leaves nothing open behind.
effect(() => {
  if (!signedOut.value) return;
  for (const session of sessions.values()) session.dispose();
  sessions.clear();
});

// A page that is closed or loaded again cannot come back to its terminals; ask first.
addEventListener('beforeunload', (event) => {
  if (openTerminals.value.size > 0) event.preventDefault();
});
addEventListener('pagehide', () => {
  for (const session of sessions.values()) session.close();
});
