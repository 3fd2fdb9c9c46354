/**
 * The rules between the rooms, as oxlint rules (see `.oxlintrc.json`): imports go down only,
 * apps -> guards -> guard -> lib, no guard knows another one, what is only for tests stays out of the
 * product, `lib/` names no guard, and the page of `ui/` takes nothing along that browsers have not.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

const top = dirname(import.meta.dirname);

/** Rooms of `lib/` that every room may import; each of them only those before it. */
const everywhere: readonly string[] = ['errors', 'files', 'time', 'output', 'net', 'telemetry'];

/** The rooms that a room of `lib/` may import besides itself and those. */
const libBelow: Readonly<Record<string, readonly string[]>> = {
  apiserver: ['cel', 'json', 'kube', 'protobuf', 'regex', 'sqlite', 'x509'],
  cel: ['json', 'regex'],
  cli: ['kube'],
  cri: ['grpc', 'json', 'protobuf'],
  grpc: ['protobuf'],
  manifests: ['json', 'kube'],
  netlink: ['ebpf'],
  oci: ['json', 'regex'],
  otlp: ['spool', 'x509'],
  protobuf: ['json'],
  sensor: ['ebpf'],
  service: ['ebpf'],
  spool: ['sqlite'],
};

/** Its fixtures are for tests, which may import them from anywhere. */
const testing = 'testing';

/** Packages with an owner: the one file that imports them. */
const owners: Readonly<Record<string, string>> = {
  'fast-check': 'lib/testing/fast-check.fixture.ts',
  koffi: 'lib/ebpf/ffi.ts',
  re2js: 'lib/regex/regex.ts',
};

/** Runs in browsers, and has a build of its own. */
const page = 'ui';
/** All that it may take along when it runs. */
const inPage: readonly RegExp[] = [
  /^preact(?:\/hooks)?$/,
  /^lib\/output\/printable\.ts$/,
  /^examples\/[\w-]+\.yaml\?raw$/,
  /^ui\//,
];
/** Runs in Node.js: how it is built, and how its pictures are made. */
const buildOfPage = /^ui\/(?:vite\.config|pictures)\.ts$/;

const testFile = /\.(test|fixture)\.ts$/;
const productFolders: readonly string[] = ['apps', 'guards', 'guard', 'lib'];

/** An import as the rules see it: files by their path from the top of the repository. */
export interface Import {
  /** The importing file: `lib/sensor/sensor.ts`. */
  readonly from: string;
  /** As written: `../ebpf/map.ts`, `node:fs`, `koffi`. */
  readonly specifier: string;
  /** `import type`: gone before the program runs. */
  readonly typeOnly: boolean;
}

/** Why an import is not allowed, or `undefined` where it is. `dependencies` are those of package.json. */
export function objection(
  { from, specifier, typeOnly }: Import,
  dependencies: ReadonlySet<string>,
): string | undefined {
  if (specifier === 'node:http' && !typeOnly)
    return 'an import of node:http loads fetch: lib/net/node-http.ts has it';
  const isOfPage = folderOf(from) === page && !testFile.test(from) && !buildOfPage.test(from);
  if (isOfPage && !typeOnly) {
    const taken = specifier.startsWith('.') ? join(dirname(from), specifier) : specifier;
    return inPage.some((pattern) => pattern.test(taken))
      ? undefined
      : `${page}/ runs in browsers, so it imports only preact, types, examples, and lib/output/printable.ts`;
  }
  if (specifier.startsWith('node:')) return undefined;
  const ofTests = testFile.test(from) || !productFolders.includes(folderOf(from));
  if (!specifier.startsWith('.')) {
    const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
    const owner = owners[name];
    if (owner !== undefined && from !== owner) return `${name} is imported by ${owner} only`;
    if (ofTests || typeOnly || dependencies.has(name)) return undefined;
    return `${name} is not among the dependencies in package.json, so only its types or a test may use it`;
  }
  const to = join(dirname(from), specifier);
  if (to === 'package.json') return undefined;
  if (to.startsWith('..')) return `${to} is outside of the repository`;
  if (testFile.test(to) && !ofTests) return `${to} is for tests`;
  return folderObjection(from, to);
}

