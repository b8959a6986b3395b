import { describe, expect, it } from 'vitest';
import { Carrier, type Means, type Outlook, type Wire, type WireEvents } from './carrier';
import { Channel } from './channel';

const text = (value: string) => new TextEncoder().encode(value);
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

/** A daemon with one channel, whose connections the test makes and cuts. */
class Place implements Means {
  readonly there = new Channel();
  heard = '';
  time = 0;
  looks = 0;
  outlook: Outlook = { later: true };
  attempts = 0;
  isUp = true;
  private events: WireEvents | undefined;

  connect(events: WireEvents): Wire {
    this.attempts += 1;
    this.events = events;
    if (!this.isUp) {
      queueMicrotask(() => this.cut());
      return { send: () => undefined, close: () => undefined };
    }
    queueMicrotask(() => {
      this.there.connect();
      this.events?.opened();
      this.flush();
    });
    return {
      send: (bytes) => {
        if (this.events !== events) return;
        for (const piece of this.there.receive(bytes)) this.heard += new TextDecoder().decode(piece);
        this.flush();
      },
      close: () => queueMicrotask(() => {
        if (this.events === events) this.cut();
      }),
    };
  }
  cut(): void {
    const events = this.events;
    this.events = undefined;
    events?.closed();
  }
  flush(): void {
    for (let one = this.there.outgoing(); one && this.events; one = this.there.outgoing()) this.events.received(one);
  }
  look(): Promise<Outlook> {
    this.looks += 1;
    return Promise.resolve(this.outlook);
  }
  pause(milliseconds: number): Promise<void> {
    this.time += Math.max(1, milliseconds);
    return settled().then(() => undefined);
  }
  now(): number {
    return this.time;
  }
  random(): number {
    return 1;
  }
}

function carry(place: Place, keep = 600_000) {
  const channel = new Channel();
  let got = '';
  const carrier = new Carrier(channel, place, (bytes) => {
    got += new TextDecoder().decode(bytes);
    channel.handedOn(bytes.length);
  }, () => keep);
  const over = carrier.run();
  return { channel, carrier, over, got: () => got };
}

describe('a carrier', () => {
  it('goes on over a new connection where the last one was cut', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    expect(one.carrier.state.value).toBe('carried');
    one.channel.write(text('a'));
    one.carrier.flush();
    place.there.write(text('1'));
    place.flush();
    place.cut();
    one.channel.write(text('b'));
    place.there.write(text('2'));
    one.carrier.flush();
    await settled();
    expect(one.carrier.state.value).toBe('carried');
    expect(place.heard).toBe('ab');
    expect(one.got()).toBe('12');
    expect(place.attempts).toBe(2);
    // It was a connection: nothing was refused, so there is nothing to look for.
    expect(place.looks).toBe(0);
  });

  it('tries again while the daemon is away, and says so', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    place.isUp = false;
    place.cut();
    for (let i = 0; i < 5; i += 1) await settled();
    expect(one.carrier.state.value).toBe('lost');
    one.channel.write(text('typed meanwhile'));
    place.isUp = true;
    for (let i = 0; i < 3; i += 1) await settled();
    expect(one.carrier.state.value).toBe('carried');
    expect(place.heard).toBe('typed meanwhile');
  });

  it('ends where there is nothing to come back to', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    place.isUp = false;
    place.outlook = { later: false, why: 'there is no such channel' };
    place.cut();
    await one.over;
    expect(one.carrier.state.value).toBe('over');
    expect(one.carrier.why).toBe('there is no such channel');
  });

  it('ends when the other end has waited long enough', async () => {
    const place = new Place();
    const one = carry(place, 10_000);
    await settled();
    place.isUp = false;
    place.cut();
    await one.over;
    expect(one.carrier.why).toContain('for so long');
    expect(place.time).toBeGreaterThan(10_000);
  });

  it('ends with the failure of the channel, from either end', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    place.there.fail('too many bytes are kept for this member');
    place.flush();
    await one.over;
    expect(one.carrier.why).toBe('too many bytes are kept for this member');
  });

  it('says goodbye, and is over', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    one.carrier.leave();
    await one.over;
    expect(one.carrier.state.value).toBe('over');
    expect(one.carrier.why).toBe('');
    const away = new Place();
    away.isUp = false;
    const other = carry(away);
    other.carrier.leave();
    await other.over;
    expect(other.carrier.state.value).toBe('over');
  });

  it('makes a new connection when it is told that the old one may be dead', async () => {
    const place = new Place();
    const one = carry(place);
    await settled();
    one.carrier.renew();
    await settled();
    await settled();
    expect(place.attempts).toBe(2);
    expect(one.carrier.state.value).toBe('carried');
  });

  it('takes its time where connections end before anything came over them', async () => {
    class Door extends Place {
      override connect(events: WireEvents): Wire {
        this.attempts += 1;
        if (this.attempts > 500) throw new Error('connections are opened without a pause');
        queueMicrotask(() => {
          events.opened();
          events.closed();
        });
        return { send: () => undefined, close: () => undefined };
      }
    }
    const place = new Door();
    const one = carry(place, 10_000);
    await one.over;
    expect(one.carrier.why).toContain('for so long');
    expect(place.looks).toBe(place.attempts);
  });

  it('takes its time where connections end as soon as they have begun', async () => {
    class Flapping extends Place {
      override connect(events: WireEvents): Wire {
        const wire = super.connect({
          ...events,
          received: (bytes) => {
            events.received(bytes);
            this.cut();
          },
        });
        if (this.attempts === 20) this.outlook = { later: false, why: 'enough' };
        if (this.attempts >= 20) this.isUp = false;
        return wire;
      }
    }
    const place = new Flapping();
    const one = carry(place);
    await one.over;
    expect(place.time).toBeGreaterThan(1000);
  });
});
