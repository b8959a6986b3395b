// Numbers and times as people read them. Pure.

const gibibyte = 1024 ** 3;

/** "10 GiB", "512 MiB", "1.5 TiB": at most three digits that say something. */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${digits(value)} ${units[unit] ?? ''}`;
}

function digits(value: number): string {
  if (value === 0) return '0';
  const text = value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Thousandths of a GPU: "0.3", "2.5", "4". */
export function share(thousandths: number): string {
  return digits3(thousandths / 1000);
}

function digits3(value: number): string {
  return value.toFixed(3).replace(/\.?0+$/, '');
}

export function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

/** "0.3 GPU", "4 × 1 GPU": what each member of a job gets. */
export function gpuShare(members: number, thousandths: number, memory?: number | null): string {
  const each =
    thousandths > 0
      ? `${share(thousandths)} GPU`
      : memory
        ? bytes(memory)
        : '0 GPU';
  return members > 1 ? `${members} × ${each}` : each;
}

/** A length of time: "12 s", "5 min 3 s", "2 h 10 min", "3 d 4 h". */
export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const two = (large: number, one: string, small: number, other: string) =>
    small > 0 ? `${large} ${one} ${small} ${other}` : `${large} ${one}`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.floor(minutes / 60);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** "3 min ago", "in 5 s", "just now". */
export function relative(at: number, now: number): string {
  const distance = at - now;
  if (Math.abs(distance) < 1500) return 'just now';
  const coarse = (ms: number) => duration(ms).split(' ').slice(0, 2).join(' ');
  return distance > 0 ? `in ${coarse(distance)}` : `${coarse(-distance)} ago`;
}

/** "2026-11-18 10:42:07", in the time zone of the browser. */
export function exact(at: number): string {
  const time = new Date(at);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** Share-seconds in thousandths as GPU hours: "1.25". */
export function gpuHours(thousandthSeconds: number): string {
  const hours = thousandthSeconds / 1000 / 3600;
  return hours >= 100 ? hours.toFixed(0) : hours >= 1 ? hours.toFixed(2) : hours.toFixed(3);
}

export function watts(milliwatts: number): string {
  return `${Math.round(milliwatts / 1000)} W`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

/** "10GiB" or "1.5 g" as bytes, as `divvy` reads them; nothing for what is no size. */
export function parseSize(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?\s*$/i.exec(text);
  if (!match) return undefined;
  const [, number = '', letter = '', binary = ''] = match;
  const power = ' kmgtp'.indexOf(letter.toLowerCase() || ' ');
  const base = binary || letter === '' ? 1024 : 1000;
  return Math.round(Number(number) * base ** power);
}

export const GiB = gibibyte;
