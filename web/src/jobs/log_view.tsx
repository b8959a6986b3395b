// What a job writes, live. Only the lines that are seen are in the page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { open } from '../api/client';
import type { Job } from '../api/types';
import { isEnded } from '../api/types';
import { Problem } from '../components/parts';
import { pieces } from '../text/ansi';
import { plural } from '../text/format';
import { backOff } from '../live/event_stream';
import { LogBuffer } from './log_buffer';

const lineHeight = 18;
const margin = 20;
const tailAtFirst = 100_000;

export function LogView(props: { job: Job }) {
  const { job } = props;
  const [buffer] = useState(() => new LogBuffer());
  const [, setVersion] = useState(0);
  const [rank, setRank] = useState('');
  const [times, setTimes] = useState(false);
  const [follow, setFollow] = useState(true);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [top, setTop] = useState(0);
  const [problem, setProblem] = useState('');
  const [state, setState] = useState<'reading' | 'over'>('reading');
  const frame = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  const found = useRef<{ text: string; version: number; lines: number[] }>({ text: '', version: -1, lines: [] });

  useEffect(() => {
    const stop = new AbortController();
    buffer.clear();
    setState('reading');
    setProblem('');
    let frameAsked = 0;
    const paint = () => {
      if (frameAsked === 0) {
        frameAsked = requestAnimationFrame(() => {
          frameAsked = 0;
          setVersion((n) => n + 1);
        });
      }
    };
    const read = async () => {
      let failures = 0;
      for (;;) {
        try {
          const response = await open('get', '/v1/jobs/{id}/logs', {
            of: job.id,
            query: { follow: !isEnded(job), tail: tailAtFirst, rank, timestamps: times || undefined },
            signal: stop.signal,
          });
          buffer.clear();
          setProblem('');
          failures = 0;
          const reader = response.body?.getReader();
          const decoder = new TextDecoder();
          for (;;) {
            const piece = await reader?.read();
            if (!piece || piece.done) break;
            buffer.append(decoder.decode(piece.value, { stream: true }));
            paint();
          }
          setState('over');
          paint();
          return;
        } catch (error) {
          if (stop.signal.aborted) return;
          failures += 1;
          setProblem(error instanceof Error ? error.message : String(error));
          if (error instanceof Error && 'status' in error) return;
          await new Promise((resolve) => setTimeout(resolve, backOff(failures, Math.random())));
        }
      }
    };
    void read();
    return () => {
      stop.abort();
      cancelAnimationFrame(frameAsked);
    };
    // A job that is started again writes a new log.
  }, [job.id, job.attempt, rank, times]);

  if (text !== found.current.text || buffer.version !== found.current.version) {
    found.current = { text, version: buffer.version, lines: buffer.find(text) };
  }
  const matches = found.current.lines;
  const marked = new Set(matches);
  const current = matches[Math.min(at, matches.length - 1)];

  useEffect(() => {
    const element = frame.current;
    if (follow && element) element.scrollTop = element.scrollHeight;
  });
  const goTo = (index: number) => {
    setFollow(false);
    setAt(index);
    const line = matches[index];
    const element = frame.current;
    if (line === undefined || !element) return;
    element.scrollTop = Math.max(0, line * lineHeight - element.clientHeight / 2);
  };

  const height = frame.current?.clientHeight ?? 420;
  const from = Math.max(0, Math.floor(top / lineHeight) - margin);
  const to = Math.min(buffer.length, Math.ceil((top + height) / lineHeight) + margin);
  const lines = [];
  for (let i = from; i < to; i += 1) {
    lines.push(
      <div key={i} class={`line${marked.has(i) ? ' match' : ''}${i === current ? ' current' : ''}`}
        style={{ top: `${i * lineHeight}px` }}>
        {pieces(buffer.line(i)).map((piece, n) => (
          <span key={n} class={piece.look}>{piece.text}</span>
        ))}
      </div>,
    );
  }
  const save = () => {
    const all: string[] = [];
    for (let i = 0; i < buffer.length; i += 1) all.push(buffer.line(i));
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([all.join('\n'), '\n'], { type: 'text/plain' }));
    link.download = `${job.name === '' ? 'job' : job.name}-${job.id}.log`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <section class="card" aria-label="Output">
      <div class="bar">
        <h2>Output</h2>
        <span class="quiet" role="status">
          {plural(buffer.length, 'line')}{buffer.dropped > 0 ? `, ${plural(buffer.dropped, 'older one')} left out` : ''}
          {state === 'reading' && !isEnded(job) ? ' · live' : ''}
        </span>
        <span class="push" />
        {job.members > 1 && (
          <select aria-label="Rank" value={rank} onChange={(event) => setRank(event.currentTarget.value)}>
            <option value="">all ranks</option>
            {Array.from({ length: Math.min(job.members, 4096) }, (_, i) => <option key={i} value={String(i)}>rank {i}</option>)}
          </select>
        )}
        <label class="check"><input type="checkbox" checked={times} onChange={() => setTimes(!times)} /> Times</label>
        <label class="check"><input type="checkbox" checked={follow} onChange={() => setFollow(!follow)} /> Follow</label>
        <input type="search" aria-label="Search the output" placeholder="Search" value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && matches.length > 0) {
              goTo((at + (event.shiftKey ? matches.length - 1 : 1)) % matches.length);
            }
          }} />
        {text !== '' && (
          <span class="quiet">
            {matches.length === 0 ? 'nothing' : `${Math.min(at, matches.length - 1) + 1} of ${matches.length}`}{' '}
            <button type="button" class="small" aria-label="Previous" disabled={matches.length === 0} onClick={() => goTo((at + matches.length - 1) % matches.length)}>↑</button>{' '}
            <button type="button" class="small" aria-label="Next" disabled={matches.length === 0} onClick={() => goTo((at + 1) % matches.length)}>↓</button>
          </span>
        )}
        <button type="button" class="small" onClick={save} disabled={buffer.length === 0}>Save</button>
      </div>
      <Problem text={problem} />
      <div class="log" ref={frame} tabIndex={0} role="log" aria-label="Lines" aria-live="off"
        onScroll={(event) => {
          const element = event.currentTarget;
          const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - lineHeight;
          // What came since the last look may have moved the end away: only somebody who scrolls up
          // wants to stay.
          const wentUp = element.scrollTop < lastTop.current;
          lastTop.current = element.scrollTop;
          setTop(element.scrollTop);
          if (atEnd) setFollow(true);
          else if (wentUp) setFollow(false);
        }}>
        <div class="lines" style={{ height: `${buffer.length * lineHeight}px` }}>{lines}</div>
        {buffer.length === 0 && problem === '' && <p class="quiet">{state === 'over' ? 'It wrote nothing.' : 'Nothing yet.'}</p>}
      </div>
    </section>
  );
}
