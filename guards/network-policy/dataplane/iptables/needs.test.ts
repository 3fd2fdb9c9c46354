import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

import { errorCodes } from '../../../../lib/errors/errors.ts';
import { iptablesObstacle } from './obstacle.fixture.ts';

const needs = JSON.stringify(join(import.meta.dirname, 'needs.ts'));
const namespaces = JSON.stringify(join(import.meta.dirname, '../namespace.ts'));
const script = `
import { examineIptables, requireIptables } from ${needs};
import { KeptNamespace } from ${namespaces};
using namespace = KeptNamespace.create();
const found = await examineIptables(namespace);
try { requireIptables(found); console.log(JSON.stringify({ missing: found.missing })); }
catch ({ code, message }) { console.log(JSON.stringify({ missing: found.missing, code, message })); }
`;

/** In a process without these capabilities. */
function examined(...without: readonly string[]): {
  readonly missing: readonly string[];
  readonly code?: string;
  readonly message?: string;
} {
  const list = without.map((name) => `-${name}`).join(',');
  const drop = without.length === 0 ? [] : ['--bounding-set', list, '--inh-caps', list];
  const args = [...drop, process.execPath, '--input-type=module', '--eval', script];
  return JSON.parse(execFileSync('setpriv', args, { encoding: 'utf8' })) as ReturnType<typeof examined>;
}

test(
  'without CAP_NET_RAW iptables is not tried, and the capability is named',
  { skip: iptablesObstacle('nft') ?? false },
  () => {
    assert.deepEqual(examined().missing, []);
    const { missing, code, message } = examined('net_raw');
    assert.equal(missing.length, 1);
    assert.match(missing[0] ?? '', /^CAP_NET_RAW: /);
    assert.equal(code, errorCodes.UNSUPPORTED);
    assert.match(message ?? '', /deploy\/network-policy-iptables grants CAP_NET_RAW/);
  },
);
