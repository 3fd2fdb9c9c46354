/** The demo's second part: a pod, a KivePolicy, two accesses, and their alerts, by `rampart standalone`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { runCommand } from './commands.ts';
import { breakJson } from './json-text.ts';
import { shownKubectl } from './kubectl.ts';
import { leavingNothing } from './leaving-nothing.ts';
import { accessLine, ownerWords, renderDeliveries, renderParties } from './pod-alerts.ts';
import { samplePolicyWithCallback } from './policy.ts';
import type { Heard } from './rampart-process.ts';
import type { Received } from './receiver.ts';
import type { Shown } from './shown.ts';
import { orAborted, type PodsOptions, setUp, type Stage, wanted } from './stage.ts';

/** The names in the policy. */
const [path, policyName] = ['/secret.txt', 'kive-sample-policy'];
const namespace = 'kivebpf-system';
const inSystem = ['-n', namespace] as const;
const policyFile = ['-f', 'policy.yaml'] as const;
/** An alert takes milliseconds; this is for a machine that is busy. */
const ALERT_MS = 20_000;
/** How long to wait when no alert is expected. */
const NO_ALERT_MS = 500;

/**
 * All that it starts is gone when this settles, and it has looked whether it is.
 *
 * @throws {RampartRefused} where files cannot be watched.
 */
export async function showPods(options: PodsOptions): Promise<Shown> {
  return leavingNothing(options, async ({ stack, traces, checks }) => {
    const stage = await setUp(options, stack, traces, checks);
    const watched = await applyPolicy(stage);
    const heard = await readFile(stage, watched ? ALERT_MS : NO_ALERT_MS);
    await compare(stage, heard);
    await deletePolicy(stage, heard.length);
  });
}

/** @returns whether a file is watched for it. */
async function applyPolicy(stage: Stage): Promise<boolean> {
  const { screen, checks, directory, receiver } = stage;
  const policy = samplePolicyWithCallback(receiver.url);
  writeFileSync(join(directory, 'policy.yaml'), policy);
  screen.step(
    "The sample policy of Kive's design document. Only its callback is another: a receiver in this demo.",
  );
  screen.command('cat policy.yaml');
  screen.answer(policy.trimEnd());
  await stage.kubectl.until(
    ['get', 'namespace', namespace, '--ignore-not-found', '-o', 'name'],
    (answer) => answer !== '',
  );
  await shownKubectl(stage, 'apply', ...policyFile);
  const timeout = stage.securityLevel === wanted.label ? '30s' : '3s';
  await shownKubectl(stage, 'wait', ...policyFile, '--for=condition=Ready', `--timeout=${timeout}`);
  await shownKubectl(stage, 'get', 'kivepolicies', ...inSystem);
  const data = await shownKubectl(stage, 'get', 'kivedata', ...inSystem);
  const status = await stage.kubectl.run(
    ...['get', 'kivepolicy', policyName, ...inSystem, '-o'],
    'jsonpath={.status.watchedFiles} file in {.status.matchedContainers} container',
  );
  checks.add('watched for the policy', '1 file in 1 container', status);
  checks.add('KiveData', '1', String(rowsOf(data)));
  return rowsOf(data) > 0;
}

/** Reads the file in the pod and on the host. @returns the alerts. */
async function readFile(stage: Stage, waitMs: number): Promise<readonly Heard[]> {
  const { screen, checks, signal, nginx } = stage;
  const heard: Heard[] = [];
  const hear = async (what: string, expected: string): Promise<void> => {
    const found = await screen.during('the alert', stage.standalone.next(waitMs));
    if (found === undefined) {
      screen.answer('no alert');
      checks.add(what, expected, 'no alert');
      return;
    }
    heard.push(found);
    const { alert } = found;
    screen.answer(accessLine(alert, screen));
    checks.add(what, expected, `${alert.metadata.access.join()} by ${alert.accessor?.relation ?? 'nobody'}`);
  };

  screen.step(
    'The file was not in the image: the policy had it created. It is read in the pod, and by root on the host.',
  );
  const listed = await inPod(stage, 'ls', '-l', path);
  const [permissions = '', , owner = ''] = listed.split(/\s+/);
  checks.add(`${path} in the pod`, '-r--r--r-- root', `${permissions} ${owner}`);
  await inPod(stage, 'cat', path);
  await hear('read in the pod', 'read by owner');

  const command = ['cat', `/proc/${nginx.pid}/root${path}`];
  screen.command(command.join(' '), 'host #');
  try {
    await runCommand(command, { cwd: '/', exitCode: 0, signal });
  } catch (error) {
    signal.throwIfAborted();
    screen.answer(error instanceof Error ? error.message : String(error));
  }
  await hear('read on the host', 'read by host');
  return heard;
}

