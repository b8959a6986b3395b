// Everything by its name: pages, jobs, people, GPUs. Ctrl-K opens it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TargetedKeyboardEvent } from 'preact';
import { places } from '../app';
import { useLive } from '../live/live';
import type { Gpu, Job } from '../api/types';
import { activeJobs, stats } from '../live/store';
import { navigate } from '../router';
import { Dialog } from './parts';

export interface Entry {
  text: string;
  hint: string;
  to: string;
}

const most = 12;

/** What is called like `text`: a job by its number first, then pages, jobs, people and GPUs. */
export function find(text: string, jobs: readonly Job[], gpus: readonly Gpu[]): Entry[] {
  const all: Entry[] = places.map((place) => ({ text: place.name, hint: 'page', to: place.to }));
  for (const job of jobs) {
    all.push({ text: `${job.name} #${job.id}`, hint: `${job.state}, ${job.owner}`, to: `/jobs/${job.id}` });
  }
  for (const owner of new Set(jobs.map((job) => job.owner))) {
    all.push({ text: `Jobs of ${owner}`, hint: 'owner', to: `/jobs?owner=${encodeURIComponent(owner)}` });
  }
  for (const gpu of gpus) {
    all.push({ text: `GPU ${gpu.index} ${gpu.node ?? ''}`, hint: gpu.model, to: `/?gpu=${gpu.uuid}` });
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((entry) => {
    const whole = `${entry.text} ${entry.hint}`.toLowerCase();
    return words.every((word) => whole.includes(word));
  });
  const number = /^#?(\d+)$/.exec(text.trim())?.[1];
  if (number !== undefined) found.unshift({ text: `Job ${number}`, hint: 'by its number', to: `/jobs/${number}` });
  return found.slice(0, most);
}

export function Palette(props: { onClose: () => void }) {
  const jobs = useLive(activeJobs);
  const machine = useLive(stats);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  // Enter came before what it means: whoever types fast is ahead of the list of jobs.
  const [wanted, setWanted] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  const matching = (what: string) => find(what, jobs ?? [], machine?.gpus ?? []);
  const entries = useMemo(() => matching(text), [text, jobs, machine]);

  const go = (entry: Entry) => {
    props.onClose();
    navigate(entry.to);
  };
  const first = entries[0];
  useEffect(() => {
    if (wanted && first) go(first);
  }, [wanted, first]);
  const onKey = (event: TargetedKeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'ArrowDown') setAt((at + 1) % Math.max(1, entries.length));
    else if (event.key === 'ArrowUp') setAt((at + entries.length - 1) % Math.max(1, entries.length));
    else if (event.key === 'Enter') {
      // What is drawn may still be for the text before.
      const typed = event.currentTarget.value;
      const chosen = typed === text ? entries[at] : matching(typed)[0];
      if (chosen) go(chosen);
      else setWanted(true);
    } else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" onClose={props.onClose}>
      <input ref={input} type="text" class="find" role="combobox" aria-expanded="true" aria-controls="found"
        aria-activedescendant={`found-${at}`} aria-label="A page, a job, a person, a GPU" value={text}
        placeholder="A page, a job, a person, a GPU" onKeyDown={onKey}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          setWanted(false);
        }} />
      <ul class="found" id="found" role="listbox" aria-label="Found">
        {entries.map((entry, i) => (
          <li key={entry.to + entry.text} id={`found-${i}`} role="option" aria-selected={i === at}
            onClick={() => go(entry)} onMouseMove={() => setAt(i)}>
            <span>{entry.text}</span> <small>{entry.hint}</small>
          </li>
        ))}
        {entries.length === 0 && <li class="quiet">{jobs ? 'Nothing is called that.' : 'Looking …'}</li>}
      </ul>
    </Dialog>
  );
}
