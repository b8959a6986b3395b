// The browser's end of a channel: a byte stream in both directions that goes on over any number of
// connections, one after the other. The other end is src/sys/channel.h, which says what goes over a
// connection; docs/decisions/0027-channels.md says why. Pure: whoever has the connection brings what
// came and takes what goes out.

/** Of the bytes that one end keeps until the other has handed them on; both ends have the same. */
export const channelWindow = 4 << 20;
/** Of the bytes of one message. */
const maxData = 256 << 10;
const maxReason = 4096;
const headSize = 13;

export const Kind = { hello: 1, data: 2, ack: 3, end: 4, failure: 5, goodbye: 6 } as const;

export function message(kind: number, number: number, bytes: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(headSize + bytes.length);
  const view = new DataView(whole.buffer);
  view.setUint8(0, kind);
  view.setUint32(1, bytes.length, true);
  view.setBigUint64(5, BigInt(number), true);
  whole.set(bytes, headSize);
  return whole;
}

/** Bytes with numbers, of which the first ones are dropped and others come behind. */
class Kept {
  first = 0;
  past = 0;
  private pieces: Uint8Array[] = [];

  append(bytes: Uint8Array): void {
    if (bytes.length > 0) this.pieces.push(bytes);
    this.past += bytes.length;
  }

  drop(past: number): void {
    while (this.first < past) {
      const piece = this.pieces[0];
      if (!piece) return;
      const count = Math.min(piece.length, past - this.first);
      if (count === piece.length) this.pieces.shift();
      else this.pieces[0] = piece.subarray(count);
      this.first += count;
    }
  }

  part(from: number, past: number): Uint8Array {
    const bytes = new Uint8Array(past - from);
    let at = this.first;
    for (const piece of this.pieces) {
      if (at >= past) break;
      const begin = Math.max(from, at);
      const end = Math.min(past, at + piece.length);
      if (begin < end) bytes.set(piece.subarray(begin - at, end - at), begin - from);
      at += piece.length;
    }
    return bytes;
  }
}

export class Channel {
  // Outwards.
  private readonly kept = new Kept();
  /** Behind the window. */
  private waiting: Uint8Array[] = [];
  private next = 0;
  private helloReceived = false;
  private helloDue = false;
  private failureDue = false;
  private goodbyeDue = false;

  // Inwards.
  private received = 0;
  private handed = 0;
  private acknowledged = 0;
  private ended = false;
  private head = new Uint8Array(headSize);
  private headLength = 0;
  private kind = 0;
  private number = 0;
  private left = 0;
  private reason: number[] = [];

  private failed: string | undefined;

  constructor(private readonly window = channelWindow) {}

  /** Why nothing more comes or goes, from either end. */
  get failure(): string | undefined {
    return this.failed;
  }
  /** The other end has said all that it will. */
  get isAtEnd(): boolean {
    return this.ended;
  }
  /** Bytes that the other end has not handed on yet, as far as is known here. */
  get unacknowledged(): number {
    return this.kept.past - this.kept.first + this.waiting.reduce((sum, one) => sum + one.length, 0);
  }

  /** There is a new connection. */
  connect(): void {
    this.headLength = 0;
    this.left = 0;
    this.helloReceived = false;
    this.helloDue = true;
    this.failureDue = this.failed !== undefined;
    this.next = this.kept.first;
  }

  write(bytes: Uint8Array): void {
    if (this.failed !== undefined) return;
    this.waiting.push(bytes.slice());
    this.fill();
  }

  /** So many of the bytes that receive() gave were dealt with; the other end may send more. */
  handedOn(count: number): void {
    this.handed += count;
  }

  fail(reason: string): void {
    if (this.failed !== undefined) return;
    this.failed = reason;
    this.failureDue = true;
  }

  /** Nobody will come back: the other end may end what was started through this channel. */
  sayGoodbye(): void {
    this.goodbyeDue = true;
  }

  /** The next message for the connection; nothing: none is due. */
  outgoing(): Uint8Array<ArrayBuffer> | undefined {
    if (this.helloDue) {
      this.helloDue = false;
      this.acknowledged = 0;
      return message(Kind.hello, this.received + (this.ended ? 1 : 0));
    }
    if (this.failureDue && this.helloReceived) {
      this.failureDue = false;
      return message(Kind.failure, 0, new TextEncoder().encode(this.failed).subarray(0, maxReason));
    }
    if (this.goodbyeDue) {
      this.goodbyeDue = false;
      return message(Kind.goodbye, 0);
    }
    if (this.failed !== undefined || !this.helloReceived) return undefined;
    // Rarely: the other end needs to hear of it only before it has to wait, and in the end.
    const isAllHanded = this.ended && this.handed === this.received;
    const done = this.handed + (isAllHanded ? 1 : 0);
    if (done > this.acknowledged && (done - this.acknowledged >= this.window / 4 || isAllHanded)) {
      this.acknowledged = done;
      return message(Kind.ack, done);
    }
    if (this.next < this.kept.past) {
      const from = this.next;
      this.next = Math.min(this.kept.past, from + maxData);
      return message(Kind.data, from, this.kept.part(from, this.next));
    }
    return undefined;
  }

