/**
 * The demo's third part: files that should not change, changed by two processes; the findings, with their
 * authors.
 */
import { join } from 'node:path';

import {
  type FindingLine,
  formatFinding,
  parseFinding,
} from '../../guards/file-integrity/status/finding-line-kind.ts';
import type { Detection } from '../../guards/file-integrity/model/finding.ts';
import { answerOf, runCommand, shown } from './commands.ts';
import {
  createHost,
  hostDirectory,
  integrityName,
  manifest,
  manifestFile,
  namespace,
  nodeName,
  type Tampering,
  tamperings,
} from './integrity-host.ts';
import { breakJson } from './json-text.ts';
import { Kubectl, kubectlObstacle, shownKubectl } from './kubectl.ts';
import { leavingNothing, type Play } from './leaving-nothing.ts';
import { type Heard, RampartProcess, rampartProgram, START_MS } from './rampart-process.ts';
import type { PartOptions, Shown } from './shown.ts';
import { TemporaryDirectory } from './temporary-directory.ts';

const inNamespace = ['-n', namespace] as const;
/** Short for fileintegritynodestatuses.fileintegrity.openshift.io; another group has a resource of that name. */
const nodeStatuses = 'fins';
/** A finding takes less than a second; this is for a machine that is busy. */
const FINDING_MS = 30_000;

interface Stage extends PartOptions, Play {
  readonly directory: string;
  readonly standalone: RampartProcess;
  readonly kubectl: Kubectl;
}

type HowKnown = Pick<Detection, 'events'>;

interface Found {
  readonly line: string;
  readonly finding: FindingLine;
}

/** Why it cannot be shown on this machine; undefined when it can. */
export function integrityObstacle(): string | undefined {
  return process.getuid?.() === 0 ? kubectlObstacle() : 'needs root, to load eBPF programs';
}

/**
 * Authors have to be known if the sensor works; if the kernel refuses it, the demo says so, and shows the
 * rest. Everything that it starts is gone when this settles, which is checked.
 *
 * @throws {RampartRefused} if this machine cannot be guarded.
 */
export async function showIntegrity(options: PartOptions): Promise<Shown> {
  return leavingNothing(options, async (play) => {
    const stage = await setUp(options, play);
    const detection = await applyManifest(stage);
    const found = await tamper(stage, detection);
    await compare(stage, found);
    await accept(stage);
    await end(stage);
  });
}

async function setUp(options: PartOptions, play: Play): Promise<Stage> {
  const { mode, screen, signal } = options;
  const { stack, traces } = play;
  const directory = stack.use(new TemporaryDirectory()).path;
  traces.addDirectory(directory);
  createHost(directory);

  screen.heading('3. Integrity');
  screen.step(
    `Rampart for one machine. Its files are those in the directory ${hostDirectory}. Findings go to its stdout.`,
  );
  screen.command(`cd ${directory}`);
  const words = [
    ...['standalone', '--data', 'data', '--listen', '127.0.0.1:0', '--mode', mode],
    ...['--host-root', hostDirectory, '--node-name', nodeName],
  ];
  screen.command(`rampart ${words.join(' ')}`);
  const standalone = stack.use(new RampartProcess({ words, directory, signal }));
  stack.defer(() => traces.addProcess(standalone.pid, 'rampart'));
  await screen.during('rampart starts', standalone.says(/serving https/, START_MS));
  screen.answer(standalone.said.filter((line) => line.startsWith('rampart: kubeconfig ')).join('\n'));
  const kubeconfig = join(directory, 'data/kubeconfig');
  screen.command(`export KUBECONFIG=${kubeconfig}`);
  const kubectl = new Kubectl({ kubeconfig, directory, signal });
  return { ...options, ...play, directory, standalone, kubectl };
}

/** @returns how changes are known between scans. */
async function applyManifest(stage: Stage): Promise<HowKnown> {
  const { screen, checks, kubectl } = stage;
  screen.step('A FileIntegrity with an aide.conf, as people have it for the File Integrity Operator:');
  screen.command(`cat ${manifestFile}`);
  screen.answer(manifest.trimEnd());
  await shownKubectl(stage, 'apply', '-f', manifestFile);
  const get = ['get', nodeStatuses, ...inNamespace];
  checks.add('the first result', 'Succeeded', await condition(stage, get, 'Succeeded'));

  // The watch of the files begins when there is a baseline.
  const known = [...get, '-o', 'jsonpath={.items[*].detection}'];
  const answer = await screen.during(
    'the watch of the files begins',
    kubectl.until(known, (said) => detectionIn(said).events !== 'none'),
  );
  screen.command(`kubectl ${shown(known)}`);
  screen.answer(answer);
  return detectionIn(answer);
}

/** From the API's JSON; empty if the node has not reported yet. */
function detectionIn(json: string): HowKnown {
  return json === '' ? { events: 'none' } : (JSON.parse(json) as HowKnown);
}

/** Asks until the node has this result, and shows it. @returns the result that it has. */
async function condition(stage: Stage, get: readonly string[], wanted: string): Promise<string> {
  const { screen, kubectl } = stage;
  screen.command(`kubectl ${get.join(' ')}`);
  const asked = kubectl.until(get, (said) => conditionIn(said) === wanted);
  const table = await screen.during('the result', asked);
  screen.answer(table);
  return conditionIn(table);
}

/** From the only row of the table. */
function conditionIn(table: string): string {
  return table.startsWith('NAME') ? (table.split('\n')[1]?.split(/\s+/)[2] ?? 'none') : 'none';
}

