// Signing in with a token, or with a provider of OpenID Connect where the daemon has one. A link may bring one behind the # (`divvy console` and the demo print
// such a link): that part of an address is never sent to a server.
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { TargetedSubmitEvent } from 'preact';
import { get, signIn, signInWithProvider } from '../api/client';
import { brought, cameBackWith, dropKey } from '../api/session';
import { Problem } from '../components/parts';
import { useLive } from '../live/live';
import { me } from '../live/store';

const reasons: Record<string, string> = {
  expired: 'This sign-in was not begun in this browser, or it took longer than ten minutes. Try again.',
  cancelled: 'The sign-in was cancelled at the provider.',
  refused: 'You are not let in here. An admin finds the reason in the daemon’s log.',
  provider: 'The provider did not do its part. Try again; an admin finds the reason in the daemon’s log.',
};

/** The name of the provider that signs browsers in; empty: there is none, or it is not known yet. */
function useProvider(): string {
  const [provider, setProvider] = useState('');
  useEffect(() => {
    const stop = new AbortController();
    get('/v1/sign-in', { signal: stop.signal }).then(
      (offer) => setProvider(offer.browser ? (offer.provider ?? '') : ''),
      () => {
        // A token is asked for all the same.
      },
    );
    return () => stop.abort();
  }, []);
  return provider;
}

export function SignInPage() {
  const provider = useProvider();
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState(reasons[cameBackWith.value] ?? '');
  const [busy, setBusy] = useState(false);
  const leave = async () => {
    setBusy(true);
    setProblem('');
    cameBackWith.value = '';
    try {
      await signInWithProvider();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    // Whoever comes back by the browser's button finds the page as it was.
    setBusy(false);
  };
  const enter = async (text: string) => {
    setBusy(true);
    setProblem('');
    try {
      await signIn(text.trim());
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  // Before the page is drawn: nobody has to see it.
  useLayoutEffect(() => {
    const token = brought.value;
    brought.value = '';
    if (token !== '') void enter(token);
  }, []);
  const onSubmit = (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    void enter(token);
  };
  return (
    <main class="sign-in" id="content">
      <form onSubmit={onSubmit}>
        <img src="/icon.svg" alt="" width="48" height="48" />
        <h1>Divvy</h1>
        {provider !== '' && (
          <button type="button" class="primary wide" disabled={busy} onClick={() => void leave()}>
            Sign in with {provider}
          </button>
        )}
        <label class="field">
          Token
          <input type="password" name="token" autoComplete="off" autoFocus required value={token}
            placeholder="divvy_…" onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <Problem text={problem} />
        <button type="submit" class={provider === '' ? 'primary wide' : 'wide'} disabled={busy || token.trim() === ''}>
          {busy ? 'Signing in …' : provider === '' ? 'Sign in' : 'Sign in with a token'}
        </button>
        <p class="quiet">
          On the machine, <code>divvy token create</code> makes a token. It is not kept in the
          browser: signing in gives a session that ends after twelve hours, or with the token.
        </p>
      </form>
    </main>
  );
}

/** A link brought a token, and somebody is signed in here. */
export function ChangeOverPage() {
  const who = useLive(me);
  return (
    <main class="sign-in" id="content">
      <form onSubmit={(event) => {
        event.preventDefault();
        // With this nothing is left of whoever was here before; the token is still there.
        dropKey();
      }}>
        <img src="/icon.svg" alt="" width="48" height="48" />
        <h1>Divvy</h1>
        <p>
          {who ? <>You are signed in as <strong>{who.name}</strong>.</> : 'You are signed in.'} The link that led here brings a token
          of its own. Sign in with it only if you know whose it is: what you do from then on is done in their name.
        </p>
        <button type="submit" class="wide">Sign in with the link</button>
        <button type="button" class="primary wide" onClick={() => {
          brought.value = '';
        }}>Stay signed in</button>
      </form>
    </main>
  );
}
