import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { filterBridges } from './bridge.ts';

/** A machine's files, as the kernel would show them. */
class Machine implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-bridge-'));
  readonly sysctls = join(this.directory, 'sysctls');

  readonly bridges: () => readonly string[];

  constructor({
    bridges,
    values,
  }: {
    readonly bridges: readonly string[];
    readonly values?: readonly string[];
  }) {
    this.bridges = () => bridges;
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
  test('bridged packets are made to pass the rules if there is a bridge', () => {
    using machine = new Machine({ bridges: ['cni0'], values: ['0', '1'] });
    assert.equal(filterBridges(machine), undefined);
    assert.deepEqual(machine.values, ['1', '1']);
  });

  test(
    'bridges are found in the network namespace of the caller, whatever /sys shows',
    { skip: namespaceObstacle() ?? false },
    (t) => {
      using namespace = new NetworkNamespace();
      const read = () =>
        namespace.run(() => readFileSync('/proc/sys/net/bridge/bridge-nf-call-iptables', 'utf8').trim());
      namespace.ip('link add br9 type bridge', 'link add plain type veth');
      if (!namespace.run(() => existsSync('/proc/sys/net/bridge'))) {
        t.skip('this kernel has no br_netfilter');
        return;
      }
      namespace.run(() => writeFileSync('/proc/sys/net/bridge/bridge-nf-call-iptables', '0'));
      assert.equal(
        namespace.run(() => filterBridges()),
        undefined,
      );
      assert.equal(read(), '1');
    },
  );

  test('settings are not changed without a bridge', () => {
    using machine = new Machine({ bridges: [], values: ['0', '0'] });
    assert.equal(filterBridges(machine), undefined);
    assert.deepEqual(machine.values, ['0', '0']);
  });

  test('packets that bypass all policies are reported, with the bridges and the remedy', () => {
    using machine = new Machine({ bridges: ['cni0', 'docker0'] });
    assert.match(
      filterBridges(machine) ?? '',
      /\(cni0, docker0\).*br_netfilter is not loaded.*modprobe br_netfilter$/,
    );
  });
});
