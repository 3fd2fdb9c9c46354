/**
 * Finds the errors in a KivePolicy, by field. The schema in `api.ts` refuses most of them when the policy is written;
 * this finds those that a schema cannot express, and those in policies stored earlier.
 */
import { kiveDataNamespace, type KiveMatch, type KivePolicy, type KiveTrap } from '../api.ts';
import { directoryOf } from '../directory-path.ts';
import { parseFileMode } from './file-mode.ts';
import { isSecretName } from '../delivery/callback-queue.ts';
import { canonicalIp } from './ip-address.ts';
import { compileNamePattern } from './name-pattern.ts';
import { defaultScope, type PolicyScope } from './policy-scope.ts';
import { containerNameOf } from './spellings.ts';
import { canonicalJson } from './trap-id.ts';
import { userOf } from './protected-paths.ts';

/** Limit of a DNS subdomain: apimachinery, DNS1123SubdomainMaxLength. */
const MAX_SECRET_NAME = 253;

const SETUID_OR_SETGID = 0o6000;

export interface PolicyProblem {
  /** The path of the field: `spec.traps[0].matchAny[1].ip`. */
  readonly field: string;
  /** The invalid part: `the path "etc/shadow"`. */
  readonly what: string;
  readonly why: string;
  /** What the user should do or write instead. */
  readonly next: string;
}

/** A problem as one sentence for a condition, an event or a log line. */
export function describeProblem({ field, what, why, next }: PolicyProblem): string {
  return `${field}: ${what} is invalid: ${why}. ${next}${next.endsWith('.') ? '' : '.'}`;
}

/** The message about a policy that matches no container. */
export function noMatchMessage(
  { metadata: { namespace = '' }, spec }: KivePolicy,
  scope: PolicyScope,
): string {
  if (spec.traps.some(matchesHost)) return 'No agent has reported on it yet.';
  return scope.isWide(namespace)
    ? 'No running container matches.'
    : `No running container in ${namespace} matches. To match pods of other namespaces, ${widen(namespace)}.`;
}

/** Whether the trap is for the node itself. */
export function matchesHost({ matchAny = [] }: KiveTrap): boolean {
  return matchAny.some(({ host }) => host === true);
}

function widen(namespace: string): string {
  return `move the policy to ${kiveDataNamespace}, or ask for --kive-policy-namespaces ${namespace} on the agents and the operator`;
}

/** A fault of a trap; `field` is relative to the trap (`path`, `matchAny[1].ip`). */
type Fault = readonly [field: string, what: string, why: string, next: string];

/**
 * All faults of the traps of a policy, keyed by the index of the trap. A trap without faults works, whatever faults the
 * others have.
 */
export function validatePolicy(
  { spec, metadata }: KivePolicy,
  scope: PolicyScope = defaultScope,
): ReadonlyMap<number, readonly PolicyProblem[]> {
  const { namespace = '' } = metadata;
  const problems = new Map<number, readonly PolicyProblem[]>();
  const seen = new Map<string, number>();
  spec.traps.forEach((trap, index) => {
    const faults = [...validateTrap(trap), ...namespaceFaults(trap, namespace, scope)];
    const json = canonicalJson(trap);
    const first = seen.get(json);
    if (first === undefined) seen.set(json, index);
    else {
      faults.push(['', 'a duplicate trap', `it is the same as spec.traps[${first}]`, 'Remove one of them']);
    }
    if (faults.length === 0) return;
    const prefix = `spec.traps[${index}]`;
    problems.set(
      index,
      faults.map(([field, what, why, next]) => ({
        field: field === '' ? prefix : `${prefix}.${field}`,
        what,
        why,
        next,
      })),
    );
  });
  return problems;
}

