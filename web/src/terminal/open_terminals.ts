// Which terminals are open, for the pages that lead to them; the terminals themselves are loaded when
// somebody goes to one.
import { signal } from '@preact/signals';
import type { Job } from '../api/types';

export const openTerminals = signal<ReadonlySet<string>>(new Set());

export const terminalName = (job: number, rank: number): string => `${job}.${rank}`;

/** Where a terminal in a member is. */
export const terminalAt = (job: number, rank: number): string =>
  rank === 0 ? `/jobs/${job}/terminal` : `/jobs/${job}/terminal?rank=${rank}`;

/** Whether a command can be started in its members: what `divvy run` started is not ours. */
export function hasMembers(job: Job): boolean {
  return job.state === 'running' && (job.spec?.holder ?? 'members') === 'members';
}

/** Each has thousands of lines, so only some are kept to be read. */
const keptEnded = 4;

/** Which of those that have ended, the oldest first, are forgotten. */
export const tooManyEnded = (ended: readonly string[]): readonly string[] =>
  ended.slice(0, Math.max(0, ended.length - keptEnded));
