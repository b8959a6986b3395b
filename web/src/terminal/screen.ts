// A terminal that is drawn: xterm.js as the console uses it. What a job writes is not trusted: it gets
// no links that lead anywhere, no clipboard and no title.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { keepToPolicy } from './policy';

keepToPolicy(document);

/** Of the lines above those that are seen. */
const kept = 10_000;

/** The same colours as the output of a job has (style.css). */
const theme = {
  background: '#0f141b', foreground: '#d6dde6', cursor: '#7fb2f5', cursorAccent: '#0f141b',
  selectionBackground: '#2f4f7f', selectionInactiveBackground: '#2a3a52',
  black: '#2a333f', red: '#ff8a80', green: '#7fd49b', yellow: '#efc35c',
  blue: '#82b1ff', magenta: '#d9a3f0', cyan: '#6fd3d8', white: '#d6dde6',
  brightBlack: '#9aa5b3', brightRed: '#ffa9a2', brightGreen: '#a2e8b8', brightYellow: '#ffdb8a',
  brightBlue: '#a9c9ff', brightMagenta: '#ecc3fb', brightCyan: '#a0ebee', brightWhite: '#ffffff',
};

export interface ScreenEvents {
  typed: (bytes: Uint8Array) => void;
  resized: (rows: number, columns: number) => void;
  /** Whoever is at the keyboard wants to be out of the terminal. */
  left: () => void;
}

export class Screen {
  /** Goes into the page, out of it and back, and keeps what it shows. */
  readonly element = document.createElement('div');
  private readonly terminal: Terminal;
  private readonly fit = new FitAddon();
  private readonly watch = new ResizeObserver(() => this.adapt());
  private isOpen = false;

  constructor(name: string, events: ScreenEvents) {
    this.element.className = 'terminal-screen';
    this.terminal = new Terminal({
      theme,
      fontFamily: "ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', monospace",
      fontSize: 13,
      scrollback: kept,
      minimumContrastRatio: 4.5,
      linkHandler: { activate: () => undefined },
    });
    this.terminal.loadAddon(this.fit);
    const encoder = new TextEncoder();
    this.terminal.onData((text) => events.typed(encoder.encode(text)));
    this.terminal.onBinary((text) => events.typed(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    this.terminal.onResize(({ rows, cols }) => events.resized(rows, cols));
    this.terminal.attachCustomKeyEventHandler((event) => this.isForTerminal(event, events));
    this.element.setAttribute('role', 'group');
    this.element.setAttribute('aria-label', name);
  }

  get rows(): number {
    return this.terminal.rows;
  }
  get columns(): number {
    return this.terminal.cols;
  }

  /** In a part of the page that has its size. */
  show(place: HTMLElement): void {
    place.append(this.element);
    if (!this.isOpen) this.terminal.open(this.element);
    this.isOpen = true;
    this.watch.observe(place);
    this.adapt();
    this.terminal.focus();
  }

  hide(): void {
    this.watch.disconnect();
    this.element.remove();
  }

  /** `done` once it was interpreted. */
  write(bytes: Uint8Array, done: () => void): void {
    this.terminal.write(bytes, done);
  }

  /** A line of ours, on a line of its own. */
  say(text: string): void {
    const isAtBegin = this.terminal.buffer.active.cursorX === 0;
    this.terminal.write(`${isAtBegin ? '' : '\r\n'}\x1b[0;2m${text}\x1b[0m\r\n`);
  }

  /** What is typed from now on is for nobody. */
  stopInput(): void {
    this.terminal.options.disableStdin = true;
  }

  set readsOut(reads: boolean) {
    this.terminal.options.screenReaderMode = reads;
  }

  focus(): void {
    this.terminal.focus();
  }

  async copy(): Promise<void> {
    const text = this.terminal.getSelection();
    if (text !== '') await navigator.clipboard.writeText(text);
  }

  dispose(): void {
    this.hide();
    this.terminal.dispose();
  }

  private adapt(): void {
    if (this.element.isConnected && this.element.clientWidth > 0) this.fit.fit();
  }

  private isForTerminal(event: KeyboardEvent, events: ScreenEvents): boolean {
    if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true;
    // Pasted by the browser, which asks nobody for it.
    if (event.code === 'KeyV') return false;
    if (event.code !== 'KeyC' && event.code !== 'Enter') return true;
    event.preventDefault();
    if (event.type === 'keydown' && event.code === 'KeyC') void this.copy().catch(() => undefined);
    if (event.type === 'keydown' && event.code === 'Enter') events.left();
    return false;
  }
}
