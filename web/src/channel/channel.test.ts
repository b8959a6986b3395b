import { webcrypto } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { Channel, channelWindow, Kind, message, newChannelName } from './channel';

// Every browser has it; Node has it by this name from 20 on.
if (!('crypto' in globalThis)) vi.stubGlobal('crypto', webcrypto);

const hex = (bytes: Uint8Array | undefined) => [...(bytes ?? [])].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
const text = (value: string) => new TextEncoder().encode(value);

function all(channel: Channel): Uint8Array[] {
  const messages = [];
  for (let one = channel.outgoing(); one; one = channel.outgoing()) messages.push(one);
  return messages;
}

/** Numbers that look random and are the same each time. */
function dice(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

describe('a channel', () => {
  it('says in bytes what the other end understands', () => {
    // Kind, four bytes of length, eight of a number, as src/sys/channel.cc writes them.
    const channel = new Channel();
    channel.write(text('hi'));
    channel.connect();
    expect(hex(channel.outgoing())).toBe('01 00 00 00 00 00 00 00 00 00 00 00 00');
    expect(channel.outgoing()).toBeUndefined();
    channel.receive(message(Kind.hello, 0));
    expect(hex(channel.outgoing())).toBe('02 02 00 00 00 00 00 00 00 00 00 00 00 68 69');
    channel.sayGoodbye();
    expect(hex(channel.outgoing())).toBe('06 00 00 00 00 00 00 00 00 00 00 00 00');
  });

  it('loses nothing and doubles nothing, wherever connections are cut', () => {
    for (let seed = 1; seed <= 80; seed += 1) {
      const roll = dice(seed);
      const window = 1 << (4 + roll(8));
      const ends = [0, 1].map(() => ({ channel: new Channel(window), sent: [] as number[], got: [] as number[], held: 0 }));
      // What is under way from each end to the other.
      let wires: number[][] = [[], []];
      const wanted = 1000;
      const connect = () => {
        wires = [[], []];
        for (const { channel } of ends) channel.connect();
      };
      connect();
      const step = (mayCut: boolean) => {
        const i = roll(2);
        const [me, wire, peer] = [ends[i], wires[i], ends[1 - i]];
        if (!me || !wire || !peer) throw new Error('there are two ends');
        if (me.sent.length < wanted && roll(2) === 0) {
          const piece = Uint8Array.from({ length: Math.min(wanted - me.sent.length, 1 + roll(3 * window)) }, () => roll(256));
          me.sent.push(...piece);
          me.channel.write(piece);
        }
        const next = roll(2) === 0 ? me.channel.outgoing() : undefined;
        if (next) wire.push(...next);
        for (const piece of peer.channel.receive(Uint8Array.from(wire.splice(0, roll(window))))) {
          peer.got.push(...piece);
          peer.held += piece.length;
        }
        // Whoever reads is slow at times.
        const count = roll(peer.held + 1);
        peer.held -= count;
        peer.channel.handedOn(count);
        expect(peer.held).toBeLessThanOrEqual(window);
        if (mayCut && roll(40) === 0) connect();
      };
      for (let i = 0; i < 600; i += 1) step(true);
      connect();
      const isDone = () => ends.every((one, i) => one.sent.length === wanted && ends[1 - i]?.got.length === wanted);
      for (let i = 0; i < 200_000 && !isDone(); i += 1) step(false);
      for (const { channel } of ends) expect(channel.failure, `seed ${seed}`).toBeUndefined();
      expect(ends[1]?.got, `seed ${seed}`).toEqual(ends[0]?.sent);
      expect(ends[0]?.got, `seed ${seed}`).toEqual(ends[1]?.sent);
    }
  }, 60_000);

  it('sends no more than the window before the other end has handed some on', () => {
    const channel = new Channel(16);
    channel.connect();
    channel.write(new Uint8Array(40));
    channel.receive(message(Kind.hello, 0));
    const size = () => all(channel).reduce((sum, one) => sum + one.length - 13, 0);
    expect(size()).toBe(16);
    channel.receive(message(Kind.ack, 10));
    expect(size()).toBe(10);
    expect(channel.unacknowledged).toBe(30);
  });

  it('acknowledges what was handed on, not what has come', () => {
    const channel = new Channel(16);
    channel.connect();
    all(channel);
    channel.receive(message(Kind.hello, 0));
    expect(channel.receive(message(Kind.data, 0, new Uint8Array(8)))).toEqual([new Uint8Array(8)]);
    expect(all(channel)).toEqual([]);
    channel.handedOn(4);
    expect(all(channel)).toEqual([message(Kind.ack, 4)]);
  });

  it('knows the end when everything before it was handed on', () => {
    const channel = new Channel();
    channel.connect();
    all(channel);
    channel.receive(message(Kind.hello, 0));
    channel.receive(message(Kind.data, 0, text('bye')));
    channel.receive(message(Kind.end, 3));
    expect(channel.isAtEnd).toBe(true);
    expect(all(channel)).toEqual([]);
    channel.handedOn(3);
    expect(all(channel)).toEqual([message(Kind.ack, 4)]);
    // Over a new connection the end counts as received.
    channel.connect();
    expect(channel.outgoing()).toEqual(message(Kind.hello, 4));
  });

  it('passes a failure of the other end on', () => {
    const channel = new Channel();
    channel.connect();
    channel.receive(message(Kind.hello, 0));
    const whole = message(Kind.failure, 0, text('too many bytes are kept'));
    channel.receive(whole.subarray(0, 20));
    expect(channel.failure).toBeUndefined();
    channel.receive(whole.subarray(20));
    expect(channel.failure).toBe('too many bytes are kept');
  });

  it.each([
    ['no greeting', message(Kind.data, 0, text('x'))],
    ['two greetings', Uint8Array.from([...message(Kind.hello, 0), ...message(Kind.hello, 0)])],
    ['bytes that were never written', message(Kind.hello, 7)],
    ['a gap', Uint8Array.from([...message(Kind.hello, 0), ...message(Kind.data, 5, text('x'))])],
    ['an acknowledgement of what was not sent', Uint8Array.from([...message(Kind.hello, 0), ...message(Kind.ack, 1)])],
    ['an end elsewhere', Uint8Array.from([...message(Kind.hello, 0), ...message(Kind.end, 1)])],
    ['an unknown kind', Uint8Array.from([...message(Kind.hello, 0), ...message(9, 0)])],
    ['a message that is too long', Uint8Array.from([...message(Kind.hello, 0), 2, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0])],
    ['more than the window', Uint8Array.from([...message(Kind.hello, 0), ...message(Kind.data, 0, new Uint8Array(65))])],
  ])('fails, and says so to the other end: %s', (_, bytes) => {
    const channel = new Channel(64);
    channel.connect();
    channel.outgoing();
    expect(channel.receive(bytes)).toEqual([]);
    expect(channel.failure).not.toBeUndefined();
    channel.connect();
    channel.outgoing();
    channel.receive(message(Kind.hello, 0));
    expect(channel.outgoing()?.[0]).toBe(Kind.failure);
    channel.write(text('nobody hears that'));
    expect(channel.outgoing()).toBeUndefined();
  });

  it('takes any bytes without throwing', () => {
    for (let seed = 1; seed <= 800; seed += 1) {
      const roll = dice(seed);
      const channel = new Channel(64);
      channel.write(new Uint8Array(roll(100)));
      channel.connect();
      all(channel);
      const bytes = [...message(Kind.hello, roll(3) === 0 ? roll(200) : 0)];
      for (let i = roll(6); i > 0; i -= 1) bytes.push(...message(1 + roll(6), roll(80), Uint8Array.from({ length: roll(40) }, () => roll(256))));
      for (let i = roll(8); i > 0; i -= 1) bytes[roll(bytes.length)] = roll(256);
      let got = 0;
      for (let at = 0; at < bytes.length;) {
        const past = at + 1 + roll(20);
        for (const piece of channel.receive(Uint8Array.from(bytes.slice(at, past)))) got += piece.length;
        all(channel);
        at = past;
      }
      expect(got).toBeLessThanOrEqual(64);
    }
  });

  it('has a name that nobody guesses', () => {
    expect(newChannelName()).toMatch(/^[0-9a-f]{64}$/);
    expect(newChannelName()).not.toBe(newChannelName());
    expect(channelWindow).toBe(4_194_304);
  });
});
