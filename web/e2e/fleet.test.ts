// Ten thousand GPUs, made up, in a real browser: they are one page, and no more is drawn than is
// seen. How smoothly they scroll depends on the machine, so it is measured and printed, not judged.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { openBrowser, shoot, signIn, visit, type Visitor } from './browser';
import { Daemon } from './daemon';

const daemon = new Daemon('1');
let browser: Browser;
let eve: Visitor;

const nodes = 1250;
const each = 8;

function stats(): object {
  const owners = ['ada', 'ben', 'cleo', 'dan', 'eve', 'finn', 'gita', 'hugo'];
  const gpus = [];
  const tenants = [];
  for (let n = 0; n < nodes; n += 1) {
    for (let i = 0; i < each; i += 1) {
      const k = n * each + i;
      const uuid = `GPU-${k}`;
      const slices = k % 5 === 0 ? 0 : 1 + (k % 3);
      gpus.push({
        index: i, node: `rack${Math.floor(n / 16)}-node${n % 16}`, uuid, model: 'NVIDIA H200', memoryBytes: 150_000_000_000,
        freeShareThousandths: 1000 - slices * 300, freeMemoryBytes: (1 - slices * 0.3) * 150_000_000_000,
        mode: null, unusable: k % 97 === 0 ? 'it is cordoned' : null,
      });
      for (let s = 0; s < slices; s += 1) {
        tenants.push({
          id: tenants.length + 1, name: `job-${tenants.length + 1}.1.0`, holder: 'members', job: null, attempt: 1, rank: 0, user: owners[(k + s) % owners.length], command: '',
          sinceUnixSeconds: 0, class: 'batch', mode: 'timeslice', state: 'running',
          slices: [{
            gpu: { index: i, uuid, model: '' }, shareThousandths: 300, capped: false, memoryLimitBytes: 45_000_000_000,
            memoryUsedBytes: 20_000_000_000, memoryPeakBytes: 0, usedShareThousandths: (k * 37 + s * 101) % 500,
          }],
        });
      }
    }
  }
  return { unixMilliseconds: Date.now(), hostname: 'head', simulated: true, waiting: 12, gpus, tenants };
}

beforeAll(async () => {
  await daemon.start();
  const token = daemon.token('eve', 'admin');
  browser = await openBrowser();
  eve = await visit(browser, daemon.address);
  const body = JSON.stringify(stats());
  await eve.page.route('**/v1/stats', (route) => route.fulfill({ contentType: 'application/json', body }));
  await signIn(eve, daemon.address, token);
}, 120_000);

afterAll(async () => {
  await browser.close();
  await daemon.stop();
}, 120_000);

it('draws of ten thousand GPUs those that are seen', async () => {
  const { page } = eve;
  await page.getByRole('application', { name: /^10000 GPUs/ }).waitFor();
  await shoot(page, 'fleet-10000');
  const result = await page.evaluate(async () => {
    const frame = document.querySelector('.fleet-frame');
    const canvas = document.querySelector('canvas');
    if (!frame || !canvas) throw new Error('there is no picture');
    const drawing: number[] = [];
    const times: number[] = [];
    let most = 0;
    let last = performance.now();
    for (let i = 0; i < 120; i += 1) {
      frame.scrollTop += 40;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      times.push(now - last);
      last = now;
      drawing.push(Number(canvas.dataset['milliseconds']));
      most = Math.max(most, Number(canvas.dataset['drawn']));
    }
    const median = (list: number[]) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0;
    return { drawing: median(drawing), frame: median(times), most, height: frame.scrollHeight };
  });
  console.log(`median: ${result.drawing.toFixed(2)} ms of drawing, ${(1000 / result.frame).toFixed(0)} frames a second, at most ${result.most} GPUs drawn`);
  expect(result.most).toBeGreaterThan(100);
  expect(result.most).toBeLessThan(nodes * each / 2);
  expect(result.height).toBeGreaterThan(2000);
});

it('finds one of them', async () => {
  const { page } = eve;
  await page.getByLabel('Search the fleet').fill('rack7-node3');
  await page.getByRole('application', { name: /^8 GPUs/ }).waitFor();
  expect(await page.getByRole('application').getAttribute('data-size')).toBe('large');
  expect(eve.wrong).toEqual([]);
});
