import { describe, expect, it } from 'vitest';
import { FrameReader, inputFrames, maxFrame, windowFrame } from './frames';

// As src/sys/frames.cc writes them.
const started = [20, 1, 0, 0, 0, 1];
const output = [16, 3, 0, 0, 0, 0xe2, 0x82, 0xac];
const end = [21, 11, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 97, 98, 99];
const refused = [22, 3, 0, 0, 0, 2, 110, 111];

describe('frames', () => {
  it('are read in pieces of any size', () => {
    const bytes = Uint8Array.from([...started, ...output, ...end, ...refused]);
    const wanted = [
      { kind: 'started', takesInput: true },
      { kind: 'output', bytes: Uint8Array.from([0xe2, 0x82, 0xac]) },
      { kind: 'end', exitCode: 0, signal: 15, reason: 'abc' },
      { kind: 'refused', reason: 'no' },
    ];
    for (const size of [1, 2, 7, bytes.length]) {
      const reader = new FrameReader();
      const frames = [];
      for (let at = 0; at < bytes.length; at += size) frames.push(...reader.push(bytes.subarray(at, at + size)));
      expect(frames).toEqual(wanted);
    }
  });

  it('carry what is typed, and the size of the window', () => {
    expect([...(inputFrames(Uint8Array.from([97]))[0] ?? [])]).toEqual([1, 1, 0, 0, 0, 97]);
    expect(inputFrames(new Uint8Array())).toEqual([]);
    expect([...windowFrame(24, 300)]).toEqual([4, 4, 0, 0, 0, 24, 0, 44, 1]);
    const long = inputFrames(new Uint8Array(2 * maxFrame + 1));
    expect(long.map((one) => one.length - 5)).toEqual([maxFrame, maxFrame, 1]);
  });

  it('that are too long, too short or unknown are refused', () => {
    for (const bytes of [[16, 255, 255, 255, 127], [99, 0, 0, 0, 0], [20, 0, 0, 0, 0], [21, 1, 0, 0, 0, 0], [22, 0, 0, 0, 0]]) {
      expect(() => new FrameReader().push(Uint8Array.from(bytes))).toThrow(/a frame/);
    }
  });
});