function validateTrap(trap: KiveTrap): Fault[] {
  const faults = [...pathFaults(trap.path), ...callbackFaults(trap.callback ?? ''), ...secretFaults(trap)];
  if (trap.mode !== undefined) {
    const mode = parseFileMode(trap.mode);
    if ('why' in mode) {
      faults.push([
        'mode',
        `the mode ${JSON.stringify(trap.mode)}`,
        mode.why,
        'Write the octal digits without a leading 0, or in quotes: 444 or "0444"',
      ]);
    } else if ((mode.bits & SETUID_OR_SETGID) !== 0) {
      faults.push([
        'mode',
        `the mode ${JSON.stringify(trap.mode)}`,
        'a created file must not be setuid or setgid',
        'Write the permissions only, such as 755',
      ]);
    }
  }
  const user = trap.create === true ? userOf(trap.path) : undefined;
  if (user !== undefined) {
    faults.push([
      'create',
      `the creation of ${JSON.stringify(trap.path)}`,
      `the file would be used by ${user}`,
      'Choose another path, or remove create: a file that exists is watched without it',
    ]);
  }
  if (trap.create === true && matchesHost(trap)) {
    faults.push([
      'create',
      `the creation of ${JSON.stringify(trap.path)}`,
      'a match has host: true, and nothing is created on the node itself',
      'Remove create, or move the match of the node to a trap without it',
    ]);
  }
  if (trap.create === true && directoryOf(trap.path) !== undefined) {
    faults.push([
      'create',
      `the creation of ${JSON.stringify(trap.path)}`,
      'the path is for all files of a directory',
      'Add a trap with the path of the file to create, or remove create',
    ]);
  }
  faults.push(...processFaults(trap));
  const { matchAny = [] } = trap;
  if (matchAny.length === 0) faults.push(noMatch);
  matchAny.forEach((match, index) => faults.push(...matchFaults(match, `matchAny[${index}]`)));
  return faults;
}

function pathFaults(path: string): Fault[] {
  const what = `the path ${JSON.stringify(path)}`;
  const names = path.split('/');
  if (path.includes('\0')) return [['path', what, 'it contains a NUL', 'Remove it']];
  if (!path.startsWith('/')) {
    return [['path', what, 'it does not start with /', 'Write the absolute path within the container']];
  }
  if (names.includes('..') || names.includes('.')) {
    return [['path', what, 'it contains "." or ".."', 'Write the resolved path']];
  }
  if (names.at(-1) === '') {
    return [
      ['path', what, 'it is the path of a directory', `Name a file, or write ${path}* for those in it`],
    ];
  }
  if (path.includes('*') && directoryOf(path) === undefined) {
    return [
      [
        'path',
        what,
        'a * stands for files only at the end, as /* or /**',
        'Write /* behind a directory for the files in it, /** for all below it',
      ],
    ];
  }
  const [, link] = /^(\/proc\/(?:thread-)?self)(?:\/|$)/.exec(path) ?? [];
  if (link !== undefined) {
    return [
      [
        'path',
        what,
        `it cannot be followed: ${link} is another directory for each process that opens it, its own`,
        'Name a file that is the same for all processes',
      ],
    ];
  }
  return [];
}

/** A program is one file. */
function programFaults(path: string): Fault[] {
  const faults = pathFaults(path);
  if (faults.length > 0 || directoryOf(path) === undefined) return faults;
  return [['path', `the path ${JSON.stringify(path)}`, 'it is for all files of a directory', '']];
}

function processFaults({ processes }: KiveTrap): Fault[] {
  if (processes === undefined) return [];
  const { except, only } = processes;
  if ((except === undefined) === (only === undefined)) {
    const why = except === undefined ? 'it names no programs' : 'it has except and only';
    return [['processes', 'the choice of processes', why, 'Write except or only, with paths of programs']];
  }
  const field = except === undefined ? 'only' : 'except';
  return (except ?? only ?? []).flatMap((path, index) =>
    programFaults(path).map(([, what, why]): Fault => [
      `processes.${field}[${index}]`,
      what,
      why,
      'Write the absolute path of a program, without links through /proc/self',
    ]),
  );
}

