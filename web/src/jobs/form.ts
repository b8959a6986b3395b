// The form of a new job, and the document that it is. Pure.
import type { JobSpec } from '../api/types';
import { parseSize } from '../text/format';
import { join, split } from '../text/shell';

export interface Form {
  command: string;
  name: string;
  queue: string;
  gpu: string;
  gpuMemory: string;
  members: string;
  class: 'batch' | 'latency';
  timeLimit: string;
  expected: string;
  priority: string;
  image: string;
  folder: string;
  retries: string;
  environment: string;
  cap: boolean;
}

export const emptyForm: Form = {
  command: '', name: '', queue: '', gpu: '1', gpuMemory: '', members: '1', class: 'batch',
  timeLimit: '', expected: '', priority: '0', image: '', folder: '', retries: '0',
  environment: '', cap: false,
};

export type Made = { spec: JobSpec } | { problem: string };

export function specOf(form: Form): Made {
  const command = split(form.command);
  if ('error' in command) return { problem: `Command: ${command.error}.` };
  if (command.words.length === 0 && form.image === '') return { problem: 'What is it to run?' };
  if (!/^\d+(\.\d{1,3})?$/.test(form.gpu.trim()) && form.gpuMemory === '') {
    return { problem: 'GPU: a number like 0.3 or 2.' };
  }
  if (form.gpuMemory !== '' && parseSize(form.gpuMemory) === undefined) {
    return { problem: 'GPU memory: a size like 10GiB.' };
  }
  const environment: Record<string, string> = {};
  for (const line of form.environment.split('\n').filter((one) => one.trim() !== '')) {
    const at = line.indexOf('=');
    if (at < 1) return { problem: `Environment: "${line}" is not NAME=VALUE.` };
    environment[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  const spec: Record<string, unknown> = {};
  const set = (name: string, value: unknown, usual?: unknown) => {
    if (value !== '' && value !== usual) spec[name] = value;
  };
  set('name', form.name.trim());
  set('queue', form.queue.trim());
  if (form.gpu.trim() !== '') set('gpu', Number(form.gpu));
  set('gpu_memory', form.gpuMemory.trim());
  set('cap', form.cap, false);
  set('members', Number(form.members) || 1, 1);
  set('class', form.class, 'batch');
  if (command.words.length > 0) spec['command'] = command.words;
  if (Object.keys(environment).length > 0) spec['environment'] = environment;
  set('working_directory', form.folder.trim());
  if (form.image.trim() !== '') spec['container'] = { image: form.image.trim() };
  set('priority', Number(form.priority) || 0, 0);
  set('time_limit', form.timeLimit.trim());
  set('expected', form.expected.trim());
  if ((Number(form.retries) || 0) > 0) spec['retry'] = { most: Number(form.retries) };
  return { spec };
}

const text = (value: string | number | null | undefined): string =>
  value === null || value === undefined ? '' : typeof value === 'number' ? `${value}s` : value;

/** As the form would have it; what it has no field for is left out. */
export function formOf(spec: JobSpec): Form {
  return {
    command: join(spec.command ?? []),
    name: spec.name ?? '',
    queue: spec.queue === 'default' ? '' : (spec.queue ?? ''),
    gpu: spec.gpu === null || spec.gpu === undefined ? '' : String(spec.gpu),
    gpuMemory: spec.gpu_memory === null || spec.gpu_memory === undefined ? '' : String(spec.gpu_memory),
    members: String(spec.members ?? 1),
    class: spec.class ?? 'batch',
    timeLimit: text(spec.time_limit),
    expected: text(spec.expected),
    priority: String(spec.priority ?? 0),
    image: spec.container?.image ?? '',
    folder: spec.working_directory ?? '',
    retries: String(spec.retry?.most ?? 0),
    environment: Object.entries(spec.environment ?? {})
      .map(([name, value]) => `${name}=${String(value)}`)
      .join('\n'),
    cap: spec.cap ?? false,
  };
}
