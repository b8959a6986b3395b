// A terminal in a job, in the browser: it goes on when the daemon is killed and started again, and what
// is written in it has no power over the page.
import { request } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { accessible, openBrowser, shoot, signIn, visit, type Visitor } from './browser';
import { Daemon, until } from './daemon';

const daemon = new Daemon();
let browser: Browser;
let eve: Visitor;
let boss = '';
let ada = '';
let job = 0;

async function submit(spec: object): Promise<number> {
  const response = await fetch(`${daemon.address}/v1/jobs`, {
    method: 'POST', headers: { authorization: `Bearer ${ada}` }, body: JSON.stringify({ working_directory: '/', ...spec }),
  });
  const answer = (await response.json()) as { items: { id: number }[]; detail?: string };
  if (response.status !== 201) throw new Error(answer.detail ?? String(response.status));
  const id = answer.items[0]?.id ?? 0;
  await until(async () => {
    const now = await fetch(`${daemon.address}/v1/jobs/${id}`, { headers: { authorization: `Bearer ${boss}` } });
    return ((await now.json()) as { state: string }).state === 'running';
  }, () => `job ${id} does not run`);
  return id;
}

/** What the terminal shows now, line by line. */
const rows = async () => (await eve.page.locator('.xterm-rows > div').allTextContents()).map((one) => one.trimEnd());
async function shows(pattern: RegExp): Promise<string> {
  let found: string | undefined;
  await until(async () => {
    found = (await rows()).find((one) => pattern.test(one));
    return found !== undefined;
  }, () => `the terminal does not show ${pattern.source}`);
  return found ?? '';
}
const isState = (name: string) => eve.page.locator('.terminal-bar').getByText(name, { exact: true }).waitFor();

beforeAll(async () => {
  await daemon.start();
  boss = daemon.token('eve', 'admin');
  ada = daemon.token('ada');
  browser = await openBrowser();
  eve = await visit(browser, daemon.address);
  job = await submit({ name: 'train', gpu: 0.3, command: ['sleep', '600'] });
  await signIn(eve, daemon.address, ada);
}, 120_000);

afterAll(async () => {
  await browser.close();
  await daemon.stop();
}, 120_000);

it('opens from the page of a job, and is as wide as it looks', async () => {
  const { page } = eve;
  await page.goto(`${daemon.address}/jobs/${job}`);
  await page.getByRole('link', { name: 'Terminal' }).first().click();
  await isState('connected');
  // What is typed by one is not echoed as what it means.
  await page.keyboard.type('echo size: $(stty size) gpu: ${CUDA_VISIBLE_DEVICES:-none}\n');
  const said = /^size: (\d+) (\d+) gpu: (.+)$/.exec(await shows(/^size: \d/));
  expect((await rows()).length).toBe(Number(said?.[1]));
  await page.setViewportSize({ width: 900, height: 600 });
  await until(async () => (await rows()).length < Number(said?.[1]), () => 'the terminal does not fit into the window');
  await page.keyboard.type('stty size | sed s/^/now:/\n');
  const narrow = /^now:(\d+) (\d+)$/.exec(await shows(/^now:\d/));
  expect(Number(narrow?.[2])).toBeLessThan(Number(said?.[2]));
  await page.setViewportSize({ width: 1280, height: 800 });
});

it('draws colours, without a style that the policy forbids', async () => {
  const { page } = eve;
  await page.keyboard.type(String.raw`clear; printf '\033[1;31mred\033[0m \033[38;2;255;140;0mtr%s\033[0m\n' ue` + '\n');
  await shows(/^red true$/);
  const colour = await page.locator('.xterm-rows span', { hasText: /^true$/ }).evaluate((one) => getComputedStyle(one).color);
  expect(colour).toBe('rgb(255, 140, 0)');
  expect(await page.locator('style').count()).toBe(0);
  await shoot(page, 'terminal-light');
  await accessible(eve);
});

