// The browser's half of a session (src/api/session.h in the daemon): the key that its requests
// bring along. The other half is a cookie that no script can read.
import { signal } from '@preact/signals';

const name = 'divvy-session-key';

export const sessionHeader = 'x-divvy-session';

/** Nobody is signed in, as far as this page knows. */
export const signedOut = signal(readKey() === '');

function readKey(): string {
  try {
    return localStorage.getItem(name) ?? '';
  } catch {
    return '';
  }
}

export function sessionKey(): string {
  return readKey();
}

export function keepKey(key: string): void {
  localStorage.setItem(name, key);
  signedOut.value = false;
}

export function dropKey(): void {
  localStorage.removeItem(name);
  signedOut.value = true;
}

// Signing in or out in another tab is signing in or out here.
if (typeof addEventListener === 'function') {
  addEventListener('storage', (event) => {
    if (event.key === name) signedOut.value = readKey() === '';
  });
}
