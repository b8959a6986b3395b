// The states that a job was in, as a line and as a list.
import type { Job } from '../api/types';
import { isEnded } from '../api/types';
import { State, Time } from '../components/parts';
import { now } from '../live/store';
import { duration } from '../text/format';

export function Timeline(props: { job: Job }) {
  const { job } = props;
  const steps = job.history ?? [];
  if (steps.length === 0) return null;
  const begin = steps[0]?.unixMilliseconds ?? 0;
  const end = isEnded(job) ? (job.endedUnixMilliseconds ?? begin) : now.value;
  const whole = Math.max(1, end - begin);
  return (
    <section class="card" aria-label="What happened to it">
      <h2>What happened to it</h2>
      <div class="timeline" aria-hidden="true">
        {steps.map((step, i) => {
          const until = steps[i + 1]?.unixMilliseconds ?? end;
          const part = (until - step.unixMilliseconds) / whole;
          if (part <= 0) return null;
          return (
            <span key={i} class={`segment ${step.state}`} style={{ flexGrow: Math.max(part, 0.004) }}
              title={`${step.state} for ${duration(until - step.unixMilliseconds)}`}>
              {part > 0.12 ? `${step.state} ${duration(until - step.unixMilliseconds)}` : ''}
            </span>
          );
        })}
      </div>
      <ol class="steps">
        {steps.slice(-50).map((step, i) => (
          <li key={i}>
            <span class="when"><Time at={step.unixMilliseconds} /></span>
            <State of={step.state} />
            <span class="wrap">{step.reason}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