it('goes on in the same shell when the daemon was killed and started again', async () => {
  const { page } = eve;
  await page.keyboard.type('clear; echo before: $$\n');
  const before = /\d+/.exec(await shows(/^before: \d+$/))?.[0];
  // Somebody writes while nobody listens.
  await page.keyboard.type(`(while [ ! -e ${daemon.folder}/on ]; do sleep 0.05; done; seq 1 20000; echo counted) &\n`);
  await shows(/^\[1\]/);
  await daemon.kill();
  await isState('reconnecting …');
  await shoot(page, 'terminal-reconnecting');
  const { writeFileSync } = await import('node:fs');
  writeFileSync(`${daemon.folder}/on`, '');
  await page.keyboard.type('wait; echo after: $$\n');
  await daemon.start();
  await isState('connected');
  await shows(/counted/);
  const after = /\d+/.exec(await shows(/^after: \d+$/))?.[0];
  expect(after).toBe(before);
  // Nothing of it was lost or came twice, as far back as the terminal goes.
  const { page: same } = eve;
  await same.keyboard.type('clear; echo still: $$\n');
  expect(await shows(/^still: \d+$/)).toBe(`still: ${before ?? ''}`);
});

it('keeps what is typed from the palette, and leaves on Ctrl-Shift-Enter', async () => {
  const { page } = eve;
  await page.keyboard.type('echo no');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('echo yes: $((40 + 2))\n');
  await shows(/^yes: 42$/);
  expect(await page.getByRole('dialog').count()).toBe(0);
  await page.keyboard.press('Control+Shift+Enter');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('connected');
});

it('is still there after a look at another page', async () => {
  const { page } = eve;
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await page.getByRole('link', { name: 'train' }).click();
  const link = page.getByRole('link', { name: /^Terminal/ }).first();
  await link.getByText('open', { exact: true }).waitFor();
  await link.click();
  await shows(/^yes: 42$/);
  await page.keyboard.type('echo here\n');
  await shows(/^here$/);
  await page.keyboard.press('Control+Shift+Enter');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('connected');
  await page.locator('.xterm-screen').click();
});

it('gives what is written in it no power over the page', async () => {
  const { page } = eve;
  const title = await page.title();
  await page.keyboard.type(String.raw`clear; printf '\033]0;owned\007\033]2;owned\007\033]52;c;b3duZWQ=\007'; printf '\033]8;;javascript:globalThis.owned=1\033\\li%s\033]8;;\033\\ <img src=x onerror=globalThis.owned=1>\n' nk` + '\n');
  await shows(/^link </);
  await page.locator('.xterm-rows').getByText('link').last().click({ force: true });
  expect(await page.title()).toBe(title);
  expect(await page.evaluate(() => (globalThis as unknown as { owned?: number }).owned)).toBeUndefined();
  expect(await page.locator('.xterm img').count()).toBe(0);
  expect(eve.context.pages().length).toBe(1);
});

it('is refused to a page of another origin that has both halves of the session', async () => {
  const cookie = (await eve.context.cookies())[0];
  const name = 'a'.repeat(64);
  const opened = await fetch(`${daemon.address}/v1/jobs/${job}/channels`, {
    method: 'POST', headers: { authorization: `Bearer ${ada}` },
    body: JSON.stringify({ kind: 'exec', channel: name, terminal: true, command: ['sh'] }),
  });
  expect(opened.status).toBe(201);
  const shake = (origin: string, key: string) => new Promise<{ status: number; protocol: string }>((resolve, reject) => {
    const asked = request(`${daemon.address}/v1/jobs/${job}/channels?channel=${name}&rank=0`, {
      headers: {
        connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        cookie: `${cookie?.name ?? ''}=${cookie?.value ?? ''}`, 'sec-websocket-protocol': `divvy.channel.v1, divvy-session.${key}`, origin,
      },
    });
    asked.on('response', (answer) => {
      answer.resume();
      resolve({ status: answer.statusCode ?? 0, protocol: '' });
    });
    asked.on('upgrade', (answer, socket) => {
      socket.destroy();
      resolve({ status: answer.statusCode ?? 0, protocol: answer.headers['sec-websocket-protocol'] ?? '' });
    });
    asked.on('error', reject);
    asked.end();
  });
  const key = ada.slice(-32);
  expect(await shake(daemon.address, key)).toEqual({ status: 101, protocol: 'divvy.channel.v1' });
  expect((await shake('http://evil.example', key)).status).toBe(401);
  expect((await shake('null', key)).status).toBe(401);
  expect((await shake(daemon.address, '0'.repeat(32))).status).toBe(401);
  // Without the upgrade it says whether there is such a channel.
  const ask = async (of: string) => (await fetch(`${daemon.address}/v1/jobs/${job}/channels?channel=${of}&rank=0`, { headers: { authorization: `Bearer ${ada}` } })).status;
  expect(await ask(name)).toBe(426);
  expect(await ask('b'.repeat(64))).toBe(404);
});

