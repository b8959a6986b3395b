// Something that the daemon knows and that changes: asked for when somebody looks at it, again when
// an event says that it changed, and every so often where use is measured and no event tells.
import { signal, type Signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { Refusal } from '../api/client';
import { listen, type Happening } from './watch';

export interface Options {
  /** Asked again after so long; at least ten times as long as the answer took. */
  every?: number;
  /** Whether an event changes it. */
  on?: (event: Happening) => boolean;
}

// Many events at once are one reason to look again. Where they never cease, what takes long to answer
// is asked for so much less often that the daemon has something else to do as well.
const gather = 150;
const breather = 3;

export class Live<T> {
  readonly data: Signal<T | undefined> = signal(undefined);
  readonly error: Signal<string> = signal('');
  /** When the data came. */
  readonly at = signal(0);
  private users = 0;
  private asking = false;
  private again = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private due = 0;
  /** The last answer, in milliseconds. */
  private took = 0;
  private stop: (() => void) | undefined;

  constructor(
    private readonly ask: () => Promise<T>,
    private readonly options: Options = {},
  ) {}

  use(): () => void {
    this.users += 1;
    if (this.users === 1) {
      const onEvent = this.options.on;
      this.stop = listen((event) => {
        if (event === 'everything' || onEvent?.(event)) this.gather();
      });
      document.addEventListener('visibilitychange', this.seen);
      if (!this.asking) void this.refresh();
    }
    return () => {
      this.users -= 1;
      if (this.users > 0) return;
      this.stop?.();
      document.removeEventListener('visibilitychange', this.seen);
      clearTimeout(this.timer);
      this.timer = undefined;
    };
  }

  private readonly seen = () => {
    if (document.visibilityState === 'visible') void this.refresh();
  };

  private gather(): void {
    if (this.asking) this.again = true;
    else this.soon(Math.max(gather, breather * this.took));
  }

  // Never later than was said before: events that keep coming would put it off for ever.
  private soon(milliseconds: number): void {
    const due = performance.now() + milliseconds;
    if (this.timer !== undefined && this.due <= due) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.refresh();
    }, milliseconds);
  }

  async refresh(): Promise<void> {
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    const began = performance.now();
    let wait = this.options.every;
    try {
      const data = await this.ask();
      this.data.value = data;
      this.error.value = '';
      this.at.value = Date.now();
      this.took = performance.now() - began;
      if (wait !== undefined) wait = Math.max(wait, 10 * this.took);
    } catch (error) {
      this.error.value = error instanceof Error ? error.message : String(error);
      if (error instanceof Refusal && error.status !== 429) wait = undefined;
      else if (wait !== undefined) wait = Math.max(wait, 5000);
    } finally {
      this.asking = false;
    }
    if (this.users === 0) return;
    if (this.again) {
      this.again = false;
      this.gather();
    } else if (wait !== undefined && document.visibilityState === 'visible') {
      this.soon(wait);
    }
  }
}

/** Looks at it for as long as the component is there. */
export function useLive<T>(live: Live<T>): T | undefined {
  // Asked for before the page is drawn, which takes longer than the answer.
  useLayoutEffect(() => live.use(), [live]);
  return live.data.value;
}
