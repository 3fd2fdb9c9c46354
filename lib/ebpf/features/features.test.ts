import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';

import { deepTest } from '../../testing/depth.fixture.ts';
import { asNobody, publicPath, withPublicCheckout } from '../../testing/public-checkout.fixture.ts';
import { createLink, Descriptor, instructions, loadProgram } from '../bpf-call.ts';
import { probeFeatures } from './features.ts';
import { type AttachKind, attachKinds, type KernelFeatures, programKinds } from './feature.ts';

const printFeatures = `
  const { probeFeatures } = await import(${JSON.stringify(publicPath(join(import.meta.dirname, 'features.ts')))});
  process.stdout.write(JSON.stringify(probeFeatures()));
`;
const nodeArguments = ['--input-type=module', '-e', printFeatures];

const notRoot = process.getuid?.() === 0 ? false : 'needs root';

/** Runs the probe in another process that `command` changes the circumstances of, in the public checkout. */
function probeUnder(command: readonly string[]): KernelFeatures {
  const node = [publicPath(process.execPath), ...nodeArguments];
  const output = execFileSync('env', [...command, ...node], { encoding: 'utf8' });
  return JSON.parse(output) as KernelFeatures;
}

function reasonsOf(answers: KernelFeatures['programs'] | KernelFeatures['attach']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(answers).map(([kind, answer]) => [kind, answer.available ? 'available' : answer.reason]),
  );
}

/** The content of a file, '' if it does not exist. */
function content(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

describe('on this kernel', { skip: notRoot }, () => {
  let features: KernelFeatures;
  before(() => {
    features = probeFeatures();
  });

  test('raw tracepoints, the ring buffer and reading kernel memory are there', () => {
    assert.deepEqual(features.attach.raw_tracepoint, { available: true });
    assert.deepEqual(features.ringBuffer, { available: true });
    assert.deepEqual(features.probeReadKernel, { available: true });
  });

  test('kprobes are there exactly when the kernel has their event source', () => {
    const hasKprobes = readdirSync('/sys/bus/event_source/devices').includes('kprobe');
    for (const kind of ['kprobe', 'kretprobe'] as const) {
      assert.equal(reasonsOf(features.attach)[kind], hasKprobes ? 'available' : 'no_kprobes');
    }
  });

  test('the answers agree with bpftool for every program type that both know', (t) => {
    const bpftool = spawnSync('bpftool', ['-j', 'feature', 'probe', 'kernel'], { encoding: 'utf8' });
    if (bpftool.status !== 0) return t.skip('bpftool is not installed');
    const theirs = (JSON.parse(bpftool.stdout) as { program_types: Record<string, boolean> }).program_types;
    // bpftool asks BPF_PROG_TYPE_TRACING as fentry, and does not know the kinds apart.
    const names = new Map<string, string>([['fentry', 'tracing']]);
    const unknownToBpftool = new Set(['fexit', 'fmod_ret', 'iter', 'netfilter']);
    const compared: string[] = [];
    for (const kind of programKinds) {
      const their = theirs[`have_${names.get(kind) ?? kind}_prog_type`];
      if (their === undefined) assert.ok(unknownToBpftool.has(kind), `bpftool does not know ${kind}`);
      if (their === undefined) continue;
      const ours = features.programs[kind];
      assert.equal(ours.available, their, `${kind}: ${JSON.stringify(ours)}`);
      compared.push(kind);
    }
    assert.ok(compared.length >= 16, compared.join(' '));
    return undefined;
  });

  test('a refused tracing program is a refusal, with the errno', (t) => {
    const { fentry } = features.programs;
    if (fentry.available) return t.skip('this kernel takes tracing programs');
    assert.equal(fentry.reason, 'refused');
    assert.match(fentry.detail, /EPERM/);
    assert.deepEqual(features.attach.fexit, features.programs.fexit);
    return undefined;
  });

  test('a link type that no kernel has is distinguished from those with an impossible target', () => {
    const loaded = loadProgram({
      type: 3,
      instructions: [instructions.setRegister(0, 0), instructions.exit()],
    });
    assert.ok(loaded instanceof Descriptor);
    using program = loaded;
    const unknown = createLink(program, 2 ** 31 - 1, 200);
    assert.ok(!(unknown instanceof Descriptor));
    assert.equal(unknown.errno, 22);
  });

  test('probing leaves no descriptor, probe or qdisc behind', () => {
    const state = () => ({
      descriptors: readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return /bpf|perf_event|socket/.test(readlinkSync(`/proc/self/fd/${fd}`));
        } catch {
          return false;
        }
      }),
      probes: content('/sys/kernel/tracing/uprobe_events') + content('/sys/kernel/tracing/kprobe_events'),
      qdiscs: spawnSync('tc', ['qdisc', 'show', 'dev', 'lo'], { encoding: 'utf8' }).stdout,
    });
    const was = state();
    for (let round = 0; round < 3; round++) probeFeatures();
    assert.deepEqual(state(), was);
  });

  test('only what was asked for is probed', () => {
    const asked: readonly AttachKind[] = ['raw_tracepoint'];
    const reasons = reasonsOf(probeFeatures(asked).attach);
    for (const kind of attachKinds) {
      assert.equal(reasons[kind], asked.includes(kind) ? 'available' : 'not_probed');
    }
  });

  test('the facts match what the machine says of itself', () => {
    assert.equal(features.release, execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim());
    assert.match(features.libbpf ?? '', /^v1\.\d+/);
    assert.ok(features.capabilities.includes('CAP_SYS_ADMIN'));
    assert.equal(features.inUserNamespace, false);
    assert.equal(features.btf.available, features.btfSizeBytes !== undefined);
    assert.ok(features.cgroupVersions.length > 0);
  });
});

