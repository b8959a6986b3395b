// Short messages at the edge, with a way back where there is one.
import { signal } from '@preact/signals';

interface Message {
  number: number;
  text: string;
  undo?: { label: string; act: () => Promise<unknown> } | undefined;
}
const messages = signal<Message[]>([]);
let count = 0;

function drop(number: number): void {
  messages.value = messages.value.filter((one) => one.number !== number);
}

export function toast(text: string, undo?: Message['undo']): void {
  count += 1;
  const number = count;
  messages.value = [...messages.value.slice(-2), { number, text, undo }];
  setTimeout(() => drop(number), undo ? 10_000 : 5000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((one) => (
        <div class="toast" key={one.number}>
          <span>{one.text}</span>
          {one.undo && (
            <button type="button" class="small" onClick={() => {
              drop(one.number);
              one.undo?.act().catch((error: unknown) => toast(String(error)));
            }}>
              {one.undo.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
