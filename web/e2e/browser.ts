// Debian's Chromium, headless. Every page counts what must not happen: errors on the console,
// exceptions, requests to anybody else.
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

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
