import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { namesGuard, objection } from './room-rules.ts';

const dependencies = new Set(['commander', 'koffi', 'pino']);
const top = dirname(import.meta.dirname);

suite('imports between rooms', () => {
  const allowed: readonly (readonly [from: string, specifier: string])[] = [
    ['apps/watch/run.ts', '../../guards/file-access/alert/alert.ts'],
    ['apps/watch/run.ts', '../failure.ts'],
    ['apps/rampart.ts', '../package.json'],
    ['apps/rampart.ts', 'commander'],
    ['guards/file-access/node.ts', './alert.ts'],
    ['guards/file-access/node.ts', '../../lib/sensor/sensor.ts'],
    ['lib/sensor/sensor.ts', '../ebpf/map.ts'],
    ['lib/ebpf/map.ts', '../errors/errors.ts'],
    ['lib/cri/events.ts', '../time/clock.ts'],
    ['lib/time/backoff.ts', '../errors/errors.ts'],
    ['lib/ebpf/ffi.ts', 'koffi'],
    ['lib/errors/errors.ts', 'node:fs'],
    ['lib/ebpf/map.test.ts', '../../scripts/debian-packages.ts'],
    ['lib/testing/fast-check.fixture.ts', 'fast-check'],
    ['lib/ebpf/map.test.ts', '@bufbuild/protobuf'],
    ['test/kernel/vm.test.ts', '../../guards/file-access/alert/alert.ts'],
    ['guards/file-access/node.test.ts', '../../apps/commands.fixture.ts'],
    ['lib/ebpf/map.test.ts', '../testing/until.fixture.ts'],
    ['bench/sensor/run.ts', '../../test/kernel/vm.ts'],
    ['ui/text.ts', '../lib/output/printable.ts'],
    ['ui/app.tsx', 'preact/hooks'],
    ['ui/app.tsx', './text.ts'],
    ['ui/pictures.ts', 'node:fs'],
    ['ui/page.test.ts', '../apps/standalone/standalone.fixture.ts'],
  ];
  for (const [from, specifier] of allowed) {
    test(`${from} may import ${specifier}`, () => {
      assert.equal(objection({ from, specifier, typeOnly: false }, dependencies), undefined);
    });
  }

  const refused: readonly (readonly [from: string, specifier: string, why: RegExp])[] = [
    ['guards/file-access/node.ts', '../../apps/failure.ts', /imports go down/],
    ['ui/app.tsx', '../apps/ui/run.ts', /runs in browsers/],
    ['ui/app.tsx', 'node:fs', /runs in browsers/],
    ['ui/app.tsx', 'commander', /runs in browsers/],
    ['apps/ui/run.ts', '../../ui/app.tsx', /not part of the product/],
    ['lib/sensor/sensor.ts', '../../guards/file-access/alert/alert.ts', /imports go down/],
    ['lib/sensor/sensor.test.ts', '../../guards/file-access/alert/alert.ts', /imports go down/],
    ['guards/file-access/node.ts', '../file-integrity/scan.ts', /does not import another/],
    ['lib/ebpf/map.ts', '../sensor/access.ts', /lib\/ebpf does not import lib\/sensor/],
    ['lib/telemetry/log.ts', '../ebpf/map.ts', /lib\/ebpf \(allowed: errors, files, time, output, net\)/],
    [
      'lib/sensor/sensor.ts',
      '../kube/client.ts',
      /allowed: errors, files, time, output, net, telemetry, ebpf/,
    ],
    ['lib/time/backoff.ts', '../ebpf/map.ts', /allowed: errors, files\)/],
    ['lib/cel/values.ts', '../apiserver/schema/json.ts', /telemetry, json, regex\)/],
    ['lib/errors/errors.ts', '../time/clock.ts', /allowed: none/],
    ['lib/sensor/sensor.ts', './sensor.fixture.ts', /for tests/],
    ['apps/watch/run.ts', '../../scripts/debian-packages.ts', /not part of the product/],
    ['apps/watch/run.ts', '../../../elsewhere.ts', /outside of the repository/],
    ['lib/ebpf/map.ts', 'koffi', /imported by lib\/ebpf\/ffi.ts only/],
    ['lib/ebpf/map.test.ts', 'koffi', /imported by lib\/ebpf\/ffi.ts only/],
    ['apps/watch/run.ts', '@kubernetes/client-node/dist/gen', /@kubernetes\/client-node is not among/],
    ['apps/watch/run.ts', 'rfc6902', /not among the dependencies/],
    ['lib/otlp/target.ts', 'node:http', /lib\/net\/node-http\.ts has it/],
    ['lib/ebpf/map.test.ts', 'fast-check', /imported by lib\/testing\/fast-check.fixture.ts only/],
  ];
  for (const [from, specifier, why] of refused) {
    test(`${from} may not import ${specifier}`, () => {
      assert.match(objection({ from, specifier, typeOnly: false }, dependencies) ?? 'allowed', why);
    });
  }

  test('the types of what may not be loaded may be used', () => {
    const from = 'lib/kube/client/client.ts';
    for (const specifier of ['@kubernetes/client-node', 'node:http'])
      assert.equal(objection({ from, specifier, typeOnly: true }, dependencies), undefined);
  });
});

