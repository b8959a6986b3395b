// The documents of the API. Those with a schema come from its description (schema.d.ts); the views
// of machines, which have none, are written down here as far as the console reads them.
import type { components } from './schema';

type Schemas = components['schemas'];
export type Job = Schemas['Job'];
export type JobSpec = Schemas['JobSpec'];
export type Member = Schemas['Member'];
export type Wait = Schemas['Wait'];
export type Person = Schemas['Person'];
export type Token = Schemas['Token'];
export type AuditEntry = Schemas['AuditEntry'];
export type Queue = Schemas['Queue'];
export type Usage = Schemas['Usage'];
export type UserQuota = Schemas['UserQuota'];
export type WhatIf = Schemas['WhatIf'];
export type WhatIfRequest = Schemas['WhatIfRequest'];
export type Use = Schemas['Use'];
export type Service = Schemas['Service'];
export type JobState = Job['state'];

export interface GpuName {
  index: number;
  uuid: string;
  model: string;
}

export interface Gpu extends GpuName {
  node?: string;
  memoryBytes: number;
  freeShareThousandths: number;
  freeMemoryBytes: number;
  mode: string | null;
  /** Why no new work goes there. */
  unusable: string | null;
}

export interface TenantSlice {
  gpu: GpuName;
  shareThousandths: number;
  capped: boolean;
  memoryLimitBytes: number;
  memoryUsedBytes: number;
  memoryPeakBytes: number;
  usedShareThousandths: number | null;
}

export interface Tenant {
  id: number;
  name: string;
  /** What uses its slices: members that the queue started, a process of its own, or nothing yet. */
  holder: 'members' | 'process' | 'slice';
  /** Nothing for what was granted before everybody was a job. */
  job: number | null;
  attempt: number;
  rank: number;
  user: string;
  command: string;
  sinceUnixSeconds: number;
  class: string;
  mode: string;
  state: string;
  slices: TenantSlice[];
}

export interface Stats {
  unixMilliseconds: number;
  hostname: string;
  simulated: boolean;
  waiting: number;
  gpus: Gpu[];
  tenants: Tenant[];
}

export interface Sample {
  temperatureCelsius: number | null;
  slowdownTemperatureCelsius: number | null;
  powerMilliwatts: number | null;
  utilizationPercent: number | null;
}

export interface GpuHealth extends GpuName {
  state: string;
  reason: string | null;
  sinceUnixMilliseconds: number;
  cordoned: boolean;
  draining: boolean;
  cordonReason: string | null;
  acceptsWork: boolean;
  sample: Sample | null;
}

export interface MachineEvent {
  number: number;
  unixMilliseconds: number;
  kind: string;
  node: string | null;
  gpu: number | null;
  uuid: string | null;
  tenant: string | null;
  state: string | null;
  reason: string | null;
}

/** States of a job that has not ended. */
export const activeStates = ['queued', 'starting', 'running', 'stopping', 'suspended'] as const;
export const endedStates = ['succeeded', 'failed', 'cancelled'] as const;
export const isEnded = (job: Job) => (endedStates as readonly string[]).includes(job.state);
