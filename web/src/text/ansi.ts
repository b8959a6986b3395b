// What programs write for terminals, as pieces with a class each: colours and weights. Everything
// else that terminals understand is left out. Pure.

export interface Piece {
  text: string;
  /** Names of classes: "bold fg-2"; empty: plain. */
  look: string;
}

interface Look {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  fg: string;
  bg: string;
}

const nothing: Look = { bold: false, dim: false, italic: false, underline: false, fg: '', bg: '' };

function words(look: Look): string {
  const all: string[] = [];
  if (look.bold) all.push('bold');
  if (look.dim) all.push('dim');
  if (look.italic) all.push('italic');
  if (look.underline) all.push('underline');
  if (look.fg) all.push(`fg-${look.fg}`);
  if (look.bg) all.push(`bg-${look.bg}`);
  return all.join(' ');
}

// The colours of 256 that have one of our sixteen classes, or the nearest of them.
function indexed(code: number): string {
  if (code < 16) return String(code);
  if (code >= 232) return code < 244 ? '8' : '7';
  const value = code - 16;
  const red = Math.floor(value / 36) > 2;
  const green = Math.floor(value / 6) % 6 > 2;
  const blue = value % 6 > 2;
  return String((red ? 1 : 0) + (green ? 2 : 0) + (blue ? 4 : 0) || 8);
}

function select(look: Look, codes: number[]): Look {
  let next = { ...look };
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i] ?? 0;
    if (code === 0) next = { ...nothing };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code >= 30 && code <= 37) next.fg = String(code - 30);
    else if (code === 39) next.fg = '';
    else if (code >= 40 && code <= 47) next.bg = String(code - 40);
    else if (code === 49) next.bg = '';
    else if (code >= 90 && code <= 97) next.fg = String(code - 82);
    else if (code >= 100 && code <= 107) next.bg = String(code - 92);
    else if (code === 38 || code === 48) {
      const kind = codes[i + 1];
      const colour = kind === 5 ? indexed(codes[i + 2] ?? 0) : '7';
      if (code === 38) next.fg = colour;
      else next.bg = colour;
      i += kind === 5 ? 2 : kind === 2 ? 4 : 0;
    }
  }
  return next;
}

const escape =
  /\x1b\[([0-9;]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]/g;

/** One line. What a carriage return overwrote is gone, as on a terminal. */
export function pieces(line: string): Piece[] {
  const kept = line.replace(/\r+$/, '');
  const text = kept.slice(kept.lastIndexOf('\r') + 1);
  if (!/[\x00-\x1f\x7f]/.test(text)) return [{ text, look: '' }];
  const all: Piece[] = [];
  let look = nothing;
  let from = 0;
  const push = (to: number) => {
    if (to > from) all.push({ text: text.slice(from, to), look: words(look) });
  };
  for (const match of text.matchAll(escape)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[1] !== undefined) {
      look = select(look, match[1].split(';').map(Number));
    }
  }
  push(text.length);
  return all;
}

/** Without any of it, for searching. */
export function plainText(line: string): string {
  return line.replace(escape, '');
}
