// Sessions and services as an owner sees and changes them, on the real daemon with the real HAProxy.
import { createServer, type AddressInfo } from 'node:net';
import { existsSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessible, openBrowser, shoot, signIn, visit, type Visitor } from './browser';
import { Daemon, until } from './daemon';

const daemon = new Daemon();
let browser: Browser;
let eve: Visitor;
let user: Visitor;
let ada = '';
let boss = '';

async function ask<T>(token: string, method: string, path: string, body?: object): Promise<T> {
  const response = await fetch(daemon.address + path, {
    method, headers: { authorization: `Bearer ${token}` }, ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const answer = (await response.json()) as T & { detail?: string };
  if (!response.ok) throw new Error(answer.detail ?? String(response.status));
  return answer;
}

/** One that nobody has, a moment ago. */
function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

beforeAll(async () => {
  await daemon.start();
  boss = daemon.token('eve', 'admin');
  ada = daemon.token('ada');
  browser = await openBrowser();
  eve = await visit(browser, daemon.address);
  user = await visit(browser, daemon.address);
  await signIn(eve, daemon.address, boss);
  await signIn(user, daemon.address, ada);
}, 120_000);

afterAll(async () => {
  const all = async () => (await ask<{ items: { name: string }[] }>(boss, 'GET', '/v1/services')).items;
  try {
    await browser.close();
    // They would outlive the daemon, with the proxy before them.
    for (const one of await all()) await ask(boss, 'DELETE', `/v1/services/${one.name}`);
    await until(async () => (await all()).length === 0, () => 'services are left', 120_000);
  } finally {
    await daemon.stop();
  }
}, 240_000);

it('says how to begin where there is none', async () => {
  await user.page.goto(`${daemon.address}/services`);
  await user.page.getByText('You have no session.').waitFor();
  await user.page.getByText('divvy session start').waitFor();
  await accessible(user);
});

it('shows a session with the time that it has, gives it more, and stops it', async () => {
  const { page } = user;
  const made = await ask<{ items: { id: number }[] }>(ada, 'POST', '/v1/jobs', {
    name: 'notebook', gpu: 0.2, working_directory: '/', command: ['sleep', '600'], time_limit: '1h', labels: { 'divvy.session': 'jupyter' },
  });
  const id = made.items[0]?.id ?? 0;
  const row = page.getByRole('row', { name: /notebook/ });
  await row.getByText('running').waitFor();
  await row.getByText(/^(1 h|59 min \d+ s)$/).waitFor();
  await shoot(page, 'sessions');
  await row.getByRole('button', { name: 'Extend …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Extend' }).click();
  await row.getByText(/^(5 h|4 h 59 min)$/).waitFor();
  expect((await ask<{ spec: { time_limit: string } }>(ada, 'GET', `/v1/jobs/${id}`)).spec.time_limit).toBe('5h');
  await row.getByRole('button', { name: 'Stop …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
  await page.getByText('You have no session.').waitFor();
});

describe.skipIf(!existsSync('/usr/sbin/haproxy'))('a service', () => {
  const replica = { gpu: 0.1, working_directory: '/', command: ['sh', '-c', 'exec python3 -m http.server --bind 127.0.0.1 --directory /usr/share/common-licenses "$PORT"'] };
  const card = (visitor: Visitor) => visitor.page.getByRole('region', { name: 'Service chat' });

  it('is shown with its replicas, its version and a link to it', async () => {
    const port = await freePort();
    await ask(ada, 'POST', '/v1/services', { name: 'chat', port, job: replica, replicas: { least: 1, most: 1 } });
    await card(user).getByText('ready', { exact: true }).first().waitFor();
    await card(user).getByText('1 of 1 replicas ready').waitFor();
    expect(await card(user).getByRole('link', { name: `127.0.0.1:${port}` }).getAttribute('href')).toBe(`http://127.0.0.1:${port}/`);
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
    await accessible(user);
  });

  it('is scaled, and says what cannot be', async () => {
    const { page } = user;
    await card(user).getByRole('button', { name: 'Scale …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Replicas, at least').fill('3');
    await dialog.getByLabel('At most').fill('2');
    await dialog.getByRole('button', { name: 'Scale' }).click();
    await dialog.getByText('At least is more than at most.').waitFor();
    await dialog.getByLabel('Replicas, at least').fill('2');
    await dialog.getByRole('button', { name: 'Scale' }).click();
    await card(user).getByText('2 of 2 replicas ready').waitFor();
  });

  it('splits requests between versions, until one is promoted or taken back', async () => {
    const { page } = user;
    await ask(ada, 'POST', '/v1/services/chat/versions', { job: replica, weight: 10 });
    await card(user).getByText('90 %', { exact: true }).waitFor();
    await card(user).getByText('10 %', { exact: true }).waitFor();
    await shoot(page, 'service-canary');
    await card(user).getByRole('button', { name: 'Promote …' }).click();
    await page.getByRole('dialog').getByRole('spinbutton').fill('50');
    await page.getByRole('dialog').getByRole('button', { name: 'Promote' }).click();
    await card(user).getByText('50 %', { exact: true }).first().waitFor();
    await card(user).getByRole('button', { name: 'Roll back …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
    await card(user).getByText('100 %', { exact: true }).waitFor();
    await accessible(user);
  });

  it('is for its owner and admins to change', async () => {
    await user.page.goto(`${daemon.address}/services`);
    await ask(boss, 'POST', '/v1/services', { name: 'other', port: await freePort(), job: replica, replicas: { least: 0, most: 1 } });
    const other = (visitor: Visitor) => visitor.page.getByRole('region', { name: 'Service other' });
    await other(user).waitFor();
    expect(await other(user).getByRole('button', { name: 'Delete …' }).count()).toBe(0);
    await eve.page.goto(`${daemon.address}/services`);
    await card(eve).getByRole('button', { name: 'Delete …' }).click();
    await eve.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await card(user).waitFor({ state: 'detached' });
  });
});

it('fits on a phone, and never complained', async () => {
  const state = await eve.context.storageState();
  const phone = await visit(browser, daemon.address, { viewport: { width: 380, height: 760 }, colorScheme: 'dark', storageState: state });
  await phone.page.goto(`${daemon.address}/services`);
  await phone.page.getByText('divvy session start').waitFor();
  expect(await phone.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBeLessThanOrEqual(0);
  await accessible(phone);
  await shoot(phone.page, 'services-phone-dark');
  expect([...eve.wrong, ...user.wrong, ...phone.wrong]).toEqual([]);
});
