// The frame around the pages: where one can go, who one is, and whether what is shown is live.
import { lazy } from './components/lazy';
import { useEffect, useState } from 'preact/hooks';
import { signOut } from './api/client';
import { brought, signedOut } from './api/session';
import { Empty } from './components/parts';
import { Palette } from './components/palette';
import { Toasts } from './components/toast';
import { useLive } from './live/live';
import { isAdmin, me, now } from './live/store';
import { connection, lastHeard, trouble } from './live/watch';
import { FleetPage } from './pages/fleet';
import { ChangeOverPage, SignInPage } from './pages/sign_in';
import { path } from './router';
import { relative } from './text/format';
import { nextTheme, theme } from './theme';

const JobsPage = lazy(async () => (await import('./pages/jobs')).JobsPage);
const JobPage = lazy(async () => (await import('./pages/job')).JobPage);
const TerminalPage = lazy(async () => (await import('./pages/terminal')).TerminalPage);
const SubmitPage = lazy(async () => (await import('./pages/submit')).SubmitPage);
const ServicesPage = lazy(async () => (await import('./pages/services')).ServicesPage);
const QueuesPage = lazy(async () => (await import('./pages/queues')).QueuesPage);
const WhatIfPage = lazy(async () => (await import('./pages/what_if')).WhatIfPage);
const UsagePage = lazy(async () => (await import('./pages/usage')).UsagePage);
const OperatorPage = lazy(async () => (await import('./pages/operator')).OperatorPage);

export const places: { to: string; name: string; admin?: boolean }[] = [
  { to: '/', name: 'Fleet' },
  { to: '/jobs', name: 'Jobs' },
  { to: '/submit', name: 'Submit' },
  { to: '/services', name: 'Services' },
  { to: '/queues', name: 'Queues' },
  { to: '/what-if', name: 'What if' },
  { to: '/usage', name: 'Usage' },
  { to: '/operator', name: 'Operator' },
];

function Page() {
  const here = path.value;
  if (here === '/') return <FleetPage />;
  if (here === '/jobs') return <JobsPage />;
  const job = /^\/jobs\/(\d+)$/.exec(here);
  if (job?.[1] !== undefined) return <JobPage key={job[1]} id={Number(job[1])} />;
  const terminal = /^\/jobs\/(\d+)\/terminal$/.exec(here);
  if (terminal?.[1] !== undefined) return <TerminalPage key={here} id={Number(terminal[1])} />;
  if (here === '/submit') return <SubmitPage />;
  if (here === '/services') return <ServicesPage />;
  if (here === '/queues') return <QueuesPage />;
  if (here === '/what-if') return <WhatIfPage />;
  if (here === '/usage') return <UsagePage />;
  if (here === '/operator') return <OperatorPage />;
  return (
    <Empty title="There is no such page.">
      <a href="/">To the fleet</a>
    </Empty>
  );
}

function Pulse() {
  const state = connection.value;
  const words = {
    live: 'Live',
    connecting: 'Connecting …',
    stale: 'Disconnected',
    off: 'Paused',
  }[state];
  const heard = lastHeard.value === 0 ? '' : `last heard ${relative(lastHeard.value, now.value)}`;
  return (
    <span class={`pulse ${state}`} role="status" title={[trouble.value, heard].filter(Boolean).join('; ')}>
      <i aria-hidden="true" /> {words}
    </span>
  );
}

/** What is on the screen may be old: it says so, and since when. */
function StaleNotice() {
  // A terminal says so itself, and must not change its size for it.
  if (connection.value !== 'stale' || path.value.endsWith('/terminal')) return null;
  return (
    <p class="stale-notice" role="alert">
      The daemon does not answer{trouble.value === '' ? '' : ` (${trouble.value})`}. What you see is
      from {lastHeard.value === 0 ? 'before' : relative(lastHeard.value, now.value)}; it is tried
      again by itself.
    </p>
  );
}

function isHere(to: string): boolean {
  return to === '/' ? path.value === '/' : path.value === to || path.value.startsWith(`${to}/`);
}

export function App() {
  if (signedOut.value) return <SignInPage />;
  return brought.value === '' ? <Inside /> : <ChangeOverPage />;
}

function Inside() {
  const who = useLive(me);
  const [searching, setSearching] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setSearching(true);
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  useEffect(() => {
    const place = places.find((one) => isHere(one.to));
    document.title = place ? `${place.name} – Divvy` : 'Divvy';
  }, [path.value]);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.getElementById('content')?.focus();
      }}>Skip to the content</a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href="/" aria-label="Divvy, to the fleet">
          <img src="/icon.svg" alt="" width="26" height="26" /> <span>Divvy</span>
        </a>
        <div class="places">
          {places.map((place) => (
            <a key={place.to} href={place.to} aria-current={isHere(place.to) ? 'page' : undefined}>
              {place.name}
            </a>
          ))}
        </div>
        <div class="foot">
          <Pulse />
          <button type="button" class="small wide" onClick={() => setSearching(true)}>
            Find … <kbd>Ctrl K</kbd>
          </button>
          <div class="who">
            <span title={isAdmin.value ? `${who?.name ?? ''}, an admin` : (who?.name ?? '')}>{who?.name ?? ''}</span>
            <button type="button" class="small" onClick={nextTheme}
              aria-label={`Colours: ${theme.value}. Change`}>{{ system: '◐', light: '☀', dark: '☾' }[theme.value]}</button>
            <button type="button" class="small" onClick={() => void signOut()}>Sign out</button>
          </div>
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        <StaleNotice />
        <Page />
      </main>
      {searching && <Palette onClose={() => setSearching(false)} />}
      <Toasts />
    </>
  );
}
