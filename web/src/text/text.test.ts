import { describe, expect, it } from 'vitest';
import { pieces, plainText } from './ansi';
import { bytes, duration, gpuHours, gpuShare, parseSize, relative, share } from './format';
import { join, quote, split } from './shell';
import { yaml } from './yaml';

describe('format', () => {
  it('writes sizes with their unit', () => {
    expect(bytes(0)).toBe('0 B');
    expect(bytes(10 * 1024 ** 3)).toBe('10 GiB');
    expect(bytes(1.5 * 1024 ** 4)).toBe('1.5 TiB');
    expect(bytes(150_109_880_320)).toBe('140 GiB');
    expect(bytes(1023)).toBe('1023 B');
  });
  it('reads sizes as the commands do', () => {
    expect(parseSize('10GiB')).toBe(10 * 1024 ** 3);
    expect(parseSize(' 1.5 Gi ')).toBe(1.5 * 1024 ** 3);
    expect(parseSize('10GB')).toBe(10e9);
    expect(parseSize('512')).toBe(512);
    expect(parseSize('ten')).toBeUndefined();
    expect(parseSize('10XB')).toBeUndefined();
  });
  it('writes shares and what members get', () => {
    expect(share(300)).toBe('0.3');
    expect(share(2000)).toBe('2');
    expect(gpuShare(4, 1000)).toBe('4 × 1 GPU');
    expect(gpuShare(1, 0, 1024 ** 3)).toBe('1 GiB');
  });
  it('writes times', () => {
    expect(duration(59_400)).toBe('59 s');
    expect(duration(3_600_000)).toBe('1 h');
    expect(duration(93_784_000)).toBe('1 d 2 h');
    expect(relative(1000, 61_000)).toBe('1 min ago');
    expect(relative(65_000, 5_000)).toBe('in 1 min');
    expect(relative(5_400, 5_000)).toBe('just now');
  });
  it('adds up GPU hours', () => {
    expect(gpuHours(3_600_000)).toBe('1.00');
    expect(gpuHours(360_000_000)).toBe('100');
  });
});

describe('shell', () => {
  it('quotes only what needs it', () => {
    expect(join(['python', 'train.py', '--lr=0.1', 'a b', "it's", ''])).toBe(
      `python train.py --lr=0.1 'a b' 'it'\\''s' ''`,
    );
  });
  it('takes apart what it put together', () => {
    for (const words of [['a'], ['a b', '"', "'", '\\', '$X', '', ';&|'], ['sh', '-c', 'echo "x"; exit 1']]) {
      expect(split(words.map(quote).join(' '))).toEqual({ words });
    }
  });
  it('says what is not closed', () => {
    expect(split(`a "b`)).toEqual({ error: 'a " is not closed' });
    expect(split(`a 'b`)).toEqual({ error: "a ' is not closed" });
    expect(split('a \\')).toHaveProperty('error');
    expect(split('"a\\"b\\n"')).toEqual({ words: ['a"b\\n'] });
  });
});

describe('yaml', () => {
  it('writes a job file', () => {
    expect(yaml({ name: 'train', gpu: 0.3, command: ['python', '--epochs', '3'], environment: { A: 'true', B: 'x: y' } }))
      .toBe('name: train\ngpu: 0.3\ncommand: [python, "--epochs", "3"]\nenvironment:\n  A: "true"\n  B: "x: y"\n');
  });
  it('keeps texts that look like something else as texts', () => {
    expect(yaml({ a: 'null', b: 'no', c: '1', d: '', e: null, f: [], g: {} }))
      .toBe('a: "null"\nb: "no"\nc: "1"\nd: ""\ne: null\nf: []\ng: {}\n');
  });
  it('writes lists of objects', () => {
    expect(yaml({ mounts: [{ source: '/a', target: '/b' }, { source: '/c', target: '/d' }] }))
      .toBe('mounts:\n  - source: /a\n    target: /b\n  - source: /c\n    target: /d\n');
  });
});

describe('ansi', () => {
  it('gives pieces with a look', () => {
    expect(pieces('a \x1b[1;31mred\x1b[0m b')).toEqual([
      { text: 'a ', look: '' },
      { text: 'red', look: 'bold fg-1' },
      { text: ' b', look: '' },
    ]);
    expect(pieces('\x1b[38;5;10mx\x1b[39m')[0]?.look).toBe('fg-10');
    expect(pieces('\x1b[38;2;1;2;3mx')[0]?.text).toBe('x');
  });
  it('leaves out what else terminals understand', () => {
    expect(plainText('\x1b[2K\x1b]0;title\x07done\x1b[1A')).toBe('done');
    expect(pieces('10%\r50%\r100%')).toEqual([{ text: '100%', look: '' }]);
    expect(pieces('line\r')).toEqual([{ text: 'line', look: '' }]);
  });
  it('never makes markup', () => {
    expect(pieces('<img src=x onerror=alert(1)>')[0]?.text).toBe('<img src=x onerror=alert(1)>');
  });
});
