// Long because its tests share one process, which takes seconds to start, and the network that they attach programs to.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { rampart } from '../../apps/standalone/standalone.fixture.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { cable, ip, obstacle, ownNetwork, send } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { RegistryFixture, registryUser } from '../../lib/oci/registry.fixture.ts';
import { signAs } from '../../lib/oci/signatures/signing.fixture.ts';
import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const xdp = (name: string, interfaceName: string, more = ''): string => `
apiVersion: bpfman.io/v1alpha1
kind: XdpProgram
metadata:
  name: ${name}
spec:
  bpffunctionname: xdp_count
  nodeselector: {}
  interfaceselector:
    interfaces: [${interfaceName}]
  priority: 50
  bytecode:
    path: ${countObject}
${more}`;

const application = (interfaceName: string): string => `
apiVersion: bpfman.io/v1alpha1
kind: ClusterBpfApplication
metadata:
  name: planned
spec:
  nodeSelector: {}
  byteCode:
    path: ${countObject}
  programs:
    - name: xdp_count
      type: XDP
      xdp:
        links:
          - interfaceSelector: { interfaces: [${interfaceName}] }
    - name: tc_count
      type: TC
      tc:
        links:
          - { interfaceSelector: { interfaces: [${interfaceName}] }, direction: Egress }
`;

interface VerifiedObject {
  readonly object: string;
  readonly accepted: boolean;
  readonly problems: readonly string[];
  readonly programs: readonly { readonly message: string }[];
  readonly chains: readonly {
    readonly kind: string;
    readonly direction?: string;
    readonly members: number;
  }[];
}

/** Names and types; of a list, those of its first entry. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf);
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shapeOf(one)]));
}

/** A configuration that requires signatures with this key. */
function verification(key: KeyObject): string {
  const pem = key.export({ type: 'spki', format: 'pem' });
  return JSON.stringify({ apiVersion: 'v1', allOf: [{ kind: 'pubKey', key: pem }] });
}

/** Two screens of `rampart bpf stats --top` on a terminal, which is script(1)'s; then Ctrl-C ends it. */
async function liveScreens({ bpffs, state }: BpfStandalone): Promise<readonly string[]> {
  // dash ends with 130 after Ctrl-C, whatever the program it waits for does.
  const command = `exec ${rampart} bpf stats --top -t 0.05 --bpffs ${bpffs} --bpf-state ${state}`;
  const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const ended = once(terminal, 'exit');
    let text = '';
    terminal.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
    const [, ...screens] = await until('two screens', () => {
      const all = text.split('\u001b[H\u001b[2J');
      return all.length > 2 && all;
    });
    terminal.stdin.write('\u0003');
    assert.deepEqual(await ended, [0, null]);
    return screens;
  } finally {
    terminal.kill('SIGKILL');
  }
}

