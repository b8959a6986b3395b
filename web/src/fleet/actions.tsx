// What an operator can do to a GPU.
import { useState } from 'preact/hooks';
import { post } from '../api/client';
import { Confirm } from '../components/parts';
import { toast } from '../components/toast';
import { health, isAdmin, stats } from '../live/store';
import { plural } from '../text/format';
import type { FleetGpu } from './model';

export function GpuActions(props: { one: FleetGpu }) {
  const [asking, setAsking] = useState<'cordon' | 'drain' | 'uncordon'>();
  const [reason, setReason] = useState('');
  if (!isAdmin.value) return null;
  const { gpu, health: state, bands } = props.one;
  const act = async () => {
    const of = gpu.uuid;
    const body = reason === '' ? {} : { reason };
    if (asking === 'cordon') await post('/v1/gpus/{gpu}/cordon', body, { of });
    else if (asking === 'drain') await post('/v1/gpus/{gpu}/drain', body, { of });
    else await post('/v1/gpus/{gpu}/uncordon', {}, { of });
    toast(`GPU ${gpu.index}: ${asking === 'uncordon' ? 'takes work again' : `${asking ?? ''}ed`}`,
      asking === 'cordon' || asking === 'drain'
        ? { label: 'Undo', act: () => post('/v1/gpus/{gpu}/uncordon', {}, { of }).then(() => health.refresh()) }
        : undefined);
    setReason('');
    await Promise.all([health.refresh(), stats.refresh()]);
  };
  const texts = {
    cordon: 'No new work goes there. What runs goes on.',
    drain: `No new work goes there, and ${bands.length === 0 ? 'nobody has to leave' : `${plural(bands.length, 'slice')} on it ${bands.length === 1 ? 'is' : 'are'} told to end`}.`,
    uncordon: 'It takes new work again.',
  };
  return (
    <div class="buttons start">
      {state?.cordoned ? (
        <button type="button" onClick={() => setAsking('uncordon')}>Uncordon</button>
      ) : (
        <button type="button" onClick={() => setAsking('cordon')}>Cordon …</button>
      )}
      {!state?.draining && <button type="button" class="danger" onClick={() => setAsking('drain')}>Drain …</button>}
      {asking && (
        <Confirm title={`${asking[0]?.toUpperCase() ?? ''}${asking.slice(1)} GPU ${gpu.index}?`}
          text={<>
            <p>{texts[asking]}</p>
            {asking !== 'uncordon' && (
              <label class="field">Reason, for others to read
                <input value={reason} maxLength={300} onInput={(event) => setReason(event.currentTarget.value)} />
              </label>
            )}
          </>}
          action={asking === 'uncordon' ? 'Uncordon' : asking === 'drain' ? 'Drain' : 'Cordon'}
          danger={asking === 'drain'} onClose={() => setAsking(undefined)} onDo={act} />
      )}
    </div>
  );
}
