// A real provider of OpenID Connect signs a browser in to the console, and `divvy login` on a
// terminal. OIDC_PROVIDER names the folder of tests/oidc with its packages (tools/check-oidc);
// without it there is nothing to try.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessible, openBrowser, shoot } from './browser';
import { Daemon, until } from './daemon';

const folder = process.env['OIDC_PROVIDER'] ?? '';

describe.skipIf(folder === '')('signing in with a provider', () => {
  const daemon = new Daemon();
  let browser: Browser;
  let context: BrowserContext;
  let provider: ChildProcess;
  let said = '';
  const secret = 'a-secret-of-the-client-that-no-log-has';

  beforeAll(async () => {
    // Once for the port, which the provider has to know.
    await daemon.start();
    const certificate = join(daemon.folder, 'provider.pem');
    const key = join(daemon.folder, 'provider.key');
    execFileSync('openssl', [
      'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
      '-subj', '/CN=provider', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', certificate,
    ], { stdio: 'ignore' });
    provider = spawn('node', [
      'provider.mjs', certificate, key, `${daemon.address}/v1/sign-in/callback`, secret,
    ], { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
    provider.stdout?.on('data', (piece: Buffer) => (said += piece.toString()));
    await until(() => said.includes('\n') || provider.exitCode !== null, () => 'the provider does not start');
    const issuer = said.split('\n')[0] ?? '';
    writeFileSync(join(daemon.folder, 'client-secret'), `${secret}\n`);
    chmodSync(join(daemon.folder, 'client-secret'), 0o600);
    daemon.settings.push(
      `sign_in.issuer=${issuer}`, 'sign_in.name=the lab', 'sign_in.client_id=divvy',
      `sign_in.client_secret_file=${join(daemon.folder, 'client-secret')}`,
      `sign_in.authorities=${certificate}`, 'sign_in.scopes=[profile, groups]',
      `sign_in.console_url=${daemon.address}`, 'sign_in.admin_groups=[ops]', 'sign_in.new_users=true',
    );
    await daemon.kill('SIGTERM');
    await daemon.start();
    daemon.divvy('context', 'add', 'lab', '--at', daemon.address);
    browser = await openBrowser();
    // The test's own authority; the daemon is told of it by sign_in.authorities.
    context = await newContext();
  });
  afterAll(async () => {
    await browser.close();
    provider.kill();
    await daemon.stop();
  });

  async function newContext(): Promise<BrowserContext> {
    const made = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
    // The provider's pages would like a font from elsewhere.
    await made.route(/googleapis/, (route) => route.abort());
    return made;
  }

  async function setMode(mode: string): Promise<void> {
    said = '';
    provider.stdin?.write(`${mode}\n`);
    await until(() => said.includes(`mode ${mode}\n`), () => 'the provider does not listen');
  }

  /** Answers what the provider asks on pages of its own, until `arrived`. */
  async function pass(page: Page, name: string, arrived: () => Promise<boolean>): Promise<void> {
    await until(async () => {
      if (await arrived()) return true;
      const before = page.url();
      if (!before.includes('/interaction/')) return false;
      await page.waitForLoadState();
      // Who it is; then consent, which is given once.
      if ((await page.locator('input[name=login]').count()) > 0) {
        await page.locator('input[name=login]').fill(name);
        await page.locator('input[name=password]').fill('any');
      }
      await page.locator('button[type=submit]').click();
      await page.waitForURL((url) => url.href !== before);
      return false;
    }, () => `the provider leads nowhere: ${page.url()}`);
  }

  async function signInByBrowser(page: Page, name: string): Promise<void> {
    await page.goto(daemon.address);
    await page.getByRole('button', { name: 'Sign in with the lab' }).click();
    const back = pages(page).or(page.getByText(/You are not let in here|The provider did not do its part/));
    await pass(page, name, async () => (await back.count()) > 0);
  }

  const pages = (page: Page) => page.getByRole('navigation', { name: 'Pages' });

  it('signs a browser in, and out', async () => {
    const page = await context.newPage();
    await page.goto(daemon.address);
    await page.getByRole('button', { name: 'Sign in with the lab' }).waitFor();
    await accessible({ context, page, wrong: [] });
    await shoot(page, 'sign-in-with-provider');
    await signInByBrowser(page, 'ada');
    await pages(page).waitFor();
    expect(await page.locator('.who span').innerText()).toBe('ada');
    expect(page.url(), 'nothing of the session is left in the address').toBe(`${daemon.address}/`);
    expect(daemon.divvy('user', 'list', '-o', 'name')).toContain('ada');
    const token = () => JSON.parse(daemon.divvy('token', 'list', '--everybody', '-o', 'json')) as { items: { user: string; revokedUnixMilliseconds: number | null }[] };
    expect(token().items.map((one) => [one.user, one.revokedUnixMilliseconds])).toEqual([['ada', null]]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in with the lab' }).waitFor();
    await until(() => token().items[0]?.revokedUnixMilliseconds !== null, () => 'the token outlives the session');
    await page.close();
  });

  it('makes an admin of whom the provider has in the group', async () => {
    const other = await newContext();
    const page = await other.newPage();
    await signInByBrowser(page, 'ops-eve');
    await pages(page).waitFor();
    expect(await page.locator('.who span').getAttribute('title')).toContain('an admin');
    await other.close();
  });

  it.each(['audience', 'expired', 'unsigned', 'shared-secret', 'replayed'])('refuses a browser with a token that is wrong: %s', async (mode) => {
    const page = await context.newPage();
    await setMode(mode);
    await signInByBrowser(page, 'ada');
    await page.getByText(/You are not let in here|The provider did not do its part/).waitFor();
    expect(page.url()).toBe(`${daemon.address}/`);
    await setMode('right');
    await page.close();
  });

  it('begins nothing for a link that brings a key', async () => {
    const page = await context.newPage();
    await page.goto(`${daemon.address}/#key=0123456789abcdef0123456789abcdef`);
    await page.getByRole('button', { name: 'Sign in with the lab' }).waitFor();
    expect(await page.evaluate(() => localStorage.getItem('divvy-session-key'))).toBeNull();
    await page.close();
  });

  /** `divvy login` with the person at the provider; its exit status and what it wrote. */
  async function login(): Promise<{ status: number | null; out: string; err: string }> {
    const child = daemon.begin({}, 'login', '--context', 'lab');
    let out = '';
    let err = '';
    child.stdout?.on('data', (piece: Buffer) => (out += piece.toString()));
    child.stderr?.on('data', (piece: Buffer) => (err += piece.toString()));
    await until(() => /or open \S+/.test(err) || child.exitCode !== null, () => `no address:\n${err}`);
    const code = /enter the code (\S+)/.exec(err)?.[1] ?? '';
    const page = await context.newPage();
    await page.goto(/or open (\S+)/.exec(err)?.[1] ?? '');
    await page.getByText(code, { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Continue' }).click();
    const success = page.getByRole('heading', { name: 'Sign-in Success' });
    await pass(page, 'ada', async () => (await success.count()) > 0);
    await page.close();
    await until(() => child.exitCode !== null, () => `login does not end:\n${err}`);
    return { status: child.exitCode, out, err };
  }

  it('signs a command in, and out', async () => {
    const done = await login();
    expect(done.out, done.err).toBe('signed in to lab as ada\n');
    expect(daemon.divvy('--context', 'lab', 'whoami')).toBe('ada (user)');
    expect(daemon.divvy('logout', '--context', 'lab')).toBe('signed out of lab');
    expect(() => daemon.divvy('--context', 'lab', 'whoami')).toThrow(/token/);
  });

  it.each([
    ['audience', /another client \(aud\)/],
    ['expired', /has expired \(exp\)/],
    ['unsigned', /it is signed with none/],
    ['shared-secret', /it is signed with HS256/],
    ['replayed', /used already|before this sign-in began/],
  ])('refuses a command with a token that is wrong: %s', { timeout: 120_000 }, async (mode, reason) => {
    await setMode(mode);
    const refused = await login();
    await setMode('right');
    expect(refused.status, refused.err).not.toBe(0);
    expect(refused.err).toMatch(reason);
    expect(() => daemon.divvy('--context', 'lab', 'whoami')).toThrow(/token/);
  });

  it('leaves no secret in the log, and who came in the audit log', () => {
    const log = readdirSync(daemon.folder).filter((name) => name.startsWith('log-'))
      .map((name) => readFileSync(join(daemon.folder, name), 'utf8')).join('\n');
    expect(log).toContain('sign-in refused');
    expect(log).not.toContain(secret);
    expect(log).not.toMatch(/eyJ[A-Za-z0-9_-]{10}/);
    expect(log).not.toMatch(/divvy_[0-9a-f]{16}_/);
    const audit = daemon.divvy('audit', '-o', 'csv');
    expect(audit).toContain('finishBrowserSignIn');
    expect(audit).toContain('finishDeviceSignIn');
  });
});
