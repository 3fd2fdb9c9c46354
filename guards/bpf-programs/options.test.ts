import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Command } from 'commander';

import { addGuardOptions, parsedOptions } from '../../guard/guard-options.ts';
import { bpfPrograms } from './guard.ts';
import type { BpfProgramsOptions } from './options.ts';

function parsed(...flags: readonly string[]): BpfProgramsOptions {
  const command = addGuardOptions(new Command().exitOverride(), 'agent', [bpfPrograms]);
  command.configureOutput({ writeErr: () => undefined });
  return parsedOptions(bpfPrograms, command.parse(flags, { from: 'user' }).opts()) as BpfProgramsOptions;
}

test('rules for namespaced kinds: by default no function, and 128 MiB', () => {
  assert.deepEqual(parsed().tenants, { helpers: new Set(), mapMemoryBytes: 128 * 2 ** 20 });
  const flags = ['--bpf-tenant-helpers', 'bpf_loop', '--bpf-tenant-helpers', 'bpf_rdonly_cast'];
  assert.deepEqual(parsed(...flags, '--bpf-tenant-map-memory', '64').tenants, {
    helpers: new Set(['bpf_loop', 'bpf_rdonly_cast']),
    mapMemoryBytes: 64 * 2 ** 20,
  });
});

test('rules for namespaced kinds that mean nothing are refused', () => {
  assert.throws(() => parsed('--bpf-tenant-helpers', 'bpf_loop,bpf_snprintf'), /the name of one function/);
  for (const size of ['0', '-1', '64M', '1.5'])
    assert.throws(() => parsed('--bpf-tenant-map-memory', size), /a number of MiB/);
});

test('volumes with maps: only where the directory of kubelet is given', () => {
  assert.equal(parsed('--bpf-csi-namespaces', '*').csi, undefined);
  assert.deepEqual(parsed('--bpf-csi', '/var/lib/kubelet/').csi, {
    kubeletDirectory: '/var/lib/kubelet',
    clusterNamespaces: [],
  });
  const namespaces = ['--bpf-csi-namespaces', 'shop,bank', '--bpf-csi-namespaces', '*'];
  assert.deepEqual(parsed('--bpf-csi', '/k', ...namespaces).csi?.clusterNamespaces, ['shop', 'bank', '*']);
  for (const path of ['', '/', 'kubelet']) assert.throws(() => parsed('--bpf-csi', path), /absolute path/);
});