function folderObjection(from: string, to: string): string | undefined {
  const [folder, target] = [folderOf(from), folderOf(to)];
  const [room, targetRoom] = [from.split('/')[1] ?? '', to.split('/')[1] ?? ''];
  if (!productFolders.includes(target)) {
    return productFolders.includes(folder) && !testFile.test(from)
      ? `${folder}/ does not import ${target}/: that is not part of the product`
      : undefined;
  }
  if (!productFolders.includes(folder)) return undefined;
  // Those of `lib/` follow the rule too: it has to be readable, and testable, alone.
  if (testFile.test(from) && folder !== 'lib' && folder !== target) return undefined;
  if (productFolders.indexOf(target) < productFolders.indexOf(folder)) {
    return `imports go down: apps -> guards -> guard -> lib, so ${folder}/ does not import ${target}/`;
  }
  if (folder !== target || room === targetRoom || folder === 'apps' || folder === 'guard') return undefined;
  if (folder === 'guards')
    return `a guard does not import another: ${room} is to know nothing of ${targetRoom}`;
  if (targetRoom === testing) return undefined;
  const place = everywhere.indexOf(room);
  const allowed = place < 0 ? [...everywhere, ...(libBelow[room] ?? [])] : everywhere.slice(0, place);
  if (allowed.includes(targetRoom)) return undefined;
  return `lib/${room} does not import lib/${targetRoom} (allowed: ${allowed.join(', ') || 'none'})`;
}

function folderOf(path: string): string {
  return path.split('/')[0] ?? '';
}

/** The parts of the ESTree nodes and of the rule's context that are read here. */
interface ImportNode {
  readonly source?: { readonly type: string; readonly value?: unknown } | null;
  readonly importKind?: string;
  readonly exportKind?: string;
  readonly specifiers?: readonly { readonly importKind?: string; readonly exportKind?: string }[];
}
interface Place {
  readonly line: number;
  readonly column: number;
}
interface Span {
  readonly start: Place;
  readonly end: Place;
}
interface RuleContext {
  readonly filename: string;
  readonly sourceCode: { readonly text: string };
  report(
    problem: { readonly message: string } & ({ readonly node: ImportNode } | { readonly loc: Span }),
  ): void;
}

const kinds = [
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
] as const;

function isTypeOnly(kind: (typeof kinds)[number], node: ImportNode): boolean {
  // `import { type A }` alone still runs the module, so only the whole statement's kind counts.
  return kind === 'TSImportType' || node.importKind === 'type' || node.exportKind === 'type';
}

const rooms = {
  create(context: RuleContext) {
    const from = relative(top, context.filename).split(sep).join('/');
    const dependencies = productDependencies();
    const visitor = (kind: (typeof kinds)[number]) => (node: ImportNode) => {
      const specifier = node.source?.value;
      if (typeof specifier !== 'string') return;
      const message = objection({ from, specifier, typeOnly: isTypeOnly(kind, node) }, dependencies);
      if (message !== undefined) context.report({ node, message });
    };
    return Object.fromEntries(kinds.map((kind) => [kind, visitor(kind)]));
  },
};

let known: ReadonlySet<string> | undefined;

function productDependencies(): ReadonlySet<string> {
  known ??= new Set(
    Object.keys(
      (JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { dependencies?: object })
        .dependencies ?? {},
    ),
  );
  return known;
}

/** Guards, and their upstream products. `network-policy` is a kind of Kubernetes too. */
const guardNames =
  /\b(?:file-access|file-integrity|policy-audit|bpf-programs|kive\w*|kubewarden|bpfman|kube-router|guards?)\b/i;

/** Why a line of `lib/` is not allowed: what knows nothing of guards can be read, and used, without them. */
export function namesGuard(line: string): string | undefined {
  const name = guardNames.exec(line)?.[0];
  return name === undefined ? undefined : `lib/ knows nothing of guards, so it does not say "${name}"`;
}

const libNames = {
  create(context: RuleContext) {
    const from = relative(top, context.filename).split(sep).join('/');
    if (folderOf(from) !== 'lib' || testFile.test(from)) return {};
    return {
      Program(): void {
        for (const [at, line] of context.sourceCode.text.split('\n').entries()) {
          const message = namesGuard(line);
          if (message === undefined) continue;
          const place = { line: at + 1, column: 0 };
          context.report({ loc: { start: place, end: place }, message });
        }
      },
    };
  },
};

export default { meta: { name: 'rampart' }, rules: { rooms, 'lib-names': libNames } };
