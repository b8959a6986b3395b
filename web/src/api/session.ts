// The browser's half of a session (src/api/session.h in the daemon): the key that its requests
// bring along. The other half is a cookie that no script can read.
import { signal } from '@preact/signals';

const name = 'divvy-session-key';

export const sessionHeader = 'x-divvy-session';

/** Nobody is signed in, as far as this page knows. */
export const signedOut = signal(readKey() === '');

/** The token that the link brought along which led here (behind the #, which no server is sent). Any
 * page can have such a link, so it does nothing to whoever is signed in before they said so. */
export const brought = signal('');

export function takeBroughtToken(): void {
  const token = /^#(divvy_[0-9a-f_]+)$/.exec(location.hash)?.[1];
  if (token === undefined) return;
  history.replaceState(null, '', location.pathname + location.search);
  brought.value = token;
}

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

// Signing in or out in another tab is signing in or out here. As somebody else, perhaps: then nothing
// of what is shown here, and no terminal, is theirs.
if (typeof addEventListener === 'function') {
  addEventListener('storage', (event) => {
    if (event.key !== name) return;
    const isAnother = !signedOut.value && readKey() !== '';
    signedOut.value = isAnother || readKey() === '';
    if (isAnother) location.reload();
  });
}
