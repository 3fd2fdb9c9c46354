/**
 * Every check that needs no test: one line each, its output only when it failed. All run, also after a
 * failure, and the exit code is 1 if any failed.
 *
 *     node scripts/check.ts               all of them
 *     node scripts/check.ts lint format   some
 */
import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';

/** Keyed by name: what is checked, and the command (found in node_modules/.bin first) that does it. */
const checks = {
  types: { what: 'types', command: ['tsc', '-p', '.'] },
  page: { what: 'types of the page, which runs in browsers', command: ['tsc', '-p', 'ui'] },
  lint: { what: 'lint and the import rules between rooms', command: ['oxlint', '--format', 'unix'] },
  format: { what: 'format', command: ['prettier', '--check', '--log-level', 'warn', '.'] },
  bpf: { what: 'committed .bpf.o match their source', command: ['scripts/check-bpf'] },
  policies: { what: 'committed test policies match their source', command: ['scripts/check-policies'] },
  manifests: {
    what: 'manifests match the guards and their schemas (apps/guards.ts)',
    command: ['node', 'scripts/manifests.ts'],
  },
  rights: {
    what: 'no role of deploy/ leads to cluster-admin by a known way',
    command: ['node', '--test', 'apps/agent/escalation.test.ts'],
  },
  lock: { what: 'package-lock.json', command: ['node', 'scripts/check-lock.ts'] },
} as const;
type CheckName = keyof typeof checks;

const top = dirname(import.meta.dirname);

async function passes(name: CheckName): Promise<boolean> {
  const { what, command } = checks[name];
  const [file, ...args] = command;
  const startedMs = performance.now();
  const child = spawn(file, args, {
    cwd: top,
    env: { ...process.env, PATH: `${top}/node_modules/.bin:${process.env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
  const [code, stdout, stderr] = await Promise.all([
    exited.catch((error: unknown) => String(error)),
    text(child.stdout),
    text(child.stderr),
  ]);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const passed = code === 0;
  process.stdout.write(
    `${name.padEnd(10)}${passed ? 'ok    ' : 'FAILED'}  ${seconds.padStart(5)} s  ${what}\n`,
  );
  if (!passed) {
    const output = [stdout, stderr, typeof code === 'string' ? code : ''].filter(
      (part) => part.trim() !== '',
    );
    process.stdout.write(`\n${output.map((part) => part.trimEnd()).join('\n')}\n\n`);
  }
  return passed;
}

function isCheck(name: string): name is CheckName {
  return Object.hasOwn(checks, name);
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => !isCheck(name));
if (unknown.length > 0) {
  process.stderr.write(
    `check: no check named ${unknown.join(', ')}. There are: ${Object.keys(checks).join(', ')}\n`,
  );
  process.exit(2);
}
// One after the other: each uses all the processors there are by itself.
let failed = 0;
for (const name of names.length > 0 ? names.filter(isCheck) : Object.keys(checks).filter(isCheck)) {
  if (!(await passes(name))) failed += 1;
}
process.exitCode = failed > 0 ? 1 : 0;
