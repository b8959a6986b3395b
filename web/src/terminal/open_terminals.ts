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
