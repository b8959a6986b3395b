// The lines of a log as they come, up to a bound; the oldest go first. Pure.
import { plainText } from '../text/ansi';

export class LogBuffer {
  private lines: string[] = [];
  private rest = '';
  /** Lines that had to go. */
  dropped = 0;
  /** Changes with every change. */
  version = 0;

  constructor(private readonly most = 200_000) {}

  get length(): number {
    return this.lines.length + (this.rest === '' ? 0 : 1);
  }

  line(index: number): string {
    return index < this.lines.length ? (this.lines[index] ?? '') : this.rest;
  }

  append(text: string): void {
    this.version += 1;
    const pieces = (this.rest + text).split('\n');
    this.rest = pieces.pop() ?? '';
    for (const piece of pieces) this.lines.push(piece);
    // Cut in large steps: taking away at the front costs as much as all that stays.
    if (this.lines.length > this.most * 1.1) {
      const over = this.lines.length - this.most;
      this.lines = this.lines.slice(over);
      this.dropped += over;
    }
  }

  clear(): void {
    this.lines = [];
    this.rest = '';
    this.dropped = 0;
    this.version += 1;
  }

  /** Indexes of the lines that have the text, whatever its case. */
  find(text: string, from = 0): number[] {
    const wanted = text.toLowerCase();
    const found: number[] = [];
    if (wanted === '') return found;
    for (let i = from; i < this.length; i += 1) {
      const line = this.line(i);
      const shown = line.includes('\x1b') ? plainText(line) : line;
      if (shown.toLowerCase().includes(wanted)) found.push(i);
    }
    return found;
  }
}
