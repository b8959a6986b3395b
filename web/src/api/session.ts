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

/** Why signing in with the provider came to nothing: one of the words of the daemon
 * (src/api/sign_in_handlers.cc), never text that a link could bring. */
export const cameBackWith = signal('');

const leaving = 'divvy-sign-in-begun';

/** Before this page leaves for the provider: it expects to come back, in this tab. */
export function noteLeaving(): void {
  sessionStorage.setItem(leaving, '1');
}

/** Back from the provider: the key of the session, or why there is none. A link that nobody left for
 * brings nothing. */
export function takeKeyFromProvider(): void {
  const [, kind, value] = /^#(key|sign-in)=([0-9a-z]+)$/.exec(location.hash) ?? [];
  if (kind === undefined || value === undefined) return;
  history.replaceState(null, '', location.pathname + location.search);
  if (sessionStorage.getItem(leaving) === null) return;
  sessionStorage.removeItem(leaving);
  if (kind === 'key') keepKey(value);
  else cameBackWith.value = value;
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
