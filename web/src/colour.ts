// A colour for each owner, the same everywhere and after a reload. The hues are apart for most kinds
// of colour blindness; the first that come get those that differ the most.
import { hash } from './text/hash';

/** For dark and for light surfaces alike: enough contrast with both. */
export const palette = [
  '#3b82c4', '#e08a1e', '#2f9e6e', '#c8507e', '#8a63d2', '#1aa3a3',
  '#b5892b', '#d1603d', '#5b8c2a', '#a65fb5', '#4f6fd8', '#8c6d5a',
] as const;

const name = 'divvy-colours';
const taken = new Map<string, string>(read());

function read(): [string, string][] {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? '[]') as [string, string][];
  } catch {
    return [];
  }
}

export function colourOf(owner: string): string {
  const known = taken.get(owner);
  if (known !== undefined) return known;
  const used = new Set(taken.values());
  const start = hash(owner) % palette.length;
  let colour: string = palette[start] ?? palette[0];
  for (let i = 0; i < palette.length; i += 1) {
    const candidate = palette[(start + i) % palette.length];
    if (candidate !== undefined && !used.has(candidate)) {
      colour = candidate;
      break;
    }
  }
  taken.set(owner, colour);
  if (typeof sessionStorage !== 'undefined') sessionStorage.setItem(name, JSON.stringify([...taken].slice(0, 200)));
  return colour;
}