  /** What came over the connection, however it is cut: those of its bytes that are new. After an
   * error, which is the failure of the channel, there are none. */
  receive(bytes: Uint8Array): Uint8Array[] {
    const news: Uint8Array[] = [];
    let rest = bytes;
    while (rest.length > 0) {
      if (this.headLength < headSize) {
        const now = rest.subarray(0, headSize - this.headLength);
        this.head.set(now, this.headLength);
        this.headLength += now.length;
        rest = rest.subarray(now.length);
        if (this.headLength < headSize) break;
        const wrong = this.begin();
        if (wrong !== '') return this.broken(wrong);
      }
      const now = rest.subarray(0, this.left);
      rest = rest.subarray(now.length);
      this.left -= now.length;
      if (this.kind === Kind.failure) this.reason.push(...now);
      if (this.kind === Kind.data && now.length > 0 && this.failed === undefined) {
        const wrong = this.takeData(now, news);
        if (wrong !== '') return this.broken(wrong);
      }
      if (this.left > 0) break;
      if (this.kind === Kind.failure && this.failed === undefined) {
        this.failed = new TextDecoder().decode(Uint8Array.from(this.reason));
      }
      this.headLength = 0;
    }
    return news;
  }

  private fill(): void {
    for (;;) {
      const first = this.waiting[0];
      const room = this.window - (this.kept.past - this.kept.first);
      if (!first || room === 0) return;
      const now = first.subarray(0, room);
      this.kept.append(now);
      if (now.length === first.length) this.waiting.shift();
      else this.waiting[0] = first.subarray(now.length);
    }
  }

  private broken(reason: string): Uint8Array[] {
    this.fail(reason);
    return [];
  }

  // What is wrong with it; empty: nothing.
  private begin(): string {
    const view = new DataView(this.head.buffer);
    this.kind = view.getUint8(0);
    this.left = view.getUint32(1, true);
    this.number = Number(view.getBigUint64(5, true));
    this.reason = [];
    const most = this.kind === Kind.data ? maxData : this.kind === Kind.failure ? maxReason : 0;
    if (this.left > most) return `a message of ${this.left} bytes in a channel`;
    if (!this.helloReceived && this.kind !== Kind.hello) {
      return "a channel's connection that does not begin with a greeting";
    }
    switch (this.kind) {
      case Kind.hello:
        return this.takeHello();
      case Kind.ack:
        return this.takeAck();
      case Kind.end:
        return this.takeEnd();
      case Kind.data:
      case Kind.failure:
      case Kind.goodbye:
        return '';
      default:
        return `a message of kind ${this.kind} in a channel`;
    }
  }

  private takeHello(): string {
    if (this.helloReceived) return 'a second greeting on one connection of a channel';
    this.helloReceived = true;
    if (this.failed !== undefined) return '';
    if (this.number < this.kept.first) {
      return `bytes from number ${this.number} on are wanted again, but only those from ${this.kept.first} on are kept`;
    }
    if (this.number > this.kept.past) {
      return `${this.number} bytes are said to have come of ${this.kept.past}`;
    }
    this.next = this.number;
    return '';
  }

  private takeAck(): string {
    if (this.failed !== undefined) return '';
    if (this.number > this.next || this.number < this.kept.first) {
      return `byte ${this.number} of a channel is acknowledged, which was not sent`;
    }
    this.kept.drop(this.number);
    this.fill();
    return '';
  }

  private takeData(bytes: Uint8Array, news: Uint8Array[]): string {
    if (this.number > this.received) {
      return `bytes ${this.received} to ${this.number - 1} of a channel are missing`;
    }
    const had = this.received - this.number;
    this.number += bytes.length;
    if (had >= bytes.length) return '';
    if (this.ended) return 'bytes behind the end of a channel';
    const fresh = bytes.slice(had);
    if (this.received + fresh.length - this.handed > this.window) {
      return `more than ${this.window} bytes of a channel that nobody asked for`;
    }
    this.received += fresh.length;
    news.push(fresh);
    return '';
  }

  private takeEnd(): string {
    if (this.failed !== undefined) return '';
    if (this.number !== this.received) {
      return `a channel that ends at byte ${this.received} and not at ${this.number}`;
    }
    this.ended = true;
    return '';
  }
}

/** 256 random bits: nobody finds another's channel. */
export function newChannelName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
