// A real divvyd on simulated GPUs with its console on a port of the loopback, for one test file.
// DIVVY_BUILD names the build folder. Everything it starts ends with stop().
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const build = process.env['DIVVY_BUILD'] ?? '';

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), 'divvy-console-'));
  private readonly environment: NodeJS.ProcessEnv;
  /** More settings, for when it is started the next time. */
  readonly settings: string[] = [];
  private process: ChildProcess | undefined;
  private port = 0;

  constructor(gpus = '4xH200') {
    chmodSync(this.folder, 0o711);
    const outside = Object.entries(process.env).filter(([name]) => !name.startsWith('DIVVY_'));
    this.environment = {
      ...Object.fromEntries(outside),
      PATH: `${build}/bin:${build}/lib/divvy/simgpu/bin:${process.env['PATH'] ?? ''}`,
      DIVVY_RUN_DIR: join(this.folder, 'run'),
      DIVVY_STATE_DIR: join(this.folder, 'state'),
      DIVVY_CONFIG: join(this.folder, 'contexts.yaml'),
      DIVVY_SIM_GPUS: gpus,
      DIVVY_SIM_STATE: join(this.folder, 'gpus'),
    };
  }

  get address(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Started again it has the same port, so that pages find it. */
  async start(): Promise<void> {
    const log = join(this.folder, `log-${Date.now()}`);
    const out = openSync(log, 'w');
    this.process = spawn(`${build}/bin/divvyd`, [
      '--set', `api.address=127.0.0.1:${this.port}`, '--set', 'api.max_rate=10000', '--set', 'metrics.address=off',
      ...this.settings.flatMap((one) => ['--set', one]),
    ], { env: this.environment, stdio: ['ignore', out, out] });
    const text = () => readFileSync(log, 'utf8');
    await until(() => text().includes('divvyd is ready') || this.process?.exitCode !== null, () => `divvyd does not start:\n${text()}`);
    const port = /API for the network port=(\d+)/.exec(text())?.[1];
    // The memory of the simulated GPUs is a file, which is its maker's alone.
    for (const file of [join(this.folder, 'gpus'), join(this.folder, 'gpus.alive')]) {
      await until(() => existsSync(file), () => 'the simulated GPUs are not there');
      chmodSync(file, 0o666);
    }
    if (port === undefined) throw new Error(`there is no API on the network:\n${text()}`);
    this.port = Number(port);
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const daemon = this.process;
    this.process = undefined;
    if (!daemon || daemon.exitCode !== null) return;
    const over = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill(signal);
    await over;
  }

  divvy(...words: string[]): string {
    const done = spawnSync(`${build}/bin/divvy`, words, { env: this.environment, encoding: 'utf8', cwd: this.folder });
    if (done.status !== 0) throw new Error(`divvy ${words.join(' ')}: ${done.stderr}`);
    return done.stdout.trim();
  }

  /** A command that goes on beside the test. */
  begin(more: NodeJS.ProcessEnv, ...words: string[]): ChildProcess {
    const PATH = `${this.environment['PATH'] ?? ''}:${more['PATH'] ?? ''}`;
    return spawn(`${build}/bin/divvy`, words, { env: { ...this.environment, ...more, PATH }, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** What is submitted over the network has nobody's PATH. */
  program(name: string): string {
    return `${build}/bin/${name}`;
  }

  simgpu(...words: string[]): void {
    const done = spawnSync(this.program('simgpu'), words, { env: this.environment, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`simgpu ${words.join(' ')}: ${done.stderr}`);
  }

  /** Adds somebody and makes them a token. Root's daemon runs their jobs as users that every Debian
   * has; any other runs them as itself. */
  token(name: string, role: 'admin' | 'user' = 'user'): string {
    const uid = process.geteuid?.() === 0 ? ['--uid', String(this.users.shift() ?? 65534)] : [];
    this.divvy('user', 'add', name, '--role', role, ...uid);
    return this.divvy('token', 'create', '--user', name).split('\n')[0] ?? '';
  }
  private readonly users = [5, 9, 39];

  async stop(): Promise<void> {
    try {
      if (!this.process) await this.start();
      const jobs = this.divvy('list', '-o', 'name').split('\n').filter(Boolean);
      if (jobs.length > 0) {
        this.divvy('delete', ...jobs);
        this.divvy('wait', '--quiet', '--timeout', '30s', ...jobs);
      }
    } catch {
      // What was cancelled has no exit status of success.
    }
    await this.kill('SIGTERM');
    spawnSync(this.program('simgpu'), ['reset'], { env: this.environment });
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function until(condition: () => boolean | Promise<boolean>, what: () => string, patience = 30_000): Promise<void> {
  const deadline = Date.now() + patience;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(what());
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
