// A shell beside a job, in its member, on its GPUs.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get } from '../api/client';
import { Confirm, Copy, Loading, Problem } from '../components/parts';
import { mayChange } from '../jobs/actions';
import { Live, useLive } from '../live/live';
import { me } from '../live/store';
import { query } from '../router';
import { hasMembers } from '../terminal/open_terminals';
import { findTerminal, openTerminal, type TerminalSession, type TerminalState } from '../terminal/session';

const words: Record<TerminalState, string> = {
  starting: 'starting …', open: 'connected', reconnecting: 'reconnecting …', ended: 'ended',
};
const look: Record<TerminalState, string> = { starting: 'wait', open: 'good', reconnecting: 'warn', ended: 'rest' };
const readOutName = 'divvy-terminal-reads-out';

export function TerminalPage(props: { id: number }) {
  const { id } = props;
  const rank = Number(query.value.get('rank') ?? '0') || 0;
  const live = useMemo(
    () => new Live(() => get('/v1/jobs/{id}', { of: id }), { on: (event) => event.kind !== 'job' || event.job === id, every: 10_000 }),
    [id],
  );
  const job = useLive(live);
  const who = useLive(me);
  const [, setRound] = useState(0);
  const state = useRef<HTMLElement>(null);
  const session = findTerminal(id, rank);
  const may = job !== undefined && mayChange(job) && hasMembers(job);
  const begin = () => {
    openTerminal(id, rank);
    setRound((round) => round + 1);
  };
  // Also of a terminal that was opened on an earlier visit.
  useEffect(() => {
    if (session) session.onLeft = () => state.current?.focus();
  }, [session]);
  // Whoever comes here wants one.
  useEffect(() => {
    if (may && !session) begin();
  }, [may, session]);
  useEffect(() => {
    if (job) document.title = `Terminal in ${job.name === '' ? `job ${id}` : job.name} – Divvy`;
  }, [job]);

  const name = job && job.name !== '' ? job.name : `job ${id}`;
  return (
    <div class="page terminal">
      <header class="head">
        <div>
          <p class="crumbs"><a href="/jobs">Jobs</a> / <a href={`/jobs/${id}`}>{id}</a> / Terminal</p>
          <h1>Terminal in {name}{(job?.members ?? 1) > 1 && <small> member {rank}</small>}</h1>
        </div>
        {session && <Bar session={session} focus={state} onAgain={begin} mayAgain={may} id={id} rank={rank} />}
      </header>
      {!job && live.error.value === '' && <Loading what={`Asking for job ${id} …`} />}
      {!session && <Problem text={live.error.value} />}
      {!session && job && who && !may && (
        <Problem text={!mayChange(job) ? `Job ${id} belongs to ${job.owner}; only they and admins may go into it.`
          : job.state !== 'running' ? `Job ${id} does not run (it is ${job.state}), so there is nothing to go into.`
            : `Divvy did not start job ${id} itself, so there is no member to go into.`} />
      )}
      {session && <Place key={`${id}.${rank}`} session={session} />}
    </div>
  );
}

function Bar(props: { session: TerminalSession; focus: { current: HTMLElement | null }; onAgain: () => void; mayAgain: boolean; id: number; rank: number }) {
  const { session } = props;
  const state = session.state.value;
  const [isClosing, setClosing] = useState(false);
  const [readsOut, setReadsOut] = useState(() => localStorage.getItem(readOutName) === 'yes');
  useEffect(() => {
    session.screen.readsOut = readsOut;
  }, [session, readsOut]);
  const exec = `divvy exec -t${props.rank === 0 ? '' : ` --rank ${props.rank}`} ${props.id} -- bash`;
  return (
    <div class="terminal-bar">
      <span class={`state ${look[state]}`} role="status" tabIndex={-1} ref={props.focus}>{words[state]}</span>
      {state === 'ended' && <span class="quiet">{session.end.value}</span>}
      {state === 'ended' && props.mayAgain && <button type="button" class="small primary" onClick={props.onAgain}>Open another</button>}
      {state !== 'ended' && <button type="button" class="small" onClick={() => setClosing(true)}>Close …</button>}
      <Copy text={exec} label="Copy as command" />
      <label class="check"><input type="checkbox" checked={readsOut} onChange={(event) => {
        setReadsOut(event.currentTarget.checked);
        if (event.currentTarget.checked) localStorage.setItem(readOutName, 'yes');
        else localStorage.removeItem(readOutName);
      }} /> Screen reader</label>
      <span class="quiet keys"><kbd>Ctrl Shift C</kbd> copy, <kbd>Ctrl Shift V</kbd> paste, <kbd>Ctrl Shift Enter</kbd> leave the terminal</span>
      {isClosing && (
        <Confirm title="Close the terminal?" text="The shell, and what it runs, is hung up on. The job goes on." action="Close" danger
          onClose={() => setClosing(false)} onDo={() => {
            session.close();
            return Promise.resolve();
          }} />
      )}
    </div>
  );
}

function Place(props: { session: TerminalSession }) {
  const place = useRef<HTMLDivElement>(null);
  const { session } = props;
  useEffect(() => {
    if (!place.current) return undefined;
    session.screen.show(place.current);
    // With the size that it has now; it is told when that changes.
    if (session.state.value === 'starting') void session.start();
    return () => session.screen.hide();
  }, [session]);
  return <div class="terminal-place" ref={place} />;
}