it('says how the shell ended, and opens another', async () => {
  const { page } = eve;
  await page.keyboard.type('exit 3\n');
  await page.locator('.terminal-bar').getByText('The shell ended with status 3.').waitFor();
  await shoot(page, 'terminal-ended');
  await page.getByRole('button', { name: 'Open another' }).click();
  await isState('connected');
  await page.keyboard.type('kill -9 $$\n');
  await page.locator('.terminal-bar').getByText('The shell was ended by signal 9').waitFor();
});

it('hangs up on what runs in it when it is closed, or when somebody signs out', async () => {
  const { page } = eve;
  const runs = async (mark: string) => {
    await page.getByRole('button', { name: 'Open another' }).click();
    await isState('connected');
    await page.keyboard.type(`clear; echo pid: $$; touch ${daemon.folder}/nothing 2>/dev/null; sleep ${mark}\n`);
    return Number(/\d+/.exec(await shows(/^pid: \d+$/))?.[0]);
  };
  const lives = (pid: number) => {
    try {
      process.kill(pid, 0);
      return true;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EPERM';
    }
  };
  const first = await runs('6001');
  expect(lives(first)).toBe(true);
  await page.getByRole('button', { name: 'Close …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await page.locator('.terminal-bar').getByText('The terminal was closed.').waitFor();
  await until(() => !lives(first), () => 'the shell lives on');
  const second = await runs('6002');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await until(() => !lives(second), () => 'the shell lives on');
});

it('is for each member, for its owner and for admins, and for what runs', async () => {
  const { page } = eve;
  await signIn(eve, daemon.address, boss);
  const gang = await submit({ name: 'gang', gpu: 0.1, members: 2, command: ['sleep', '600'] });
  await page.goto(`${daemon.address}/jobs/${gang}`);
  await page.getByRole('link', { name: 'Terminal in member 1' }).click();
  expect(page.url()).toBe(`${daemon.address}/jobs/${gang}/terminal?rank=1`);
  await isState('connected');
  await page.keyboard.type('echo rank: $DIVVY_RANK\n');
  await shows(/^rank: 1$/);
  const waits = await fetch(`${daemon.address}/v1/jobs`, {
    method: 'POST', headers: { authorization: `Bearer ${boss}` },
    body: JSON.stringify({ name: 'waits', gpu: 5, hold_for_capacity: true, working_directory: '/', command: ['true'] }),
  });
  const waiting = ((await waits.json()) as { items: { id: number }[] }).items[0]?.id ?? 0;
  await page.goto(`${daemon.address}/jobs/${waiting}/terminal`);
  await page.getByText('does not run').waitFor();
  daemon.divvy('delete', String(waiting));
});

it('works on a phone and in the dark', async () => {
  const state = await eve.context.storageState();
  const phone = await visit(browser, daemon.address, { viewport: { width: 380, height: 760 }, colorScheme: 'dark', storageState: state });
  await phone.page.goto(`${daemon.address}/jobs/${job}/terminal`);
  await phone.page.locator('.terminal-bar').getByText('connected', { exact: true }).waitFor();
  const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(wide).toBeLessThanOrEqual(0);
  await accessible(phone);
  await shoot(phone.page, 'terminal-phone-dark');
  expect(phone.wrong).toEqual([]);
  await phone.context.close();
  // What could not be reached while the daemon was away is what this is about.
  expect(eve.wrong.filter((one) => !/ERR_|Failed to load|WebSocket connection/.test(one))).toEqual([]);
});
