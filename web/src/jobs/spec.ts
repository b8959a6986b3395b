// A job's document without what nobody set. Pure.
import type { JobSpec } from '../api/types';

const usual: Record<string, unknown> = {
  queue: 'default', topology: 'any', members: 1, least_members: 0, class: 'batch', preemptible: true,
  grace: '30s', minimum_run: '0s', holder: 'members', mode: 'timeslice', priority: 0,
};
// Of objects inside of it.
const usualInside: Record<string, unknown> = {
  closeness: 'any', required: false, most: 0, pause: '10s', longest_pause: '10m', step: 1, at_once: 0,
  read_only: false,
};

function pruned(value: unknown, defaults: Record<string, unknown>): unknown {
  if (Array.isArray(value)) {
    return value.length === 0 ? undefined : value.map((one: unknown) => (typeof one === 'object' ? pruned(one, {}) : one));
  }
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value)
    .map(([name, one]: [string, unknown]) => [name, defaults[name] === one ? undefined : pruned(one, usualInside)] as const)
    .filter(([, one]) => one !== undefined && one !== null && one !== false && one !== '');
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** As somebody would have written it. The PATH is what `divvy submit` sends along by itself. */
export function asWritten(spec: JobSpec): JobSpec {
  const environment = Object.fromEntries(Object.entries(spec.environment ?? {}).filter(([name]) => name !== 'PATH'));
  const result = (pruned({ ...spec, environment }, usual) ?? {}) as JobSpec;
  if (typeof result.gpu === 'string' && /^[\d.]+$/.test(result.gpu)) result.gpu = Number(result.gpu);
  return result;
}
