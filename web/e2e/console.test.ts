// The console as people use it: in a real browser, against the real daemon.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { accessible, openBrowser, shoot, signIn, visit, type Visitor } from './browser';
import { Daemon, until } from './daemon';

const daemon = new Daemon();
let browser: Browser;
let ada = '';
let boss = '';
let eve: Visitor;
let user: Visitor;

// Names that would run, if the page took text for markup anywhere.
const evil = '<img src=x onerror=document.title="owned">';

async function idOf(name: string): Promise<string> {
  await until(() => daemon.divvy('list', '--all', '--name', name, '-o', 'name') !== '', () => `there is no job ${name}`);
  return daemon.divvy('list', '--all', '--name', name, '-o', 'name').split('\n')[0] ?? '';
}

async function submitAs(token: string, job: object): Promise<number> {
  const response = await fetch(`${daemon.address}/v1/jobs`, {
    method: 'POST', headers: { authorization: `Bearer ${token}` }, // The homes of these users need not be there.
    body: JSON.stringify({ working_directory: '/', ...job }),
  });
  const answer = (await response.json()) as { items: { id: number }[]; detail?: string };
  if (response.status !== 201) throw new Error(answer.detail ?? String(response.status));
  return answer.items[0]?.id ?? 0;
}

async function becomes(id: number, state: string): Promise<void> {
  let seen = '';
  await until(async () => {
    const response = await fetch(`${daemon.address}/v1/jobs/${id}`, { headers: { authorization: `Bearer ${boss}` } });
    seen = ((await response.json()) as { state: string }).state;
    return seen === state;
  }, () => `job ${id} is ${seen}, and should be ${state}`);
}

beforeAll(async () => {
  await daemon.start();
  boss = daemon.token('eve', 'admin');
  ada = daemon.token('ada');
  browser = await openBrowser();
  eve = await visit(browser, daemon.address, { bypassCSP: false });
  user = await visit(browser, daemon.address);
}, 120_000);

afterAll(async () => {
  await browser.close();
  await daemon.stop();
}, 120_000);

describe('signing in', () => {
  it('refuses a wrong token in the words of the daemon, and takes a right one', async () => {
    const { page } = user;
    await page.goto(`${daemon.address}/jobs?state=all`);
    await page.getByLabel('Token').fill('divvy_nonsense');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    user.wrong.length = 0; // The browser itself logs the 401.
    await page.getByLabel('Token').fill(ada);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Jobs' }).waitFor();
    expect(page.url()).toBe(`${daemon.address}/jobs?state=all`);
  });

  it('keeps no secret that one place alone could lose', async () => {
    const cookies = await user.context.cookies();
    expect(cookies).toHaveLength(1);
    const cookie = cookies[0];
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    const stored = await user.page.evaluate(() => [JSON.stringify(localStorage), document.cookie]);
    expect(stored[1]).toBe('');
    expect(stored[0]).not.toContain(ada.slice(0, -32));
    expect(cookie?.value).toBe(ada.slice(0, -32));
    // The cookie alone, as a neighbour on another port or a foreign form would send it.
    const alone = await fetch(`${daemon.address}/v1/whoami`, { headers: { cookie: `divvy-session=${cookie?.value ?? ''}` } });
    expect(alone.status).toBe(401);
    const foreign = await fetch(`${daemon.address}/v1/whoami`, {
      headers: { cookie: `divvy-session=${cookie?.value ?? ''}`, 'x-divvy-session': ada.slice(-32), origin: 'http://evil.example' },
    });
    expect(foreign.status).toBe(401);
  });

  it('takes a token from a link, and leaves nothing of it in the address', async () => {
    await signIn(eve, daemon.address, boss);
    expect(eve.page.url()).toBe(`${daemon.address}/`);
  });

  it('asks whoever is signed in before a link makes them somebody else', async () => {
    const { page } = user;
    // Any page can have such a link, with a token of whoever made it.
    const lead = async () => {
      await page.goto('about:blank');
      await page.goto(`${daemon.address}/queues#${boss}`);
      await page.getByText('You are signed in as ada').waitFor();
      expect(page.url()).toBe(`${daemon.address}/queues`);
    };
    const who = () => page.locator('.who span').textContent();
    await lead();
    await accessible(user);
    await page.getByRole('button', { name: 'Stay signed in' }).click();
    await page.getByRole('heading', { name: 'Queues' }).waitFor();
    await until(async () => (await who()) === 'ada', () => 'ada is not signed in any more');
    const other = await user.context.newPage();
    await other.goto(`${daemon.address}/usage`);
    await other.getByRole('heading', { name: 'Usage' }).waitFor();
    await lead();
    await page.getByRole('button', { name: 'Sign in with the link' }).click();
    await until(async () => (await who()) === 'eve', () => 'the link signs nobody in');
    // What another tab shows is not ada's any more either.
    await until(async () => (await other.locator('.who span').textContent()) === 'eve', () => 'the other tab is still hers');
    await other.close();
    await page.goto('about:blank');
    await page.goto(`${daemon.address}/#${ada}`);
    await page.getByRole('button', { name: 'Sign in with the link' }).click();
    await until(async () => (await who()) === 'ada', () => 'the link signs nobody in');
  });

  it('answers nothing to other origins', async () => {
    const response = await fetch(`${daemon.address}/v1/jobs`, { method: 'OPTIONS', headers: { origin: 'http://evil.example', 'access-control-request-headers': 'x-divvy-session' } });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
    const page = await fetch(`${daemon.address}/`, { headers: { 'accept-encoding': 'gzip' } });
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const answer = await fetch(`${daemon.address}/v1/openapi.json`);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });
});

