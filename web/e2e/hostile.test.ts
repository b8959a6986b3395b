// Whoever writes markup where text belongs, and pages of other origins: nothing of theirs runs here,
// and they learn nothing.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { openBrowser, signIn, visit, type Visitor } from './browser';
import { Daemon, until } from './daemon';

const daemon = new Daemon();
let browser: Browser;
let boss = '';
let eve: Visitor;
let elsewhere: Server;

const markups = [
  '<img src=x onerror="globalThis.owned=1">',
  '"><script>globalThis.owned=1</script>',
  "'-globalThis.owned=1-'",
  '<svg onload=globalThis.owned=1>',
  'javascript:globalThis.owned=1',
  '<a href="javascript:globalThis.owned=1">x</a>',
  '</title></style></textarea><iframe srcdoc="<script>parent.owned=1</script>">',
  '{{constructor.constructor("globalThis.owned=1")()}}',
  '\u202e<b>\u0000\u001b]0;owned\u0007',
];
const all = markups.join(' ');
// Some fields take no control characters at all, which is their way to keep them out.
const printable = markups.slice(0, -1).join(' ');
const short = markups.slice(0, 4).join(' ');

async function ask(method: string, path: string, body?: object): Promise<{ status: number; answer: Record<string, unknown> }> {
  const response = await fetch(daemon.address + path, {
    method, headers: { authorization: `Bearer ${boss}` }, ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, answer: (await response.json()) as Record<string, unknown> };
}

async function submit(job: object): Promise<number> {
  const { status, answer } = await ask('POST', '/v1/jobs', { working_directory: '/', ...job });
  expect(answer['detail']).toBeUndefined();
  expect(status).toBe(201);
  return (answer['items'] as { id: number }[])[0]?.id ?? 0;
}

beforeAll(async () => {
  await daemon.start();
  boss = daemon.token('eve', 'admin');
  browser = await openBrowser();
  eve = await visit(browser, daemon.address);
  elsewhere = createServer((_, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end('<!doctype html><title>elsewhere</title>');
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
}, 120_000);

afterAll(async () => {
  await browser.close();
  elsewhere.close();
  await daemon.stop();
}, 120_000);

it('refuses names that are no names, in words that are no markup', async () => {
  for (const markup of markups) {
    for (const [method, path, body] of [
      ['POST', '/v1/jobs', { name: markup, gpu: 0.1, command: ['true'] }],
      ['POST', '/v1/people', { name: markup, role: 'user' }],
      ['PUT', `/v1/queues/${encodeURIComponent(markup)}`, { weight: 2 }],
      ['PUT', `/v1/quotas/${encodeURIComponent(markup)}`, { weight: 2 }],
      ['POST', '/v1/what-if', { without: [markup] }],
      ['POST', '/v1/what-if', { policy: markup }],
    ] as const) {
      const { status } = await ask(method, path, body);
      expect(status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
    }
  }
});

it('shows markup as text wherever somebody can write it', async () => {
  const running = await submit({
    name: 'talk', gpu: 0.1, labels: { team: short }, environment: { NOTE: printable },
    command: ['sh', '-c', `printf '%s\\n' "$NOTE" "$0"; printf '\\033]8;;javascript:globalThis.owned=1\\033\\\\link\\033]8;;\\033\\\\\\n'; sleep 600`, printable],
  });
  const waiting = await submit({ name: 'stuck', gpu: 1, members: 64, hold_for_capacity: true, labels: { x: short }, command: [printable] });
  const failing = await submit({ name: 'absent', gpu: 0.1, command: [`/nowhere/${printable}`] });
  const cordoned = await ask('POST', '/v1/gpus/3/cordon', { reason: short });
  expect(cordoned.status).toBe(200);
  await ask('POST', '/v1/tokens', { label: short });
  await until(async () => ((await ask('GET', `/v1/jobs/${running}`)).answer['state'] === 'running'), () => 'it does not run');
  await until(async () => ((await ask('GET', `/v1/jobs/${failing}`)).answer['state'] === 'failed'), () => 'it does not fail');

  await signIn(eve, daemon.address, boss);
  const pages = ['/', '/?gpu=3', '/jobs', `/jobs?name=${encodeURIComponent(all)}&owner=${encodeURIComponent(all)}`, `/jobs/${running}`,
    `/jobs/${waiting}`, `/jobs/${failing}`, `/submit?from=${encodeURIComponent(all)}`, '/queues', '/what-if', '/usage', '/operator',
    `/${encodeURIComponent(printable)}`, `/#${encodeURIComponent(printable)}`];
  for (const path of pages) {
    await eve.page.goto(daemon.address + path);
    // What is no path of the daemon's, and a token that is none, lead to no page.
    await eve.page.locator(pages.indexOf(path) < pages.length - 2 ? '#content' : 'body').first().waitFor();
    if (path === `/jobs/${running}`) await eve.page.getByRole('log').getByText(markups[0] ?? '').first().waitFor();
    if (path === '/operator') await eve.page.getByText(markups[0] ?? '').first().waitFor();
    const found = await eve.page.evaluate(() => ({
      owned: (globalThis as unknown as { owned?: number }).owned,
      made: document.querySelectorAll('img[src="x"], iframe, svg[onload], script:not([src]), [onerror], [onload]').length,
      links: [...document.querySelectorAll('[href], [src], [action], [formaction]')].filter((one) =>
        ['href', 'src', 'action', 'formaction'].some((name) => /^\s*(javascript|data|vbscript):/i.test(one.getAttribute(name) ?? ''))).length,
    }));
    expect(found, path).toEqual({ owned: undefined, made: 0, links: 0 });
  }
  // A refusal is in the browser's console; a script that the policy stopped would be, too, and must not.
  expect(eve.wrong.filter((one) => !one.startsWith('Failed to load resource'))).toEqual([]);
});

it('gives the pages of other origins nothing, and does nothing for them', async () => {
  const before = ((await ask('GET', '/v1/jobs?limit=1000')).answer['items'] as unknown[]).length;
  const tokens = ((await ask('GET', '/v1/tokens')).answer['items'] as unknown[]).length;
  await signIn(eve, daemon.address, boss);
  expect((await eve.context.cookies()).length).toBe(1);
  const page = await eve.context.newPage();
  // The same host with another port is the same site to a browser: it sends cookies there.
  await page.goto(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`);
  const heard = await page.evaluate(async (target) => {
    const results: Record<string, string> = {};
    const attempt = async (name: string, work: () => Promise<string>) => {
      results[name] = await work().catch(() => 'refused');
    };
    await attempt('read', async () => (await fetch(`${target}/v1/jobs`, { credentials: 'include' })).text());
    await attempt('read with a key', async () => (await fetch(`${target}/v1/jobs`, { credentials: 'include', headers: { 'x-divvy-session': 'a' } })).text());
    await attempt('open read', async () => (await fetch(`${target}/v1/openapi.json`)).text());
    await attempt('blind submit', async () => String((await fetch(`${target}/v1/jobs`, {
      method: 'POST', mode: 'no-cors', credentials: 'include', body: JSON.stringify({ gpu: 0.1, command: ['true'] }),
    })).status));
    await attempt('blind token', async () => String((await fetch(`${target}/v1/tokens`, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' })).status));
    await attempt('delete', async () => String((await fetch(`${target}/v1/jobs/1`, { method: 'DELETE', credentials: 'include' })).status));
    await attempt('events', () => new Promise((resolve, reject) => {
      const source = new EventSource(`${target}/v1/watch`, { withCredentials: true });
      source.onmessage = (event) => resolve(String(event.data));
      source.onerror = () => reject(new Error('refused'));
    }));
    await attempt('socket', () => new Promise((resolve, reject) => {
      const socket = new WebSocket(`${target.replace('http', 'ws')}/v1/watch`);
      socket.onopen = () => resolve('open');
      socket.onerror = () => reject(new Error('refused'));
    }));
    await attempt('frame', () => new Promise((resolve, reject) => {
      const frame = document.createElement('iframe');
      frame.onload = () => {
        try {
          resolve(frame.contentDocument?.body.innerText ?? 'refused');
        } catch {
          reject(new Error('refused'));
        }
      };
      frame.src = target;
      document.body.append(frame);
    }));
    return results;
  }, daemon.address);
  expect(heard).toEqual({
    'read': 'refused', 'read with a key': 'refused', 'open read': 'refused', 'blind submit': '0', 'blind token': '0', 'delete': 'refused',
    'events': 'refused', 'socket': 'refused', 'frame': 'refused',
  });
  await page.close();
  expect(((await ask('GET', '/v1/jobs?limit=1000')).answer['items'] as unknown[]).length).toBe(before);
  expect(((await ask('GET', '/v1/tokens')).answer['items'] as unknown[]).length).toBe(tokens);
});
