// Everything by its name: pages, jobs, people, GPUs. Ctrl-K opens it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TargetedKeyboardEvent } from 'preact';
import { places } from '../app';
import { useLive } from '../live/live';
import { activeJobs, stats } from '../live/store';
import { navigate } from '../router';
import { Dialog } from './parts';

interface Entry {
  text: string;
  hint: string;
  to: string;
}

const most = 12;

export function Palette(props: { onClose: () => void }) {
  const jobs = useLive(activeJobs);
  const machine = useLive(stats);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  const entries = useMemo(() => {
    const all: Entry[] = places.map((place) => ({ text: place.name, hint: 'page', to: place.to }));
    for (const job of jobs ?? []) {
      all.push({ text: `${job.name} #${job.id}`, hint: `${job.state}, ${job.owner}`, to: `/jobs/${job.id}` });
    }
    for (const owner of new Set((jobs ?? []).map((job) => job.owner))) {
      all.push({ text: `Jobs of ${owner}`, hint: 'owner', to: `/jobs?owner=${encodeURIComponent(owner)}` });
    }
    for (const gpu of machine?.gpus ?? []) {
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
  }, [text, jobs, machine]);

  const go = (entry: Entry | undefined) => {
    if (!entry) return;
    props.onClose();
    navigate(entry.to);
  };
  const onKey = (event: TargetedKeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'ArrowDown') setAt((at + 1) % Math.max(1, entries.length));
    else if (event.key === 'ArrowUp') setAt((at + entries.length - 1) % Math.max(1, entries.length));
    else if (event.key === 'Enter') go(entries[at]);
    else return;
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
        }} />
      <ul class="found" id="found" role="listbox" aria-label="Found">
        {entries.map((entry, i) => (
          <li key={entry.to + entry.text} id={`found-${i}`} role="option" aria-selected={i === at}
            onClick={() => go(entry)} onMouseMove={() => setAt(i)}>
            <span>{entry.text}</span> <small>{entry.hint}</small>
          </li>
        ))}
        {entries.length === 0 && <li class="quiet">Nothing is called that.</li>}
      </ul>
    </Dialog>
  );
}