test('lib/ names no guard', () => {
  assert.equal(namesGuard('/** A network policy of Kubernetes; a vanguard. */'), undefined);
  for (const line of [
    "late.use('policy-audit')",
    '/** As KivePolicy has it. */',
    '// what a guard works on',
  ]) {
    assert.match(namesGuard(line) ?? 'allowed', /knows nothing of guards/);
  }
});

test('npm run lint sees every form of import, cycles, forgotten promises and refused words in comments', (t) => {
  const copy = mkdtempSync(join(tmpdir(), 'rampart-rooms-'));
  t.after(() => rmSync(copy, { recursive: true }));
  for (const folder of ['scripts', 'apps', 'lib/time', 'guards/a', 'guards/b']) {
    mkdirSync(join(copy, folder), { recursive: true });
  }
  const rules = ['scripts/room-rules.ts', 'scripts/comment-rules.ts'];
  for (const file of ['.oxlintrc.json', 'package.json', 'tsconfig.json', ...rules]) {
    copyFileSync(join(top, file), join(copy, file));
  }
  symlinkSync(join(top, 'node_modules'), join(copy, 'node_modules'));
  const write = (path: string, text: string) => writeFileSync(join(copy, path), text);
  write('guards/b/b.ts', 'export interface B { readonly b: number }\nexport const b = 1;\n');
  write('guards/a/static.ts', "import { b } from '../b/b.ts';\nexport const c = b + 1;\n");
  write('guards/a/type.ts', "import type { B } from '../b/b.ts';\nexport type C = B['b'];\n");
  write('guards/a/again.ts', "export * from '../b/b.ts';\n");
  write('guards/a/named.ts', "export { b } from '../b/b.ts';\n");
  write('guards/a/lazy.ts', "export const load = () => import('../b/b.ts');\n");
  write('guards/a/inline.ts', "export type B = import('../b/b.ts').B;\n");
  write('guards/a/fine.ts', "export { c } from './static.ts';\n");
  write('lib/time/chicken.ts', "import { egg } from './egg.ts';\nexport const chicken = () => egg;\n");
  write('lib/time/egg.ts', "import { chicken } from './chicken.ts';\nexport const egg = () => chicken;\n");
  write('lib/time/names.ts', 'export const one = 1;\n/** For guards. */\nexport const two = 2;\n');
  write(
    'lib/time/words.ts',
    'export const one = 1;\n// The clock is\n// to be set.\nexport const two = 2;\n',
  );
  write('apps/promise.ts', 'async function work(): Promise<void> {}\nwork();\n');

  const oxlint = join(top, 'node_modules/.bin/oxlint');
  const { status, stdout } = spawnSync(oxlint, ['--format', 'unix'], { cwd: copy, encoding: 'utf8' });

  const found = stdout
    .split('\n')
    .map((line) => /^(.+?):\d+:\d+: .* \[Error\/(.+)\]$/.exec(line))
    .filter((match) => match !== null)
    .map(([, file, rule]) => `${file} ${rule}`);
  assert.deepEqual(
    found.toSorted(),
    [
      'apps/promise.ts typescript(no-floating-promises)',
      'guards/a/again.ts rampart(rooms)',
      'guards/a/inline.ts rampart(rooms)',
      'guards/a/inline.ts typescript(consistent-type-imports)',
      'guards/a/lazy.ts rampart(rooms)',
      'guards/a/named.ts rampart(rooms)',
      'guards/a/static.ts rampart(rooms)',
      'guards/a/type.ts rampart(rooms)',
      'lib/time/chicken.ts import(no-cycle)',
      'lib/time/egg.ts import(no-cycle)',
      'lib/time/names.ts rampart(lib-names)',
      'lib/time/words.ts comments(plain-words)',
    ],
    stdout,
  );
  assert.equal(status, 1);
});

test('JSON that goes to stdout shows what cannot be seen: visibleJson, and never JSON.stringify alone', () => {
  const files = globSync('{apps,guard,guards,lib}/**/*.ts', { cwd: top }).filter(
    (file) => !/\.(test|fixture)\.ts$/.test(file),
  );
  assert.ok(files.length > 500);
  const written = /(?<!visibleJson\()JSON\.stringify\(/;
  const found = files.flatMap((file) =>
    [...readFileSync(join(top, file), 'utf8').matchAll(/\b(?:stdout\.write|sink)\(([^;]*);/g)]
      .map((match) => match[1] ?? '')
      .filter((argument) => written.test(argument))
      .map((argument) => `${file}: ${argument.slice(0, 80)}`),
  );
  assert.deepEqual(found, []);
});