async function tamper(stage: Stage, { events }: HowKnown): Promise<readonly Found[]> {
  const { screen, checks, signal, directory, standalone } = stage;
  screen.step(
    events === 'sensor'
      ? 'Two files are changed: by nobody, one that everybody may write by mistake; by root, a program.'
      : 'Two files are changed. Who does it cannot be seen on this machine; the reason is above.',
  );
  screen.command('cat tamper.sh');
  screen.answer((await answerOf(['cat', 'tamper.sh'], { cwd: directory, signal })).said);
  const found: Found[] = [];
  for (const tampering of tamperings()) {
    const { path, command, prompt } = tampering;
    screen.command(tampering.shown, prompt);
    await runCommand(command, { cwd: directory, exitCode: 0, signal });
    const atMs = Date.now();
    const seen = await screen.during('the finding', nextFinding(standalone, path));
    if (seen === undefined) screen.answer('no finding');
    else {
      found.push(seen);
      screen.answer(formatFinding(seen.finding, { colour: screen.colour, nowMs: atMs }));
    }
    const { change, seenBy } = seen?.finding ?? {};
    const how = seenBy === 'event' ? 'at once' : 'by a scan';
    checks.add(path, 'changed, known at once', seen === undefined ? 'no finding' : `${change}, known ${how}`);
    const author = seen?.finding.author;
    checks.add(
      `who changed ${path}`,
      events === 'sensor' ? authorWords(tampering.author) : 'not known here',
      author !== undefined ? authorWords(author) : seen !== undefined ? 'not known here' : 'no finding',
    );
  }
  return found;
}

async function nextFinding(standalone: RampartProcess, path: string): Promise<Found | undefined> {
  const isIt = ({ line }: Heard): boolean => {
    const finding = parseFinding(line);
    return finding?.state === 'found' && finding.path === path;
  };
  const line = (await standalone.heardInTime(isIt, FINDING_MS))?.at(-1)?.line ?? '';
  const finding = parseFinding(line);
  return finding === undefined ? undefined : { line, finding };
}

function authorWords({ binary, arguments: words, uid }: Tampering['author']): string {
  return `${binary} ${words}, uid ${uid}`;
}

/** Compares the objects in the API. */
async function compare(stage: Stage, found: readonly Found[]): Promise<void> {
  const { screen, checks, kubectl } = stage;
  const [first] = found;
  if (first !== undefined) {
    screen.step('The first finding as it is at stdout, where it is one line:');
    screen.answer(breakJson(first.line, screen.widthColumns - 2));
  }
  screen.step('The node, the log of the result in the words of AIDE, and the report:');
  checks.add('the node', 'Failed', await condition(stage, ['get', nodeStatuses, ...inNamespace], 'Failed'));

  const paths = tamperings().map(({ path }) => path);
  const configMap = ['get', 'configmap', `aide-${integrityName}-${nodeName}-failed`, ...inNamespace, '-o'];
  const read = [...configMap, 'jsonpath={.data.integritylog}'];
  const named = (log: string) =>
    paths.filter((path) => log.split('\n').some((line) => line.endsWith(`: /hostroot${path}`)));
  screen.command(`kubectl ${shown(read)} | grep ' : '`);
  const log = await screen.during(
    'the log',
    kubectl.until(read, (text) => named(text).length === paths.length),
  );
  screen.answer(
    log
      .split('\n')
      .filter((line) => line.includes(' : '))
      .join('\n'),
  );
  checks.add('in the log', paths.join(' and '), named(log).join(' and ') || 'none of them');

  const reports = ['get', 'policyreports', ...inNamespace];
  const failed = await kubectl.until(
    [...reports, '-o', 'jsonpath={.items[*].summary.fail}'],
    (count) => count === String(paths.length),
  );
  await shownKubectl(stage, ...reports);
  const messages = ['-o', 'jsonpath={range.items[*].results[*]}{.message}{"\\n"}{end}'];
  screen.command(`kubectl ${shown([...reports, ...messages])}`);
  screen.answer(await kubectl.run(...reports, ...messages));
  checks.add('results in the report', `${paths.length} fail`, `${failed || 'no'} fail`);
}

/** The changes were meant after all. */
async function accept(stage: Stage): Promise<void> {
  const { screen, checks, signal, directory } = stage;
  screen.step('Somebody has looked at it, and the changes were meant: the baseline takes them.');
  const words = [
    'integrity',
    'accept',
    integrityName,
    '--all',
    '--data',
    'data',
    '--reason',
    'a new tool, and its user',
  ];
  screen.command(shown(['rampart', ...words]));
  const { exitCode, said } = await screen.during(
    'the node takes it',
    answerOf([rampartProgram, ...words], { cwd: directory, signal }),
  );
  screen.answer(said);
  checks.add('rampart integrity accept', 'exit code 0', `exit code ${exitCode}`);
  checks.add(
    'the node after that',
    'Succeeded',
    await condition(stage, ['get', nodeStatuses, ...inNamespace], 'Succeeded'),
  );
  const events = ['get', 'events', ...inNamespace, '--field-selector', 'reason=NodeIntegrityAccepted'];
  await shownKubectl(stage, ...events, '-o', 'custom-columns=MESSAGE:.message');
}

async function end({ screen, checks, traces, standalone }: Stage): Promise<void> {
  traces.addProcess(standalone.pid, 'rampart');
  const exitCode = await screen.during('rampart ends', standalone.stop());
  checks.add('end of rampart', 'exit code 0', `exit code ${exitCode}`);
}