function callbackFaults(callback: string): Fault[] {
  if (callback === '') return [];
  // A password in the URL must not get into a log through an error message.
  const shown = JSON.stringify(callback.replace(/\/\/[^/?#]*@/, '//...@'));
  const fault = (why: string, next: string): Fault[] => [['callback', `the callback ${shown}`, why, next]];
  const url = URL.parse(callback);
  if (url === null) return fault('it is not a URL', 'Write a URL such as https://host:8080/path');
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return fault(`${url.protocol}// is not supported`, 'Use http:// or https://');
  }
  if (url.username !== '' || url.password !== '') {
    return fault('its user name or password would appear in each alert', 'Use a Secret for credentials');
  }
  return [];
}

function secretFaults({ callback = '', callbackSecret }: KiveTrap): Fault[] {
  if (callbackSecret === undefined) return [];
  const fault = (why: string, next: string): Fault[] => [
    ['callbackSecret', `the Secret ${JSON.stringify(callbackSecret)}`, why, next],
  ];
  if (!isSecretName(`namespace/${callbackSecret}`) || callbackSecret.length > MAX_SECRET_NAME) {
    return fault(
      'it is not the name of a Secret',
      'Write only the name of a Secret in the namespace of the policy',
    );
  }
  if (callback === '') return fault('the trap has no callback', 'Add a callback, or remove the Secret');
  if (URL.parse(callback)?.protocol !== 'https:') {
    return fault('credentials are not sent over plain http', 'Use a callback with https://');
  }
  return [];
}

function namespaceFaults({ matchAny = [] }: KiveTrap, own: string, scope: PolicyScope): Fault[] {
  return matchAny.flatMap(({ namespace, host }, index): Fault[] => {
    if (host === true && !scope.allowsHost(own)) {
      return [
        [
          `matchAny[${index}].host`,
          'the match of the node itself',
          `policies in ${own} match no files of nodes, which are not those of its pods`,
          `Move the policy to ${kiveDataNamespace}`,
        ],
      ];
    }
    if (!namespace || scope.allows(own, namespace)) return [];
    return [
      [
        `matchAny[${index}].namespace`,
        `the namespace ${JSON.stringify(namespace)}`,
        `policies in ${own} match only pods of their own namespace`,
        `To match pods of others, ${widen(own)}`,
      ],
    ];
  });
}

const nextItem =
  'At least one match block with one match item must be present; containerName: ".*" matches every container';
const noMatch: Fault = ['matchAny', 'a trap without a match', 'it matches no container', nextItem];

function noItem(field: string): Fault {
  return [field, 'a match without a match item', 'it would match every container', nextItem];
}

/** Whether the block has any item. An empty item matches everything, as in Kive; an empty block may be a slip. */
export function hasItem(match: KiveMatch): boolean {
  return Object.values(match).some((item) => item !== undefined && item !== false);
}

function matchFaults(match: KiveMatch, field: string): Fault[] {
  if (!hasItem(match)) return [noItem(field)];
  const faults: Fault[] = [];
  const { host, ...ofContainers } = match;
  if (host === true && hasItem(ofContainers)) {
    faults.push([
      `${field}.host`,
      'the match of the node itself',
      `the block also has ${Object.keys(ofContainers).join(', ')}, which the node does not have`,
      'Write host: true alone in a block, and what matches containers in another',
    ]);
  }
  const { containerName, 'container-name': older, ip = '' } = match;
  if (containerName && older && containerName !== older) {
    faults.push([
      `${field}.container-name`,
      `the name ${JSON.stringify(older)}`,
      `containerName, which is the same field, is ${JSON.stringify(containerName)}`,
      'Keep one of the two',
    ]);
  }
  const name = containerNameOf(match);
  const pattern = compileNamePattern(name);
  if ('why' in pattern) {
    faults.push([
      `${field}.${containerName ? 'containerName' : 'container-name'}`,
      `the pattern ${JSON.stringify(name)}`,
      pattern.why,
      'Write an RE2 regular expression, or a glob with the prefix "glob:"',
    ]);
  }
  if (ip !== '' && canonicalIp(ip) === undefined) {
    faults.push([
      `${field}.ip`,
      `the address ${JSON.stringify(ip)}`,
      'it is not an IP address',
      'Write one address, as in the status of the pod; networks are not matched',
    ]);
  }
  return faults;
}
