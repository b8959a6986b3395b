// Debian's Chromium, headless. Every page counts what must not happen: errors on the console,
// exceptions, requests to anybody else.
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

const axeSource = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

export async function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
    ],
  });
}

export interface Visitor {
  context: BrowserContext;
  page: Page;
  /** What must stay empty. */
  wrong: string[];
}

export async function visit(browser: Browser, address: string, options: Parameters<Browser['newContext']>[0] = {}): Promise<Visitor> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') wrong.push(message.text());
  });
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !url.startsWith('blob:') && !url.startsWith('data:')) wrong.push(`request to ${url}`);
  });
  return { context, page, wrong };
}

export async function signIn(visitor: Visitor, address: string, token: string): Promise<void> {
  await visitor.page.goto(`${address}/#${token}`);
  await visitor.page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

/** Only where SHOTS names a folder. */
export async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env['SHOTS'];
  if (folder === undefined || folder === '') return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Nothing serious in the eyes of axe; the page's policy keeps scripts out, so it is told to wait. */
export async function accessible(visitor: Visitor): Promise<void> {
  const found = await visitor.page.evaluate(async (source) => {
    // Playwright evaluates outside of the page's policy.
    (0, eval)(source);
    const axe = (globalThis as unknown as { axe: { run: (o: object) => Promise<{ violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[] }> } }).axe;
    const result = await axe.run({ resultTypes: ['violations'] });
    return result.violations
      .filter((one) => one.impact === 'serious' || one.impact === 'critical')
      .map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target.join(' ')} ${node.failureSummary}`).join('; ')}`);
  }, axeSource);
  expect(found).toEqual([]);
}