async function inPod({ screen, lab, nginx, signal }: Stage, ...command: readonly string[]): Promise<string> {
  screen.command(command.join(' '), `${wanted.pod} #`);
  const { stdout, stderr } = await orAborted(lab.exec(nginx, command), signal);
  const said = (stdout || stderr).trimEnd();
  screen.answer(said);
  return said;
}

/** Compares the alerts on stdout and at the receiver. */
async function compare(stage: Stage, heard: readonly Heard[]): Promise<void> {
  const { screen, checks, nginx, receiver, signal } = stage;
  const alerts = heard.map(({ alert }) => alert);
  const last = heard.at(-1);
  if (last !== undefined) {
    screen.step('Whose file it is, and who accessed it:');
    screen.answer(renderParties(alerts, screen));
    screen.step('The second alert as it is at stdout, where it is one line:');
    screen.answer(breakJson(last.line, screen.widthColumns - 2));
  }
  const owner = `${wanted.container} in ${wanted.namespace}/${wanted.pod}, ${wanted.ip}, severity critical`;
  checks.add('owner in the alerts', owner, [...new Set(alerts.map(ownerWords))].join(' and '));
  const shortId = (id: string): string => id.slice(0, 'containerd://'.length + 12);
  const containers = new Set(alerts.map(({ pod }) => shortId(pod.container.id)));
  checks.add('its container', shortId(`containerd://${nginx.id}`), [...containers].join(' and '));

  const requests: Received[] = [];
  const patience = AbortSignal.any([signal, AbortSignal.timeout(ALERT_MS)]);
  try {
    while (requests.length < heard.length) {
      const next = receiver.requests.takeUntil(() => true, patience);
      requests.push(...(await screen.during('the callback', next)));
    }
  } catch {
    // Alerts so far have been shown.
    signal.throwIfAborted();
  }
  const lines = heard.map(({ line }) => line);
  if (requests.length > 0) {
    screen.step(`The same alerts at the receiver, ${receiver.url}:`);
    screen.answer(renderDeliveries(requests, lines, screen));
  }
  const ids = new Set(requests.map(({ headers }) => headers['x-rampart-alert-id'] ?? ''));
  ids.delete('');
  const same = requests.filter(({ body }, index) => body === lines[index]).length;
  checks.add(
    'at the receiver',
    '2 alerts with 2 ids, 2 of them as at stdout',
    `${requests.length} alerts with ${ids.size} ids, ${same} of them as at stdout`,
  );
}

/** Deletes the policy, reads once more, and ends `rampart standalone`, after which every alert has come. */
async function deletePolicy(stage: Stage, alertsBefore: number): Promise<void> {
  const { screen, checks, traces, standalone, receiver } = stage;
  screen.step('The policy is deleted, and with it what it had watched:');
  await shownKubectl(stage, 'delete', ...policyFile);
  const data = await shownKubectl(stage, 'get', 'kivedata', '-A');
  checks.add('KiveData after deletion', '0', String(rowsOf(data)));
  await inPod(stage, 'cat', path);
  traces.addProcess(standalone.pid, 'rampart');
  const exitCode = await screen.during('rampart ends', standalone.stop());
  const unheard = standalone.unheard();
  screen.answer(unheard.map(({ alert }) => accessLine(alert, screen)).join('\n') || 'no alert');
  const more = unheard.length + receiver.count - alertsBefore;
  checks.add('alerts after deletion', '0', String(more));
  checks.add('end of rampart', 'exit code 0', `exit code ${exitCode}`);
}

/** Rows of a table printed by kubectl. */
function rowsOf(table: string): number {
  return table.startsWith('NAME') ? table.split('\n').length - 1 : 0;
}