test('without capabilities every probe says what is missing', { skip: notRoot }, () => {
  const features = probeUnder([...asNobody, '--inh-caps=-all', '--bounding-set=-all']);
  assert.deepEqual(features.capabilities, []);
  const absent = new Set(['no_kprobes', 'no_uprobes', 'no_btf']);
  // Kernels that let everybody load these two say so in kernel.unprivileged_bpf_disabled.
  const open = features.unprivilegedBpfDisabled === 0 ? new Set(['socket_filter', 'cgroup_skb']) : new Set();
  for (const answers of [features.programs, features.attach]) {
    for (const [kind, reason] of Object.entries(reasonsOf(answers))) {
      if (open.has(kind) || absent.has(reason)) continue;
      assert.equal(reason, 'missing_capability', kind);
    }
  }
  const { raw_tracepoint: rawTracepoint } = features.attach;
  assert.ok(!rawTracepoint.available && rawTracepoint.detail.includes('CAP_BPF and CAP_PERFMON'));
});

deepTest('the capabilities named are the ones that help', { skip: notRoot }, () => {
  const capabilities = '-all,+bpf,+perfmon,+net_admin';
  const features = probeUnder([
    ...asNobody,
    `--inh-caps=${capabilities}`,
    `--ambient-caps=${capabilities}`,
    `--bounding-set=${capabilities}`,
  ]);
  assert.deepEqual(features.capabilities, ['CAP_NET_ADMIN', 'CAP_PERFMON', 'CAP_BPF']);
  const mine = reasonsOf(probeFeatures().programs);
  assert.deepEqual(reasonsOf(features.programs), mine);
  assert.equal(reasonsOf(features.attach)['xdp'], 'available');
  assert.equal(reasonsOf(features.attach)['raw_tracepoint'], 'available');
});

deepTest('without BTF what needs it says no_btf, and the rest is as before', { skip: notRoot }, (t) => {
  const mine = probeFeatures();
  if (!mine.btf.available) return t.skip('this kernel has no BTF to hide');
  const hidden = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"';
  const features = probeUnder([...withPublicCheckout, 'sh', '-ec', hidden, 'sh']);
  assert.ok(!features.btf.available && features.btf.reason === 'no_btf');
  assert.equal(features.btfSizeBytes, undefined);
  const needBtf = new Set(['fentry', 'fexit', 'fmod_ret', 'iter', 'lsm', 'struct_ops']);
  const expected = Object.fromEntries(
    Object.entries(reasonsOf(mine.programs)).map(([kind, reason]) => [
      kind,
      needBtf.has(kind) ? 'no_btf' : reason,
    ]),
  );
  assert.deepEqual(reasonsOf(features.programs), expected);
  assert.equal(reasonsOf(features.attach)['fexit'], 'no_btf');
  assert.equal(reasonsOf(features.attach)['raw_tracepoint'], reasonsOf(mine.attach)['raw_tracepoint']);
  return undefined;
});

deepTest('in a user namespace capabilities do not count, and the answer says so', { skip: notRoot }, (t) => {
  const allowed = spawnSync('unshare', ['--user', '--map-root-user', 'true']);
  if (allowed.status !== 0) return t.skip('this kernel gives no user namespaces');
  const features = probeUnder([...withPublicCheckout, 'unshare', '--user', '--map-root-user']);
  assert.equal(features.inUserNamespace, true);
  const { raw_tracepoint: answer } = features.programs;
  assert.ok(!answer.available && answer.reason === 'missing_capability');
  assert.match(answer.detail, /outside the user namespace/);
  return undefined;
});