suite('standalone with eBPF programs on the kernel of this machine', { skip: obstacle() ?? false }, () => {
  let machine: BpfStandalone;
  before(async () => {
    await RegistryFixture.fetch();
    ownNetwork();
    machine = new BpfStandalone();
    await machine.start();
  });
  after(() => machine[Symbol.asyncDispose]());

  test('an XdpProgram counts each packet, over a kill of the agent too, and nothing is left of it', async () => {
    cable('count0', 'count1');
    const applied = machine.apply(xdp('count', 'count0'));
    assert.equal(applied.code, 0, applied.stderr);
    assert.equal(
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'count'),
      '1 program runs on lab.',
    );
    const id = machine.objectOf('count');
    send('count1', 100);
    assert.equal(machine.counted(id), 100);
    const programId = (): string =>
      machine.process.kubectl(
        'get',
        'bpfprogram',
        id,
        '-o',
        'jsonpath={.metadata.annotations.bpfman\\.io/ProgramId}',
      ).stdout;
    const firstId = programId();

    await machine.process.stop('SIGKILL');
    send('count1', 50);
    assert.equal(machine.counted(id), 150);
    await machine.start();
    await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'count');
    assert.equal(programId(), firstId);
    send('count1', 50);
    assert.equal(machine.counted(id), 200);

    assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'count', '--timeout=60s').code, 0);
    await until(() => machine.pinned().every((path) => !path.includes('count')));
    assert.equal(machine.process.kubectl('get', 'bpfprograms', '-o', 'name').stdout, '');
    ip('link delete count0');
  });

  deepTest(
    'a file that is half-written leaves what runs, over a kill too, and the next version counts on',
    async () => {
      using directory = new TemporaryDirectory();
      const object = directory.at('count.bpf.o');
      const whole = readFileSync(countObject);
      writeFileSync(object, whole);
      cable('half0', 'half1');
      machine.apply(xdp('half', 'half0').replace(countObject, object));
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'half');
      const id = machine.objectOf('half');
      send('half1', 10);
      writeFileSync(object, whole.subarray(0, 1000));
      const says = await machine.untilCondition('ReconcileError', 'xdpprogram', 'half');
      assert.match(
        says,
        /cannot open eBPF object.*\nThe last version that ran, sha256:\S+, keeps running as program \d+/s,
      );
      const listed = async (): Promise<string> => (await machine.bpf('list')).stdout.replaceAll(/\s+/g, ' ');
      assert.match(
        await listed(),
        /XdpProgram\/half .* Not what is requested: xdp_count of \S+ sha256:\w+ is refused: .*cannot open eBPF object/,
      );
      await machine.process.stop('SIGKILL');
      await machine.start();
      await machine.untilCondition('ReconcileError', 'xdpprogram', 'half');
      send('half1', 10);
      assert.equal(machine.counted(id), 20);
      // Another file, by one byte behind its end.
      writeFileSync(object, Buffer.concat([whole, Buffer.alloc(1)]));
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'half');
      send('half1', 10);
      assert.equal(machine.counted(id), 30);
      assert.doesNotMatch(await listed(), /Not what is requested/);
      assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'half', '--timeout=60s').code, 0);
      ip('link delete half0');
    },
  );

  deepTest(
    'the reason why a program does not run is a finding, and so are its return and a repair',
    async () => {
      cable('taken0', 'taken1');
      const link = (...words: readonly string[]): unknown =>
        execFileSync('ip', ['link', 'set', 'dev', 'taken0', 'xdpgeneric', ...words]);
      link('obj', countObject, 'sec', 'xdp');
      machine.apply(xdp('taken', 'taken0'));
      const findings = (): string[] =>
        machine.process.stdout.split('\n').flatMap((line) => {
          const { head } = readFinding(line) ?? {};
          return head?.guard === 'bpf-programs' && head.policy?.name === 'taken'
            ? [`${head.verdict} ${head.message}`]
            : [];
        });
      await until('displaced', () => findings().length > 0);
      assert.match(findings()[0] ?? '', /^displaced A program of XdpProgram\/taken .*Another XDP program/);
      link('off');
      await until('running', () => findings().length > 1);
      assert.equal(findings()[1], 'running A program of XdpProgram/taken runs again on node lab.');
      const pins = machine.pinned().filter((path) => /chains\/[^/]*taken0[^/]*\/link$/.test(path));
      for (const path of pins) rmSync(join(machine.bpffs, path));
      await until('repaired', () => findings().length > 2);
      assert.match(
        findings()[2] ?? '',
        /^repaired A program of XdpProgram\/taken was repaired on node lab: xdp on/,
      );
      const shown = await machine.rampart(
        ...['alerts', '--data', machine.process.at('data'), '--guard', 'bpf-programs', '--policy', 'taken'],
        ...['--severity', 'medium', '--format', 'pretty'],
      );
      assert.match(shown.stdout, /^\S+ {3}displaced +lab:taken0 .*\n\S+ {3}repaired +lab:taken0 .*$/);
      assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'taken', '--timeout=60s').code, 0);
      ip('link delete taken0');
    },
  );

  deepTest(
    'an interface that comes later gets its program, and one that goes takes none with it',
    async () => {
      cable('here0', 'here1');
      machine.apply(xdp('late', 'late0'));
      machine.apply(xdp('here', 'here0'));
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'here');
      const text = await machine.untilCondition('ReconcileError', 'xdpprogram', 'late');
      assert.match(
        text,
        /NotLoaded: xdp_count of sha256:[0-9a-f]{64}: There is no interface late0 on this node/,
      );
      cable('late0', 'late1');
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'late');
      send('late1', 10);
      assert.equal(machine.counted(machine.objectOf('late')), 10);
      assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'late', 'here', '--timeout=60s').code, 0);
      for (const name of ['late0', 'here0']) ip(`link delete ${name}`);
    },
  );

  test('running programs are shown by rampart bpf, in their order, and cleaned up when no agent holds them', async () => {
    cable('seen0', 'seen1');
    const globaldata = (verdict: number): string => `  globaldata:\n    xdp_verdict: [${verdict}, 0, 0, 0]\n`;
    machine.apply(xdp('second', 'seen0', globaldata(2)));
    machine.apply(xdp('first', 'seen0', '  proceedon: [pass]\n').replace('priority: 50', 'priority: 10'));
    for (const name of ['first', 'second']) {
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', name);
    }
    send('seen1', 30);
    const chain = await machine.bpf('chain', 'seen0');
    assert.equal(chain.code, 0, chain.stderr);
    const [title, head, ...rows] = chain.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
    assert.match(title ?? '', /^seen0, xdp, program \d+$/);
    assert.equal(head, 'PRIORITY REQUESTED BY FUNCTION ID PROCEEDS ON RUNS');
    assert.match(rows[0] ?? '', /^10 XdpProgram\/first xdp_count \d+ pass 30$/);
    assert.match(rows[1] ?? '', /^50 XdpProgram\/second xdp_count \d+ pass dispatcher_return 30$/);
    const listed = JSON.parse((await machine.bpf('list', '-o', 'json')).stdout) as {
      programs: { owner: string; type: string; attachPoint: string; mapIds: number[] }[];
    };
    assert.deepEqual(
      listed.programs
        .map(({ owner, type, attachPoint }) => ({ owner, type, attachPoint }))
        .toSorted((a, b) => (a.owner < b.owner ? -1 : 1)),
      ['first', 'second'].map((name) => ({
        owner: `XdpProgram/${name}`,
        type: 'xdp',
        attachPoint: 'seen0',
      })),
    );
    const dumped = await machine.bpf('map', 'dump', 'XdpProgram/first', 'packets', '-o', 'json');
    assert.deepEqual((JSON.parse(dumped.stdout) as { entries: unknown }).entries, [{ key: 0, value: 30 }]);
    assert.match(
      (await machine.bpf('map', 'dump', 'XdpProgram/first', 'nothing')).stderr,
      /has no map nothing\. It has: .*packets/,
    );
    const packets = ['XdpProgram/first', 'packets'];
    assert.match((await machine.bpf('list')).stdout, new RegExp(`XdpProgram/first +${countObject} sha256:`));
    assert.match((await machine.bpf('map', 'list')).stdout, /^\d+ +packets +array .* XdpProgram\/first$/m);
    const missing = await machine.bpf('map', 'lookup', ...packets, '7');
    assert.deepEqual([missing.code, missing.stderr], [1, 'rampart: the map has no entry with key 7']);
    const unfit = await machine.bpf('map', 'update', ...packets, '0', '"many"');
    assert.deepEqual(
      [unfit.code, unfit.stderr.split('\n')[0]],
      [2, 'rampart: value is "many", and must be an integer. Write it as 17, -5 or "0x11"'],
    );
    assert.equal(
      (await machine.bpf('map', 'update', ...packets, '0', '31', '--exist')).stdout,
      'KEY  VALUE\n0    31',
    );
    const net = await machine.bpf('net', 'seen0');
    assert.match(
      net.stdout,
      /^seen0 +xdp native +\d+ +rampart_xdp +link \d+ +XdpProgram\/first XdpProgram\/second$/m,
    );
    assert.equal((await machine.bpf('net', 'seen1')).code, 1);
    assert.equal((await machine.bpf('net', '--netns', 'nowhere')).code, 2);
    const all = await machine.bpf('stats', '-t', '0.05', '--all', '--sort', 'cpu');
    assert.match(all.stdout, /^ID +TYPE +ATTACHED TO +REQUESTED BY +RUNS\/S +NS\/RUN +CPU$/m);
    const screens = await liveScreens(machine);
    assert.match(screens[1] ?? '', /XdpProgram\/first/);
    const stats = await machine.bpf('stats', '-t', '0.1', '-o', 'json');
    const measured = JSON.parse(stats.stdout) as { programs: unknown[]; chains: unknown[] };
    assert.deepEqual([measured.programs.length, measured.chains.length], [2, 1]);
    const objects = {
      // In its place, beside the other one.
      first: xdp('first', 'seen0'),
      third: xdp('third', 'seen0'),
      wrong: xdp('wrong', 'seen0').replace('xdp_count', 'xdp_none'),
      invalid: xdp('invalid', 'seen0').replace('priority: 50', 'priority: 5000'),
      application: application('seen0'),
    };
    machine.process.write('objects.yaml', Object.values(objects).join('---'));
    const verified = await machine.bpf('verify', '-f', machine.process.at('objects.yaml'), '-o', 'json');
    assert.equal(verified.code, 1, verified.stderr);
    const { objects: reported } = JSON.parse(verified.stdout) as { objects: readonly VerifiedObject[] };
    assert.deepEqual(
      reported.map(({ object, accepted, chains }) => [
        ...[object, accepted],
        ...chains.map(({ kind, direction, members }) => [kind, direction ?? '', members].join(' ').trim()),
      ]),
      [
        ['XdpProgram/first', true, 'xdp  2'],
        ['XdpProgram/third', true, 'xdp  3'],
        ['XdpProgram/wrong', false],
        ['XdpProgram/invalid', false],
        ['ClusterBpfApplication/planned', true, 'xdp  3', 'tc egress 1'],
      ],
    );
    assert.match(reported[2]?.programs[0]?.message ?? '', /has no program xdp_none.*xdp_count/);
    assert.match(reported[3]?.problems[0] ?? '', /^spec\.priority: .*1000/);
    machine.process.write('good.yaml', objects.third);
    const good = await machine.bpf('verify', '-f', machine.process.at('good.yaml'));
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /^XdpProgram\/third: accepted$/m);
    assert.match(good.stdout, /^seen0 xdp +3 +accepted$/m);
    const both = await machine.bpf('verify', countObject, '-f', machine.process.at('good.yaml'));
    assert.equal(both.code, 2);
    const ofData = ['--data', machine.process.at('data')];
    // The agent reports its guards every few seconds, and has just been started.
    await until('both programs are shown as running', async () => {
      const { stdout } = await machine.rampart('status', ...ofData);
      return stdout.includes('All 2 eBPF programs run on every node they select.');
    });
    machine.apply(xdp('absent', 'absent0'));
    await machine.untilCondition('ReconcileError', 'xdpprogram', 'absent');

    // Programs of people read these.
    const shapes = {
      list: await machine.bpf('list', '-o', 'json'),
      chain: await machine.bpf('chain', 'seen0', '-o', 'json'),
      stats,
      dump: dumped,
      // The first one is that which does not run.
      status: await machine.rampart('status', '--format', 'json', ...ofData),
    };
    const program = {
      ...{ id: 'string', owner: 'string', programId: 'number', type: 'string' },
      ...{
        functionName: 'string',
        source: 'string',
        digest: 'string',
        attachPoint: 'string',
        mapIds: ['number'],
      },
    };
    const member = {
      ...{ id: 'string', owner: 'string', programId: 'number', functionName: 'string' },
      ...{ priority: 'number', proceedOn: ['string'], runs: 'number', notes: [] },
    };
    const shape = { interface: 'string', kind: 'string', programId: 'number', notes: [], members: [member] };
    // Nothing ran meanwhile.
    const ran = { runs: 'number', nsPerRun: 'null' };
    const inTime = { ...ran, cpuPercent: 'number' };
    const { status: statusShape, ...others } = Object.fromEntries(
      Object.entries(shapes).map(([name, { stdout }]) => [name, shapeOf(JSON.parse(stdout))]),
    );
    assert.deepEqual((statusShape as { bpfPrograms: unknown }).bpfPrograms, [
      {
        ...{ kind: 'string', namespace: 'null', name: 'string', guarded: 'boolean' },
        ...{ condition: 'string', loaded: 'number', notLoaded: 'number' },
      },
    ]);
    assert.deepEqual(others, {
      list: { schema: 'string', programs: [program] },
      chain: { schema: 'string', chains: [shape] },
      stats: {
        ...{ schema: 'string', measuredMs: 'number' },
        programs: [{ ...program, ...ran, cpuPercent: 'null' }],
        chains: [{ chain: shape, ...inTime }],
      },
      dump: {
        schema: 'string',
        ...{ name: 'string', id: 'number', truncated: 'boolean' },
        entries: [{ key: 'number', value: 'number' }],
      },
    });

    const refused = await machine.bpf('cleanup');
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /holds it/);
    await machine.process.stop('SIGKILL');
    const cleaned = await machine.bpf('cleanup', '-o', 'json');
    assert.equal(cleaned.code, 0, cleaned.stderr);
    const { removed, ...more } = JSON.parse(cleaned.stdout) as { removed: readonly string[] };
    assert.deepEqual(more, { schema: 'rampart.dev/bpf-cleanup/v1' });
    for (const name of ['first', 'second'])
      assert.ok(
        removed.some((line) => new RegExp(`^program \\d+ of XdpProgram/${name}`).test(line)),
        cleaned.stdout,
      );
    assert.deepEqual(machine.pinned(), []);
    const again = JSON.parse((await machine.bpf('cleanup', '-o', 'json')).stdout) as object;
    assert.deepEqual(again, { ...more, removed: [] });
    assert.equal((await machine.bpf('cleanup')).stdout, 'Nothing to remove.');
    assert.equal((await machine.bpf('chain', 'seen0')).code, 1);
    ip('link delete seen0');
  });

  test('a file is verified without anything being attached', async () => {
    const ran = await machine.rampart('bpf', 'verify', countObject, '-o', 'json');
    assert.equal(ran.code, 0, ran.stderr);
    const { programs } = JSON.parse(ran.stdout) as {
      programs: { functionName: string; loads: boolean; type: string }[];
    };
    assert.deepEqual(
      programs.map(({ functionName, loads, type }) => [functionName, loads, type]),
      [
        ['xdp_count', true, 'xdp'],
        ['tc_count', true, 'tc'],
      ],
    );
    const none = await machine.rampart('bpf', 'verify', '/etc/hostname');
    assert.equal(none.code, 2);
    assert.match(none.stderr, /hostname/);
    // One of its programs is refused by the verifier.
    const awkward = countObject.replace('count', 'awkward');
    const refused = await machine.rampart('bpf', 'verify', awkward);
    assert.equal(refused.code, 1, refused.stderr);
    assert.match(refused.stdout, /refused/);
    // The same fields, whatever the verdict.
    const reported = await machine.rampart('bpf', 'verify', awkward, '-o', 'json');
    assert.equal(reported.code, 1, reported.stderr);
    const program = {
      ...{ functionName: 'string', section: 'string', type: 'string', loads: 'boolean' },
      ...{ verifiedInstructions: 'number', statistics: 'string', message: 'string' },
    };
    for (const { stdout } of [ran, reported]) {
      const { programs: all, ...rest } = JSON.parse(stdout) as { programs: readonly unknown[] };
      assert.deepEqual(shapeOf(rest), {
        ...{ schema: 'string', subject: 'string', digest: 'string', problems: [] },
      });
      for (const one of all) assert.deepEqual(shapeOf(one), program);
    }
  });

  test('an image is verified from a registry, through a mirror; an unavailable one is distinguished from a refused one', async () => {
    await using registry = await RegistryFixture.start();
    const pushed = await registry.push(
      'team/count',
      'v1',
      bytecodeImage(countObject, { xdp_count: 'xdp', tc_count: 'tcx' }),
    );
    const { reference, digest } = pushed;
    const plain = await machine.rampart('bpf', 'verify', '--insecure', reference, '-o', 'json');
    assert.equal(plain.code, 0, plain.stderr);
    const reported = JSON.parse(plain.stdout) as {
      digest: string;
      programs: { loads: boolean; verifiedInstructions: number }[];
    };
    assert.equal(reported.digest, digest);
    assert.deepEqual(
      reported.programs.map(({ loads, verifiedInstructions }) => loads && verifiedInstructions > 0),
      [true, true],
    );
    const signer = generateKeyPairSync('ed25519');
    machine.process.write('verification.yml', verification(signer.publicKey));
    const required = ['--bpf-verification-config', machine.process.at('verification.yml')];
    const verifies = ['bpf', 'verify', '--insecure', reference, ...required];
    const unsigned = await machine.rampart(...verifies);
    assert.equal(unsigned.code, 1, unsigned.stderr);
    assert.match(unsigned.stdout, /^refused: \S+team\/count:v1 .* is not trusted: it has no signatures/m);
    assert.doesNotMatch(unsigned.stdout, /PROGRAM/);
    await signAs(registry, pushed, 'team/count', [{ by: signer.privateKey }]);
    assert.equal((await machine.rampart(...verifies)).code, 0);
    const manifest = ['-f', machine.process.at('unsigned.yaml'), ...required];
    machine.process.write('unsigned.yaml', xdp('file', 'lo'));
    const file = await machine.rampart('bpf', 'verify', ...manifest);
    assert.equal(file.code, 1, file.stderr);
    assert.match(file.stdout, /^XdpProgram\/file: refused\n[^]*a file cannot have signatures/);
    machine.process.write(
      'registries.conf',
      `[[registry]]\nprefix = "images.example"\nlocation = "images.example"\n[[registry.mirror]]\nlocation = "${registry.host}"\ninsecure = true\n`,
    );
    const mirrored = ['bpf', 'verify', '--registries', machine.process.at('registries.conf')];
    const through = await machine.rampart(...mirrored, 'images.example/team/count:v1');
    assert.equal(through.code, 0, through.stderr);
    assert.match(through.stdout, /^xdp_count +xdp +accepted +\d+$/m);
    for (const [args, says] of [
      [[...mirrored, 'images.example/team/other:v1'], /team\/other/],
      [['bpf', 'verify', '--registries', '/no/such.conf', reference], /cannot read \/no\/such\.conf/],
      // Without --insecure TLS is wanted, which this registry has not.
      [['bpf', 'verify', reference], /cannot fetch/],
    ] as const) {
      const ran = await machine.rampart(...args);
      assert.equal(ran.code, 2, ran.stdout);
      assert.match(ran.stderr, says);
    }
    // Addresses that only this machine reaches are called where the configuration names them.
    await using secure = await RegistryFixture.start({ tls: true });
    const image = bytecodeImage(countObject, { xdp_count: 'xdp' });
    const { reference: overTls } = await secure.push('team/count', 'v1', image);
    const strangers = await machine.rampart('bpf', 'verify', overTls);
    assert.equal(strangers.code, 2);
    assert.match(strangers.stderr, /is loopback; to call it, configure the certificate authority/);
    await using closed = await RegistryFixture.start({ tls: true, password: true });
    const { reference: ofUser } = await closed.push('team/count', 'v1', image);
    const open = await machine.rampart('bpf', 'verify', '--insecure', ofUser);
    assert.equal(open.code, 2, open.stdout);
    const { username, password } = registryUser;
    const auth = Buffer.from(`${username}:${password}`).toString('base64');
    machine.process.write('config.json', JSON.stringify({ auths: { [closed.host]: { auth } } }));
    const credentials = ['--credentials', machine.process.at('config.json')];
    const known = await machine.rampart('bpf', 'verify', '--insecure', ...credentials, ofUser);
    assert.equal(known.code, 0, known.stderr);
    assert.equal(
      (await machine.rampart('bpf', 'list', '--bpffs', machine.bpffs, '--bpf-state', machine.state)).stdout,
      'No eBPF programs of Rampart are loaded in this kernel.',
    );
  });

  deepTest(
    'where signatures are required, the last version of what has none stays, and what is signed replaces it',
    async () => {
      await using registry = await RegistryFixture.start();
      const image = bytecodeImage(countObject, { xdp_count: 'xdp' });
      const signer = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const pushed = await registry.push('team/signed', 'v1', image);
      await signAs(registry, pushed, 'team/signed', [{ by: signer.privateKey }]);
      await machine.process.stop('SIGKILL');
      await machine.start();
      cable('sign0', 'sign1');
      machine.apply(xdp('sign', 'sign0'));
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'sign');
      const id = machine.objectOf('sign');
      await machine.process.stop('SIGKILL');
      machine.process.write('verification.yml', verification(signer.publicKey));
      const config = ['--bpf-verification-config', machine.process.at('verification.yml')];
      await machine.start(...config, '--bpf-insecure-registry', registry.host);
      assert.match(
        await machine.untilCondition('ReconcileError', 'xdpprogram', 'sign'),
        /spec\.bytecode\.path: .* a file cannot have signatures.*The last version that ran, .* keeps running/s,
      );
      send('sign1', 10);
      assert.equal(machine.counted(id), 10);
      machine.apply(xdp('sign', 'sign0').replace(/path: .*/, `image: { url: '${pushed.reference}' }`));
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'sign');
      send('sign1', 10);
      assert.equal(machine.counted(id), 20);
      assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'sign', '--timeout=60s').code, 0);
      ip('link delete sign0');
    },
  );
});
