import { expect, it } from 'vitest';
import { backOff, EventParser } from './event_stream';

it('gives the same events however the stream is cut', () => {
  const text = ': hello\n\nid: 7\nevent: job\ndata: {"a":1}\n\nid: 8\r\nevent: gpu\r\ndata: one\r\ndata: two\r\n\r\n';
  const whole = new EventParser().push(text);
  expect(whole).toEqual([
    { id: '7', kind: 'job', data: '{"a":1}' },
    { id: '8', kind: 'gpu', data: 'one\ntwo' },
  ]);
  for (let cut = 0; cut < text.length; cut += 1) {
    const parser = new EventParser();
    expect([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]).toEqual(whole);
  }
});

it('waits longer after each failure, and never for ever', () => {
  expect(backOff(1, 1)).toBe(1000);
  expect(backOff(1, 0)).toBe(500);
  expect(backOff(50, 1)).toBe(15_000);
});
