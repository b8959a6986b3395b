// What is typed on the page "What if", as the request that the daemon simulates; and how two times
// compare. Pure.
import type { WhatIfRequest } from '../api/types';
import { duration } from '../text/format';

export interface QueueWish {
  gpu: string;
  weight: string;
}

export interface Wishes {
  nodes: string;
  gpus: string;
  like: string;
  without: string;
  policy: string;
  preemption: '' | 'on' | 'off';
  queues: Record<string, QueueWish>;
}

export const noWishes: Wishes = { nodes: '', gpus: '', like: '', without: '', policy: '', preemption: '', queues: {} };

const whole = (text: string) => (/^\d+$/.test(text.trim()) ? Number(text) : undefined);

export function requestOf(wishes: Wishes): { request: WhatIfRequest } | { problem: string } {
  const request: WhatIfRequest = {};
  if (wishes.nodes.trim() !== '' || wishes.gpus.trim() !== '') {
    const count = wishes.nodes.trim() === '' ? 1 : whole(wishes.nodes);
    const gpus = wishes.gpus.trim() === '' ? undefined : whole(wishes.gpus);
    if (count === undefined) return { problem: 'More nodes: this has to be a whole number.' };
    if (wishes.gpus.trim() !== '' && gpus === undefined) return { problem: 'GPUs of each: this has to be a whole number.' };
    if (count > 0) request.add = [{ count, ...(gpus === undefined ? {} : { gpus }), ...(wishes.like === '' ? {} : { like: wishes.like }) }];
  }
  const without = wishes.without.split(/[\s,]+/).filter(Boolean);
  if (without.length > 0) request.without = without;
  if (wishes.policy !== '') request.policy = wishes.policy;
  if (wishes.preemption !== '') request.preemption = wishes.preemption === 'on';
  const queues: NonNullable<WhatIfRequest['queues']> = {};
  for (const [path, wish] of Object.entries(wishes.queues)) {
    const weight = wish.weight.trim() === '' ? undefined : whole(wish.weight);
    if (wish.weight.trim() !== '' && weight === undefined) return { problem: `${path}: a weight is a whole number.` };
    const gpu = wish.gpu.trim();
    if (gpu === '' && weight === undefined) continue;
    queues[path] = { ...(gpu === '' ? {} : { gpu }), ...(weight === undefined ? {} : { weight }) };
  }
  if (Object.keys(queues).length > 0) request.queues = queues;
  return { request };
}

/** Null is "not as far as it was looked". */
export function startText(seconds: number | null): string {
  if (seconds === null) return 'not before the end';
  return seconds === 0 ? 'at once' : `in ${duration(seconds * 1000)}`;
}

export function waitText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  return seconds === 0 ? '0 s' : duration(seconds * 1000);
}

export function difference(before: number | null, after: number | null): { text: string; good: boolean } | undefined {
  if (before === after) return undefined;
  if (after === null) return { text: 'would not start', good: false };
  if (before === null) return { text: 'would start', good: true };
  const less = before - after;
  return { text: `${duration(Math.abs(less) * 1000)} ${less > 0 ? 'sooner' : 'later'}`, good: less > 0 };
}
