// Carries a channel over WebSockets, one after the other, for as long as there is something to carry.
// What it does it does through `Means`, so that its tests need neither network nor time.
import { signal, type Signal } from '@preact/signals';
import { backOff } from '../live/event_stream';
import type { Channel } from './channel';

/** One connection. Nothing is called after `closed`. */
export interface Wire {
  send(bytes: Uint8Array<ArrayBuffer>): void;
  close(): void;
}
export interface WireEvents {
  opened: () => void;
  received: (bytes: Uint8Array) => void;
  closed: () => void;
}

/** What a look at the daemon says about a channel whose connection was refused: that it may work
 * later, or why it never will. */
export type Outlook = { later: true } | { later: false; why: string };

export interface Means {
  connect(events: WireEvents): Wire;
  look(): Promise<Outlook>;
  /** Ends early when the network comes back. */
  pause(milliseconds: number): Promise<void>;
  now(): number;
  random(): number;
}

export type Carried = 'connecting' | 'carried' | 'lost' | 'over';

// After goodbye, for the other end to hear it.
const farewell = 1000;
// A connection that was cut sooner is no reason to try the next one at once: who opens connections
// only to end them would be asked without a pause.
const steady = 1000;

export class Carrier {
  readonly state: Signal<Carried> = signal<Carried>('connecting');
  /** Why it is over; empty: because it was ended here. */
  why = '';
  private wire: Wire | undefined;
  private leaving = false;

  /** `keep`: for so many milliseconds the other end waits for somebody to come back. */
  constructor(
    private readonly channel: Channel,
    private readonly means: Means,
    private readonly received: (bytes: Uint8Array) => void,
    private readonly keep: () => number,
  ) {}

  /** Until it is over. */
  async run(): Promise<void> {
    let failures = 0;
    let lost = this.means.now();
    while (!this.isOver()) {
      const began = this.means.now();
      const was = await this.once();
      if (was === 'carried') {
        lost = this.means.now();
        if (lost - began >= steady) failures = 0;
      }
      if (this.isOver()) return;
      const ending = this.channel.failure ?? (this.leaving ? '' : undefined);
      if (ending !== undefined) {
        this.end(ending);
        return;
      }
      this.state.value = 'lost';
      const outlook: Outlook = was === 'carried' ? { later: true } : await this.means.look();
      if (this.isOver()) return;
      const isTooLate = this.means.now() - lost > this.keep();
      if (!outlook.later || isTooLate) {
        this.end(outlook.later ? 'nobody could reach it for so long that it was closed' : outlook.why);
        return;
      }
      failures += 1;
      // The first try is at once: a proxy that was restarted, say.
      if (failures > 1) await this.means.pause(Math.min(2000, backOff(failures - 2, this.means.random()) / 4));
    }
  }

  /** Something is to be sent. */
  flush(): void {
    if (this.state.value !== 'carried') return;
    for (let one = this.channel.outgoing(); one; one = this.channel.outgoing()) this.wire?.send(one);
  }

  /** The connection may be dead without having said so: a new one finds out, and costs nothing. */
  renew(): void {
    if (this.state.value === 'carried') this.wire?.close();
  }

  /** Nobody comes back. What was started through the channel ends. */
  leave(): void {
    if (this.leaving || this.isOver()) return;
    this.leaving = true;
    this.channel.sayGoodbye();
    if (this.state.value !== 'carried') {
      this.end('');
      return;
    }
    this.flush();
    void this.means.pause(farewell).then(() => this.wire?.close());
  }

  private isOver(): boolean {
    return this.state.value === 'over';
  }

  private end(why: string): void {
    this.why = why;
    this.state.value = 'over';
    this.wire?.close();
  }

  /** One connection, from its beginning to its end; whether anything ever came over it. */
  private once(): Promise<'carried' | 'refused'> {
    if (this.state.value !== 'lost') this.state.value = 'connecting';
    return new Promise((resolve) => {
      let was: 'carried' | 'refused' = 'refused';
      this.wire = this.means.connect({
        opened: () => {
          this.channel.connect();
          this.state.value = 'carried';
          this.flush();
        },
        received: (bytes) => {
          was = 'carried';
          for (const piece of this.channel.receive(bytes)) this.received(piece);
          this.flush();
          // The other end has heard why before the connection ends.
          if (this.channel.failure !== undefined) this.wire?.close();
        },
        closed: () => {
          this.wire = undefined;
          resolve(was);
        },
      });
    });
  }
}
