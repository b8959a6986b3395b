// Server-sent events from a fetch: unlike EventSource it can carry the session's key, and tells why
// it ended. The parser is pure.

export interface ServerEvent {
  id: string;
  kind: string;
  data: string;
}

/** Takes the stream apart, in pieces as they come. Comments are signs of life. */
export class EventParser {
  private rest = '';
  private id = '';
  private kind = '';
  private data: string[] = [];

  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + piece).split('\n');
    this.rest = lines.pop() ?? '';
    for (const whole of lines) {
      const line = whole.endsWith('\r') ? whole.slice(0, -1) : whole;
      if (line === '') {
        if (this.data.length > 0) {
          events.push({ id: this.id, kind: this.kind || 'message', data: this.data.join('\n') });
        }
        this.kind = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'id') this.id = value;
      else if (field === 'event') this.kind = value;
      else if (field === 'data') this.data.push(value);
    }
    return events;
  }
}

/** How long to wait before the next try: twice as long each time, a little different for each. */
export function backOff(failures: number, random: number): number {
  const most = Math.min(15_000, 500 * 2 ** Math.min(failures, 10));
  return Math.round(most * (0.5 + random / 2));
}
