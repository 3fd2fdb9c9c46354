/** Runs AIDE and ours as processes, and measures each. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { NativeResult } from './native-process.ts';
import type { Tree } from './trees.ts';

export interface Took {
  readonly wallMs: number;
  /** CPU time of all threads, user and system; to 10 ms. */
  readonly cpuMs: number;
  readonly rssMiB: number;
  readonly differences: number;
  /** It was not waited for any longer: what it took is more than that, and what it found is not known. */
  readonly isCut: boolean;
}

/** The kernel counts CPU time in ticks of 10 ms (USER_HZ). */
const TICK_MS = 10;
const RSS_POLL_MS = 20;

export type What = 'init' | 'check';

const top = join(import.meta.dirname, '../..');
/** As bin/rampart does: without it a process spends its start, and 40 MiB, on the types of the sources. */
const environment = {
  ...process.env,
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(top, 'node_modules/.cache/compiled'),
};

export async function runNative(
  tree: Tree,
  what: string,
  rules: string,
  signal: AbortSignal,
): Promise<Took & NativeResult> {
  const program = join(import.meta.dirname, 'native-process.ts');
  writeBack(tree);
  // The flag of bin/rampart.
  const args = ['--v8-pool-size=0', program, tree.directory, what, rules];
  const run = await timed(process.execPath, args, signal);
  if (run.status !== 0) throw new Error(`ours, ${what}: ${run.stderr}`);
  const result = JSON.parse(run.stdout) as NativeResult;
  return { ...run, ...result };
}

/** `rampart integrity check`, with a baseline of its own. */
export async function runCommand(tree: Tree, what: What, rules: string, signal: AbortSignal): Promise<Took> {
  const file = join(tree.directory, 'rampart.conf');
  writeFileSync(file, `report_level=summary\n${rules}\n`);
  const paths = ['--config', file, '--root', tree.root, '--db', join(tree.directory, 'command.baseline')];
  writeBack(tree);
  const args = ['integrity', 'check', `--${what}`, '--json', ...paths];
  const run = await timed(join(top, 'bin/rampart'), args, signal);
  if (run.status === null || run.status > 7)
    throw new Error(`rampart integrity check --${what}: ${run.stderr}`);
  return { ...run, differences: differencesOf(run.stdout) };
}

/** With two workers and no report but the number of differences. A check is not waited for longer than `maxMs`. */
export async function runAide(
  tree: Tree,
  what: What,
  rules: string,
  signal: AbortSignal,
  maxMs?: number,
): Promise<Took> {
  const file = join(tree.directory, 'aide.conf');
  const database = join(tree.directory, 'aide.db');
  writeFileSync(
    file,
    `database_in=file:${database}\ndatabase_out=file:${database}.new\ndatabase_attrs=E\nnum_workers=2\n` +
      `root_prefix=${tree.root}\nreport_format=json\nreport_level=summary\nreport_url=stdout\n${rules}\n`,
  );
  writeBack(tree);
  const run = await timed('aide', ['-c', file, `--${what}`], signal, what === 'check' ? maxMs : undefined);
  if (run.isCut) return { ...run, differences: 0 };
  if (run.status === null || run.status > 7) throw new Error(`aide --${what}: ${run.stderr}`);
  if (what === 'init') renameSync(`${database}.new`, database);
  return { ...run, differences: differencesOf(run.stdout) };
}

/** The number of differences in a report as JSON. */
function differencesOf(report: string): number {
  const counts = /"added": (\d+),\s*"removed": (\d+),\s*"changed": (\d+)/.exec(report);
  return counts === null ? 0 : Number(counts[1]) + Number(counts[2]) + Number(counts[3]);
}

/** Ours waits until its baseline is on the disk: it must not wait for what AIDE has written, or who made the tree. */
function writeBack(tree: Tree): void {
  const { status, stderr } = spawnSync('sync', ['--file-system', tree.directory]);
  if (status !== 0) throw new Error(`sync: ${stderr.toString()}`);
}

interface Run {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
  readonly isCut: boolean;
}

function timed(command: string, args: readonly string[], signal: AbortSignal, maxMs?: number): Promise<Run> {
  const before = childrenCpuMs();
  const startMs = performance.now();
  const child = spawn(command, args, { signal, stdio: ['ignore', 'pipe', 'pipe'], env: environment });
  let isCut = false;
  const cut = setTimeout(() => (isCut = child.kill('SIGKILL')), maxMs ?? 2 ** 31 - 1);
  let [stdout, stderr, rssMiB] = ['', '', 0];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const poll = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      rssMiB = Math.max(rssMiB, Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1024);
    } catch {
      // It has just ended.
    }
  }, RSS_POLL_MS);
  return new Promise((resolve, reject) => {
    child.on('error', (error) => {
      clearTimeout(cut);
      clearInterval(poll);
      reject(error);
    });
    child.on('close', (status) => {
      clearTimeout(cut);
      clearInterval(poll);
      const wallMs = performance.now() - startMs;
      resolve({ status, stdout, stderr, wallMs, cpuMs: childrenCpuMs() - before, rssMiB, isCut });
    });
  });
}

/** CPU time of all ended children: cutime and cstime, the 16th and 17th field (proc(5)). */
function childrenCpuMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[13]) + Number(fields[14])) * TICK_MS;
}
