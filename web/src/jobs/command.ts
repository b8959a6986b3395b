// A job as the command that submits it. Pure; the options are those of `divvy submit`.
import type { JobSpec } from '../api/types';
import { join, quote } from '../text/shell';

type Value = string | number | boolean | null | undefined;

function seconds(value: unknown): string {
  return typeof value === 'number' ? `${value}s` : String(value);
}

/** Fields that no option can say; then the job file is the way. */
export function beyondOptions(spec: JobSpec): string[] {
  const known = new Set([
    'name', 'queue', 'command', 'environment', 'working_directory', 'container', 'gpu',
    'gpu_memory', 'cap', 'models', 'models_denied', 'topology', 'members', 'least_members',
    'devices', 'class', 'limits', 'priority', 'stdin', 'preemptible', 'grace', 'minimum_run',
    'time_limit', 'expected', 'array', 'after', 'retry', 'labels', 'mode', 'hold_for_capacity',
    'holder',
  ]);
  return Object.entries(spec)
    .filter(([name, value]) => !known.has(name) && (value as unknown) != null)
    .filter(([, value]) => !(typeof value === 'object' && Object.keys(value as object).length === 0))
    .map(([name]) => name);
}

export function submitCommand(spec: JobSpec): string {
  const words: string[] = ['divvy', 'submit'];
  const option = (name: string, value: Value, usual?: Value) => {
    if (value === undefined || value === null || value === '' || value === usual) return;
    if (value === true) words.push(`--${name}`);
    else if (value !== false) words.push(`--${name}`, quote(String(value)));
  };
  const each = (name: string, values: readonly unknown[] | undefined | null) => {
    for (const value of values ?? []) option(name, String(value));
  };
  const pairs = (name: string, values: Record<string, unknown> | undefined) => {
    for (const [key, value] of Object.entries(values ?? {})) option(name, `${key}=${String(value)}`);
  };
  option('name', spec.name);
  option('queue', spec.queue, 'default');
  option('gpu', spec.gpu);
  option('gpu-mem', spec.gpu_memory);
  option('cap', spec.cap);
  option('class', spec.class, 'batch');
  option('mode', spec.mode);
  option('members', spec.members, 1);
  option('least', spec.least_members, 0);
  each('device', spec.devices);
  each('model', spec.models);
  each('not-model', spec.models_denied);
  option('topology', spec.topology, 'any');
  pairs('env', spec.environment);
  option('cwd', spec.working_directory);
  const container = spec.container;
  if (container) {
    option('image', container.image);
    for (const mount of container.mounts ?? []) {
      option('mount', `${mount.source}:${mount.target}${mount.read_only ? ':ro' : ''}`);
    }
    for (const port of container.ports ?? []) option('publish', `${port.host}:${port.container}`);
    each('entry-point', container.entry_point);
  }
  const limits = spec.limits;
  if (limits) {
    option('cpu', limits.cpu_milli === undefined || limits.cpu_milli === null ? undefined : limits.cpu_milli / 1000);
    option('ram', limits.ram);
    option('pids', limits.pids);
    option('shm-size', limits.shm);
  }
  option('priority', spec.priority, 0);
  option('keep', spec.preemptible === false);
  option('stdin', spec.stdin);
  if (spec.grace !== undefined && seconds(spec.grace) !== '30s') option('grace', seconds(spec.grace));
  if (spec.minimum_run !== undefined && seconds(spec.minimum_run) !== '0s') option('min-run', seconds(spec.minimum_run));
  if (spec.time_limit) option('time-limit', seconds(spec.time_limit));
  if (spec.expected) option('expected', seconds(spec.expected));
  const array = spec.array;
  if (array) {
    const step = (array.step ?? 1) === 1 ? '' : `:${array.step ?? 1}`;
    const atOnce = (array.at_once ?? 0) === 0 ? '' : `%${array.at_once ?? 0}`;
    option('array', `${array.first ?? 0}-${array.last ?? 0}${step}${atOnce}`);
  }
  for (const one of spec.after ?? []) {
    if (typeof one === 'number') option('after', one);
    else option('after', (one.kind ?? 'succeeded') === 'succeeded' ? one.job : `${one.job}:${one.kind ?? ''}`);
  }
  option('retries', spec.retry?.most, 0);
  pairs('label', spec.labels);
  option('hold-for-capacity', spec.hold_for_capacity);
  if ((spec.command ?? []).length > 0) words.push('--', join(spec.command ?? []));
  return words.join(' ');
}
