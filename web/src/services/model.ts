// Sessions among jobs, and what the page of services says of them. Pure.
import type { Job, Service } from '../api/types';

/** Of a job that `divvy session` started: its app. */
const sessionLabel = 'divvy.session';

export interface AppSession {
  job: Job;
  app: string;
  /** Nothing: it does not run yet, or has no limit. */
  secondsLeft: number | undefined;
  /** Its limit, in seconds from its start on. */
  limit: number | undefined;
}

const units: Record<string, number> = { d: 86_400, h: 3600, m: 60, s: 1 };

/** "1h30m" as the daemon writes it, or a number of seconds. */
export function secondsOf(time: string | number | null | undefined): number | undefined {
  if (time === null || time === undefined || time === '') return undefined;
  if (typeof time === 'number') return time;
  if (!/^(\d+[dhms]?)+$/.test(time)) return undefined;
  let sum = 0;
  for (const [, number = '', unit = ''] of time.matchAll(/(\d+)([dhms]?)/g)) sum += Number(number) * (units[unit] ?? 1);
  return sum;
}

/** Those of a person, or of all that may be looked into; the newest first. */
export function sessionsOf(jobs: readonly Job[], now: number): AppSession[] {
  const found: AppSession[] = [];
  for (const job of jobs) {
    const app = String(job.spec?.labels?.[sessionLabel] ?? '');
    if (app === '') continue;
    const limit = secondsOf(job.spec?.time_limit);
    const started = job.startedUnixMilliseconds;
    const runs = limit !== undefined && started !== null;
    found.push({ job, app, limit, secondsLeft: runs ? Math.max(0, limit - Math.floor((now - started) / 1000)) : undefined });
  }
  return found.sort((a, b) => b.job.id - a.job.id);
}

/** What `divvy session extend` sends. */
export const extended = (session: AppSession, bySeconds: number): { time_limit: string } =>
  ({ time_limit: `${(session.limit ?? 0) + bySeconds}s` });

/** Where a service is reached. A link only where this browser reaches it by it. */
export function addressOf(service: Pick<Service, 'address' | 'port'>, host: string): { text: string; href?: string } {
  const isLoopback = /^(127\.|\[?::1\]?$|localhost$)/.test(service.address);
  const isHere = /^(127\.|\[::1\]$|localhost$)/.test(host);
  if (isLoopback && !isHere) return { text: `port ${service.port}, on the machine itself` };
  const name = isLoopback ? '127.0.0.1' : host;
  return { text: `${name}:${service.port}`, href: `http://${name}:${service.port}/` };
}

export function replicasText(scale: Service['scale']): string {
  if (scale.least === scale.most) return scale.least === 1 ? '1 replica' : `${scale.least} replicas`;
  return `${scale.least} to ${scale.most} replicas`;
}

export interface Split {
  version: number;
  state: string;
  /** Percent of the requests. */
  weight: number;
  ready: number;
  replicas: number;
}

/** Who gets which part of the requests: the version that is stable, and one that is tried. */
export function splitOf(service: Service): Split[] {
  const candidate = service.candidate;
  return service.versions
    .filter((one) => one.number === service.stable || one.number === candidate?.version)
    .map((one) => ({
      version: one.number, state: one.state, ready: one.readyReplicas, replicas: one.replicas,
      weight: one.number === candidate?.version ? candidate.weight : 100 - (candidate?.weight ?? 0),
    }));
}

/** "Promote" makes more of the new version, "roll back" ends it, or goes to an earlier one. */
export function mayRollBack(service: Service): boolean {
  return service.candidate !== null || service.versions.some((one) => one.number < service.stable && one.state === 'replaced');
}

/** What is wrong with what was typed; nothing: it can be sent. */
export function scaleProblem(least: string, most: string): string | undefined {
  const isNumber = (text: string) => /^\d{1,3}$/.test(text) && Number(text) <= 128;
  if (!isNumber(least) || !isNumber(most)) return 'Replicas: a number from 0 to 128.';
  if (Number(most) < 1) return 'At most: one replica or more, or nobody is ever answered.';
  if (Number(least) > Number(most)) return 'At least is more than at most.';
  return undefined;
}
