// What goes through a channel to a terminal in a member and back: frames of one byte of kind, four of
// length (little endian) and so many bytes, as in src/sys/frames.h. Pure.

/** Of what follows the head. */
export const maxFrame = 64 << 10;
const headSize = 5;

const Kind = {
  input: 1,
  window: 4,
  output: 16,
  error: 17,
  started: 20,
  end: 21,
  refused: 22,
} as const;

export type Frame =
  | { kind: 'output'; bytes: Uint8Array }
  | { kind: 'started'; takesInput: boolean }
  /** signal 0: it was not ended by one. */
  | { kind: 'end'; exitCode: number; signal: number; reason: string }
  /** It was not started, or nobody knows how it ended. */
  | { kind: 'refused'; reason: string };

function framed(kind: number, payload: Uint8Array): Uint8Array {
  const whole = new Uint8Array(headSize + payload.length);
  const view = new DataView(whole.buffer);
  view.setUint8(0, kind);
  view.setUint32(1, payload.length, true);
  whole.set(payload, headSize);
  return whole;
}

/** What is typed; more than fits into one frame becomes several. */
export function inputFrames(bytes: Uint8Array): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += maxFrame) {
    frames.push(framed(Kind.input, bytes.subarray(at, at + maxFrame)));
  }
  return frames;
}

export function windowFrame(rows: number, columns: number): Uint8Array {
  const payload = new Uint8Array(4);
  const view = new DataView(payload.buffer);
  view.setUint16(0, rows, true);
  view.setUint16(2, columns, true);
  return framed(Kind.window, payload);
}

/** Puts frames together from the pieces in which they arrive. */
export class FrameReader {
  private rest = new Uint8Array();

  /** The frames that are whole now. Throws where this is no stream of frames to a terminal, and nothing
   * behind that can be understood. */
  push(piece: Uint8Array): Frame[] {
    let bytes = piece;
    if (this.rest.length > 0) {
      bytes = new Uint8Array(this.rest.length + piece.length);
      bytes.set(this.rest);
      bytes.set(piece, this.rest.length);
    }
    const frames: Frame[] = [];
    let at = 0;
    while (bytes.length - at >= headSize) {
      const view = new DataView(bytes.buffer, bytes.byteOffset + at);
      const length = view.getUint32(1, true);
      if (length > maxFrame) throw new Error(`a frame of ${length} bytes; ${maxFrame} are the most`);
      if (bytes.length - at - headSize < length) break;
      frames.push(read(view.getUint8(0), bytes.subarray(at + headSize, at + headSize + length)));
      at += headSize + length;
    }
    this.rest = bytes.slice(at);
    return frames;
  }
}

function read(kind: number, payload: Uint8Array): Frame {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const text = (from: number) => new TextDecoder().decode(payload.subarray(from));
  const size = payload.length;
  if (kind === Kind.output || kind === Kind.error) return { kind: 'output', bytes: payload.slice() };
  if (kind === Kind.started && size === 1) return { kind: 'started', takesInput: view.getUint8(0) === 1 };
  if (kind === Kind.end && size >= 8) {
    return { kind: 'end', exitCode: view.getInt32(0, true), signal: view.getInt32(4, true), reason: text(8) };
  }
  if (kind === Kind.refused && size >= 1) return { kind: 'refused', reason: text(1) };
  throw new Error(`a frame that is not known: kind ${kind}, ${size} bytes`);
}
