import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { filterBridges } from './bridge.ts';

/** A machine's files, as the kernel would show them. */
class Machine implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-bridge-'));
  readonly links = join(this.directory, 'links');
  readonly sysctls = join(this.directory, 'sysctls');

  constructor({
    bridges,
    values,
  }: {
    readonly bridges: readonly string[];
    readonly values?: readonly string[];
  }) {
    mkdirSync(join(this.links, 'eth0'), { recursive: true });
    for (const bridge of bridges) mkdirSync(join(this.links, bridge, 'bridge'), { recursive: true });
    if (values === undefined) return;
    mkdirSync(this.sysctls);
    for (const [at, name] of ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'].entries()) {
      writeFileSync(join(this.sysctls, name), `${values[at]}\n`);
    }
  }

  get values(): string[] {
    return ['iptables', 'ip6tables'].map((name) =>
      readFileSync(join(this.sysctls, `bridge-nf-call-${name}`), 'utf8').trim(),
    );
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true });
  }
}

suite('bridged packets', () => {
  test('are made to pass the rules where there is a bridge', () => {
    using machine = new Machine({ bridges: ['cni0'], values: ['0', '1'] });
    assert.equal(filterBridges(machine), undefined);
    assert.deepEqual(machine.values, ['1', '1']);
  });

  test('are left alone where there is no bridge', () => {
    using machine = new Machine({ bridges: [], values: ['0', '0'] });
    assert.equal(filterBridges(machine), undefined);
    assert.deepEqual(machine.values, ['0', '0']);
  });

  test('that get around all policies are told, with the bridges and what to do', () => {
    using machine = new Machine({ bridges: ['cni0', 'docker0'] });
    assert.match(
      filterBridges(machine) ?? '',
      /\(cni0, docker0\).*br_netfilter is not loaded.*modprobe br_netfilter$/,
    );
  });
});