describe('the fleet', () => {
  it('shows every GPU, live', async () => {
    const { page } = eve;
    await page.getByRole('application', { name: /^4 GPUs/ }).waitFor();
    const id = await submitAs(ada, { name: 'train', gpu: 0.3, gpu_memory: '40GiB', devices: ['0'], command: [daemon.program('gpuload'), '--quiet', 'spin', '--us', '400', '--seconds', '600'] });
    await becomes(id, 'running');
    await page.locator('.legend').getByText('ada').waitFor();
    await page.getByRole('application').focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('complementary').waitFor();
    expect(page.url()).toContain('gpu=GPU-');
    await page.getByRole('complementary').getByRole('link', { name: /train/ }).waitFor();
    await shoot(page, 'fleet-wide-light');
    await accessible(eve);
  });

  it('says of a GPU that it is lost, without being asked', async () => {
    daemon.simgpu('fault', '3', 'lost');
    await eve.page.getByText('In trouble', { exact: true }).first().waitFor();
    await eve.page.locator('dt:has-text("In trouble")').waitFor();
    await shoot(eve.page, 'fleet-trouble');
    daemon.simgpu('fault', '3', 'clear');
  });

  it('cordons a GPU and takes it back', async () => {
    const { page } = eve;
    const panel = page.getByRole('complementary');
    await panel.getByRole('button', { name: 'Cordon …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason').fill(evil);
    await dialog.getByRole('button', { name: 'Cordon' }).click();
    await panel.getByText('onerror').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await panel.getByRole('button', { name: 'Cordon …' }).waitFor();
  });
});

describe('the edges of a slice', () => {
  const shareOf = (name: string) => {
    const { items } = JSON.parse(daemon.divvy('ps', '-o', 'json')) as { items: { name: string; slices: { shareThousandths: number; memoryLimitBytes: number; gpu: { uuid: string } }[] }[] };
    const slice = items.find((one) => one.name === name)?.slices[0];
    if (!slice) throw new Error(`there is no slice ${name}`);
    return slice;
  };

  it('are pulled with the pointer, asked about, and put back', async () => {
    const { page } = eve;
    daemon.divvy('slice', 'create', 'held', '--gpu', '0.25', '--device', '2');
    await page.goto(`${daemon.address}/?gpu=${shareOf('held').gpu.uuid}`);
    const edge = page.getByRole('slider', { name: 'Share of held' });
    await edge.waitFor();
    const from = await edge.boundingBox();
    const bar = await page.locator('.resize-bar').first().boundingBox();
    if (!from || !bar) throw new Error('there is no edge');
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(bar.x + bar.width * 0.41, from.y, { steps: 4 });
    await page.getByText('instead of 0.25 GPU').waitFor();
    await shoot(page, 'resize-light');
    await page.mouse.up();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('divvy set held --gpu 0.4', { exact: true }).waitFor();
    expect(shareOf('held').shareThousandths).toBe(250);
    await accessible(eve);
    await dialog.getByRole('button', { name: 'Change' }).click();
    await page.getByText('held holds 0.4 GPU').waitFor();
    expect(shareOf('held').shareThousandths).toBe(400);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Share: 0.25 GPU').waitFor();
    expect(shareOf('held').shareThousandths).toBe(250);
  });

  it('follow the keys, on the page of the job as well', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/jobs/${await idOf('held')}`);
    const holds = page.getByRole('region', { name: 'What it holds' });
    const edge = holds.getByRole('slider', { name: 'Memory of held' });
    await edge.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Escape');
    await edge.press('ArrowLeft');
    await holds.getByText('Enter or let go').waitFor();
    const wanted = Number(await edge.getAttribute('aria-valuenow'));
    expect(wanted).toBeLessThan(shareOf('held').memoryLimitBytes);
    await edge.press('Enter');
    await page.getByRole('dialog').getByText(`divvy set held --gpu-mem ${wanted / 2 ** 30}GiB`, { exact: true }).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    expect(shareOf('held').memoryLimitBytes).toBeGreaterThan(wanted);
    await accessible(eve);
    // More than there is cannot be pulled for, and what the daemon refuses stays in the dialog.
    await holds.getByRole('slider', { name: 'Share of held' }).focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByText('divvy set held --gpu 1', { exact: true }).waitFor();
    await page.route('**/v1/tenants/held', (route) => route.fulfill({ status: 409, contentType: 'application/problem+json', body: '{"detail":"GPU 2 was taken meanwhile"}' }));
    await page.getByRole('dialog').getByRole('button', { name: 'Change' }).click();
    await page.getByRole('dialog').getByText('GPU 2 was taken meanwhile').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.keyboard.press('Escape');
    eve.wrong.splice(0, eve.wrong.length, ...eve.wrong.filter((one) => !one.includes('status of 409')));
    daemon.divvy('slice', 'delete', 'held');
  });

  it('of what the queue placed, and of others, stay where they are', async () => {
    const { page } = user;
    await page.goto(`${daemon.address}/?gpu=${shareOf(`job-${await idOf('train')}.1.0`).gpu.uuid}`);
    await page.getByRole('complementary').getByRole('link', { name: /train/ }).waitFor();
    expect(await page.getByRole('slider', { name: /of job-/ }).count()).toBe(0);
  });
});

describe('jobs', () => {
  it('lists them by what the address says', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/jobs`);
    await page.getByRole('row', { name: /train/ }).waitFor();
    await page.getByLabel('Search jobs').fill('nothing like this');
    await page.getByText('No job is like that.').waitFor();
    expect(page.url()).toContain('search=nothing+like+this');
    await page.getByLabel('Search jobs').fill('train');
    await page.getByRole('columnheader', { name: 'Name' }).getByRole('button').click();
    expect(page.url()).toContain('sort=name');
    await accessible(eve);
    await shoot(page, 'jobs-wide-light');
    await page.getByRole('link', { name: 'train' }).click();
    await page.getByRole('heading', { name: /train/ }).waitFor();
  });

  it('shows what a job writes as it writes it: colours, and no markup', async () => {
    const script = `printf '\\033[1;31mred\\033[0m plain\\n'; echo '${evil}'; i=0; while [ ! -e ${daemon.folder}/go ]; do sleep 0.1; done; echo the last line; sleep 600`;
    const id = await submitAs(boss, { name: 'talk', gpu: 0.1, command: ['sh', '-c', script] });
    await becomes(id, 'running');
    const { page } = eve;
    await page.goto(`${daemon.address}/jobs/${id}`);
    const log = page.getByRole('log');
    await log.getByText('red', { exact: true }).waitFor();
    expect(await log.getByText('red', { exact: true }).getAttribute('class')).toBe('bold fg-1');
    await log.getByText(evil).waitFor();
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(await page.title()).toBe('talk – Divvy');
    const { writeFileSync } = await import('node:fs');
    writeFileSync(`${daemon.folder}/go`, '');
    await log.getByText('the last line').waitFor();
  });

  it('stays quick with a hundred thousand lines, and finds one of them', async () => {
    const id = await submitAs(boss, { name: 'lines', gpu: 0.1, command: ['sh', '-c', 'seq 1 100000 | sed "s/^/line number /"'] });
    await becomes(id, 'succeeded');
    const { page } = eve;
    await page.goto(`${daemon.address}/jobs/${id}`);
    await page.getByText('100,000 lines').waitFor();
    const log = page.getByRole('log');
    await log.getByText('line number 100000', { exact: true }).waitFor();
    expect(await log.locator('.line').count()).toBeLessThan(200);
    await page.getByLabel('Search the output').fill('number 5000');
    await page.getByText('1 of 11').waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await log.locator('.line.current').getByText('line number 50000', { exact: true }).waitFor();
  });

  it('explains a wait, GPU by GPU', async () => {
    const id = await submitAs(ada, { name: 'gang', gpu: 1, members: 4, expected: '1h', command: [daemon.program('gpuload'), '--quiet', 'spin', '--seconds', '600'] });
    const { page } = user;
    await page.goto(`${daemon.address}/jobs/${id}`);
    const wait = page.getByRole('region', { name: 'Why it waits' });
    await wait.waitFor();
    await wait.getByText(/short/).first().waitFor();
    expect(await wait.getByRole('listitem').count()).toBe(4);
    await accessible(user);
    await shoot(page, 'job-waits-light');
  });

  it('suspends, resumes and deletes, and asks first', async () => {
    const { page } = user;
    await page.getByRole('button', { name: 'Suspend …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
    await page.getByText('gang is suspended').waitFor();
    await page.getByRole('main').getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await page.locator('h1 .state', { hasText: 'queued' }).waitFor();
    await page.getByRole('button', { name: 'Delete …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.locator('h1 .state', { hasText: 'queued' }).waitFor();
    await page.getByRole('button', { name: 'Delete …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.locator('h1 .state', { hasText: 'cancelled' }).waitFor();
  });

  it('shows a stranger that a job is there, and not what is in it', async () => {
    const { page } = user;
    await page.goto(`${daemon.address}/jobs/${await idOf('talk')}`);
    await page.getByText('are for eve and admins').waitFor();
    expect(await page.getByRole('log').count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Delete …' }).count()).toBe(0);
  });

  it('draws what a job used', async () => {
    const { page } = user;
    await page.goto(`${daemon.address}/jobs/${await idOf('train')}`);
    await page.getByRole('figure', { name: 'GPU time' }).locator('canvas').waitFor();
    await shoot(page, 'job-runs-light');
    await accessible(user);
  });
});

describe('submitting', () => {
  it('writes the command and the file, asks the daemon, and submits', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/submit`);
    await page.getByLabel('Command', { exact: false }).first().fill(`sh -c 'sleep 600'`);
    await page.getByLabel('Name', { exact: true }).fill('made-here');
    await page.getByLabel('GPU for each member').first().fill('0.2');
    await page.getByLabel('Working folder').fill('/');
    await page.getByText(`divvy submit --name made-here --gpu 0.2 --cwd / -- sh -c 'sleep 600'`).waitFor();
    await page.getByText('There is room now.').waitFor();
    await page.getByText('The daemon would take it.').waitFor();
    await accessible(eve);
    await shoot(page, 'submit-light');
    await page.getByLabel('GPU for each member').first().fill('400');
    await page.locator('.preview .problem').waitFor();
    await page.getByLabel('GPU for each member').first().fill('0.2');
    await page.getByText('The daemon would take it.').waitFor();
    await page.getByRole('button', { name: 'Submit', exact: true }).click();
    await page.getByRole('heading', { name: /made-here/ }).waitFor();
    await page.locator('h1 .state', { hasText: 'running' }).waitFor();
    // The browser itself logs the refusals of the check.
    eve.wrong.splice(0, eve.wrong.length, ...eve.wrong.filter((one) => !one.includes('status of 4')));
  });
});

describe('queues, usage, operator', () => {
  it('shows queues, and what is held in them', async () => {
    await eve.page.goto(`${daemon.address}/queues`);
    await eve.page.getByRole('row', { name: /default/ }).first().waitFor();
    await accessible(eve);
    await shoot(eve.page, 'queues-light');
  });

  it('shows what more GPUs would do for those who wait, and changes nothing', async () => {
    const { page } = eve;
    // More GPUs than one node has.
    const waiter = await submitAs(boss, { name: 'waiter', gpu: 5, hold_for_capacity: true, expected: '10m', command: ['/bin/sleep', '600'] });
    await page.goto(`${daemon.address}/what-if`);
    const row = page.getByRole('row', { name: /waiter/ });
    await row.waitFor();
    expect(await row.textContent()).toContain('not before the end');
    await page.getByLabel('More nodes').fill('1');
    await page.getByLabel('GPUs of each').fill('8');
    await page.getByRole('button', { name: 'Simulate' }).click();
    await row.getByText('at once').waitFor();
    await row.getByText('would start', { exact: true }).waitFor();
    await page.getByText('nobody submits, changes or cancels anything').waitFor();
    await accessible(eve);
    await shoot(page, 'what-if-light');
    await becomes(waiter, 'queued');
    for (const [body, status] of [['{"add":[{"like":"<b>"}]}', 404], ['{"policy":"best"}', 400]] as const) {
      const refused = await fetch(`${daemon.address}/v1/what-if`, { method: 'POST', headers: { authorization: `Bearer ${ada}` }, body });
      expect(refused.status).toBe(status);
    }
    expect((await fetch(`${daemon.address}/v1/what-if`, { method: 'POST', body: '{}' })).status).toBe(401);
    daemon.divvy('delete', String(waiter));
  });

  it('adds up what was used, and gives it as a table', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/usage`);
    await page.getByRole('row', { name: /eve/ }).first().waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as CSV' }).click()]);
    const text = readFileSync(await download.path(), 'utf8');
    expect(text.split('\n').length).toBeGreaterThan(2);
    expect(text).toContain('eve');
    await page.getByText('Held now, and not used').waitFor();
    await page.getByLabel('A GPU hour costs').fill('2.50');
    await page.locator('dt', { hasText: /^Cost$/ }).waitFor();
    const [priced] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as CSV' }).click()]);
    const [head, first] = readFileSync(await priced.path(), 'utf8').split('\n');
    expect(head).toMatch(/,cost,cost_unused$/);
    expect(first?.split(',').length).toBe(head?.split(',').length);
    await accessible(eve);
    await shoot(page, 'usage-light');
  });

  it('lets an operator see health, people, tokens and settings', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/operator`);
    await page.getByRole('row', { name: /GPU 3/ }).waitFor();
    await accessible(eve);
    await shoot(page, 'operator-light');
    await page.getByRole('button', { name: 'Health history' }).click();
    await page.getByRole('row', { name: /GPU 3/ }).first().waitFor();
    await page.getByRole('button', { name: 'People' }).click();
    await page.getByRole('row', { name: /ada/ }).waitFor();
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByRole('row', { name: /api.console/ }).waitFor();
    await page.getByRole('button', { name: 'Tokens' }).click();
    await page.getByRole('button', { name: 'Make a token …' }).click();
    await page.getByRole('dialog').getByLabel('Label').fill('from the console');
    await page.getByRole('dialog').getByRole('button', { name: 'Make it' }).click();
    const made = await page.getByLabel('Token', { exact: true }).textContent();
    const answer = await fetch(`${daemon.address}/v1/whoami`, { headers: { authorization: `Bearer ${made ?? ''}` } });
    expect(((await answer.json()) as { name: string }).name).toBe('eve');
    await accessible(eve);
    await page.getByRole('button', { name: 'Audit' }).click();
    await page.getByRole('row', { name: /eve.*addToken.*\/v1\/tokens.*done/ }).first().waitFor();
    await page.getByLabel('Of whom').fill('ada');
    await page.keyboard.press('Enter');
    await page.getByRole('row', { name: /ada.*submitJob/ }).first().waitFor();
    expect(await page.getByRole('row', { name: /eve/ }).count()).toBe(0);
    await accessible(eve);
    await shoot(page, 'audit-light');
  });

  it('keeps a user from what is for operators', async () => {
    await user.page.goto(`${daemon.address}/operator`);
    await user.page.getByRole('row', { name: /GPU 3/ }).waitFor();
    expect(await user.page.getByRole('button', { name: 'Drain …' }).count()).toBe(0);
    expect(await user.page.getByRole('button', { name: 'Settings' }).count()).toBe(0);
  });
});

describe('anywhere', () => {
  it('is found by its name on Ctrl-K', async () => {
    const { page } = eve;
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('combobox').fill('train');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: /train/ }).waitFor();
  });

  it('goes where Enter meant, also when it came before the list of jobs', async () => {
    const { page } = user;
    let letGo: () => void = () => undefined;
    const held = new Promise<void>((resolve) => { letGo = resolve; });
    // Before the page: it asks for the jobs at once.
    await page.route(/\/v1\/jobs\?/, async (route) => { await held; await route.continue(); });
    await page.goto(`${daemon.address}/usage`);
    await page.locator('main h1').waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('combobox').fill('train');
    await page.keyboard.press('Enter');
    await page.getByText('Looking …').waitFor();
    letGo();
    await page.getByRole('heading', { name: /train/ }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
  });

  it('says that it is stale when the daemon is gone, and catches up by itself', async () => {
    const { page } = eve;
    await page.goto(`${daemon.address}/jobs`);
    await page.getByRole('row', { name: /train/ }).waitFor();
    await daemon.kill();
    // Beside the notice, what could not be asked for may say so too.
    const silent = page.getByText('The daemon does not answer');
    await silent.first().waitFor();
    await shoot(page, 'stale-light');
    await daemon.start();
    await until(async () => (await silent.count()) === 0, () => 'the daemon is there, and the page says that it is not');
    const id = await submitAs(boss, { name: 'after-restart', gpu: 0.1, command: ['sleep', '600'] });
    await page.getByRole('row', { name: /after-restart/ }).waitFor();
    expect(id).toBeGreaterThan(0);
    // What could not be reached is what this test is about.
    eve.wrong.splice(0, eve.wrong.length, ...eve.wrong.filter((one) => !/ERR_|Failed to load/.test(one)));
    user.wrong.splice(0, user.wrong.length, ...user.wrong.filter((one) => !/ERR_|Failed to load/.test(one)));
  });

  it('is as usable on a phone and in the dark', async () => {
    const state = await eve.context.storageState();
    const phone = await visit(browser, daemon.address, { viewport: { width: 380, height: 760 }, colorScheme: 'dark', storageState: state });
    const pages: [string, string][] = [['/', 'fleet'], ['/jobs', 'jobs'], [`/jobs/${await idOf('train')}`, 'job'], ['/submit', 'submit'], ['/queues', 'queues'], ['/what-if', 'what-if'], ['/usage', 'usage'], ['/operator', 'operator']];
    for (const [path, name] of pages) {
      await phone.page.goto(daemon.address + path);
      await phone.page.locator('main h1').waitFor();
      await phone.page.waitForLoadState('load');
      const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(wide, `${path} is wider than the screen`).toBeLessThanOrEqual(0);
      await accessible(phone);
      await shoot(phone.page, `${name}-phone-dark`);
    }
    const patient = await submitAs(boss, { name: 'patient', gpu: 5, hold_for_capacity: true, command: ['true'] });
    await phone.page.goto(`${daemon.address}/queues`);
    const row = phone.page.getByRole('row', { name: /patient/ });
    await row.getByText(/GPU/).first().waitFor();
    // Why it waits is a sentence, and not a letter in each line.
    expect((await row.boundingBox())?.height).toBeLessThan(380);
    daemon.divvy('delete', String(patient));
    expect(phone.wrong).toEqual([]);
    await phone.context.close();
  });

  it('never asked anybody else, and never complained', () => {
    expect(eve.wrong).toEqual([]);
    expect(user.wrong).toEqual([]);
  });

  it('forgets who was there', async () => {
    const { page } = user;
    await page.goto(`${daemon.address}/`);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await user.context.cookies()).toEqual([]);
    expect(await page.evaluate(() => localStorage.length)).toBe(0);
  });
});
