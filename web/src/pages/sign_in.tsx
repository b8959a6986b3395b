// Signing in with a token. A link may bring one behind the # (`divvy console` and the demo print
// such a link): that part of an address is never sent to a server.
import { useLayoutEffect, useState } from 'preact/hooks';
import type { TargetedSubmitEvent } from 'preact';
import { signIn } from '../api/client';
import { Problem } from '../components/parts';

export function SignInPage() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
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
    const brought = /^#(divvy_[0-9a-f_]+)$/.exec(location.hash)?.[1];
    if (brought === undefined) return;
    history.replaceState(null, '', location.pathname + location.search);
    void enter(brought);
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
        <label class="field">
          Token
          <input type="password" name="token" autoComplete="off" autoFocus required value={token}
            placeholder="divvy_…" onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <Problem text={problem} />
        <button type="submit" class="primary wide" disabled={busy || token.trim() === ''}>
          {busy ? 'Signing in …' : 'Sign in'}
        </button>
        <p class="quiet">
          On the machine, <code>divvy token create</code> makes a token. It is not kept in the
          browser: signing in gives a session that ends after twelve hours, or with the token.
        </p>
      </form>
    </main>
  );
}
