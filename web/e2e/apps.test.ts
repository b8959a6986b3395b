// The apps of `divvy session` as people use them: JupyterLab and TensorBoard in Chromium, through
// divvyd, which is killed and replaced meanwhile. APPS names the folder with their programs
// (tools/check-apps); without it there is nothing to try.
import { execFileSync, type ChildProcess } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openBrowser, shoot } from './browser';
import { Daemon, until } from './daemon';

const apps = process.env['APPS'] ?? '';

describe.skipIf(apps === '')('apps', () => {
  const daemon = new Daemon();
  const open: ChildProcess[] = [];
  let browser: Browser;

  beforeAll(async () => {
    await daemon.start();
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser.close();
    for (const each of open) each.kill('SIGINT');
    await daemon.stop();
  });

  /** The address that it prints. */
  async function session(...words: string[]): Promise<string> {
    const child = daemon.begin({ PATH: `${apps}:${process.env['PATH'] ?? ''}` }, 'session', 'start', '--no-browser', ...words);
    open.push(child);
    let printed = '';
    let said = '';
    child.stdout?.on('data', (piece: Buffer) => (printed += piece.toString()));
    child.stderr?.on('data', (piece: Buffer) => (said += piece.toString()));
    await until(() => printed.includes('\n') || child.exitCode !== null, () => `no address:\n${said}`);
    expect(printed, said).toMatch(/^http:\/\/127\.0\.0\.1:\d+\//);
    return printed.split('\n')[0] ?? '';
  }

  it('has the output of a cell whole, although the daemon was replaced in the middle of it', { timeout: 300_000 }, async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(await session('--app', 'jupyter', '--gpu', '0.3'));
    await page.locator('.jp-LauncherCard[data-category="Notebook"]').first().click({ timeout: 120_000 });
    const cell = page.locator('.jp-Notebook .jp-CodeCell .cm-content').first();
    await cell.click({ timeout: 120_000 });
    await page.keyboard.type('import time\nfor i in range(30): print("line", i, flush=True); time.sleep(0.5)');
    await page.keyboard.press('Shift+Enter');
    const output = page.locator('.jp-OutputArea-output pre').first();
    await until(async () => (await output.count()) > 0 && /line 3\b/.test(await output.innerText()), () => 'the cell does not run');
    await daemon.kill();
    await daemon.start();
    await until(async () => /line 29\b/.test(await output.innerText()), () => 'the cell does not end');
    await shoot(page, 'jupyter');
    const lines = (await output.innerText()).trim().split('\n');
    expect(lines).toEqual(Array.from({ length: 30 }, (_, i) => `line ${i}`));
    // It sees its slice and nothing else: three tenths of the memory of an H200.
    await page.locator('.jp-Notebook .jp-CodeCell .cm-content').nth(1).click();
    await page.keyboard.type('!gpuload -o text info | grep device_total');
    await page.keyboard.press('Shift+Enter');
    await until(async () => (await page.getByText(/device_total_bytes: 45\d{9}/).count()) > 0, () => 'no GPU in the notebook');
    await page.close();
  });

  it('shows a curve in TensorBoard', { timeout: 180_000 }, async () => {
    const runs = join(daemon.folder, 'runs');
    mkdirSync(runs);
    execFileSync(join(apps, 'python'), ['-c', `
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
writer = EventFileWriter(${JSON.stringify(runs)})
for step in range(20):
    writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=1 / (1 + step))])))
writer.close()
`]);
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(await session('--app', 'tensorboard', '--', '--logdir', runs));
    await page.getByText('loss', { exact: true }).first().waitFor({ timeout: 60_000 });
    await page.locator('line-chart').first().waitFor({ timeout: 60_000 });
    await shoot(page, 'tensorboard');
    await page.close();
  });
});
