import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import type { SourceContainer } from '../../../lib/cri/container-source.ts';
import { identifyByStat } from '../../../lib/sensor/paths/path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { type CompiledTrap, compilePolicy } from '../policy/matching.ts';
import { policyOf, trapOn } from '../policy/policy.fixture.ts';
import { TrapFiles } from './trap-files.ts';

/** All inotify watches of this process: what is followed, whoever holds it (proc_pid_fdinfo(5)). */
function watches(): number {
  let count = 0;
  for (const fd of readdirSync('/proc/self/fdinfo')) {
    try {
      count += readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1').match(/^inotify wd:/gm)?.length ?? 0;
    } catch {
      // The descriptor of the listing itself is gone by now.
    }
  }
  return count;
}

function trapFor(path: string): CompiledTrap {
  const [trap] = compilePolicy(policyOf(`p${path.replaceAll('/', '-')}`, trapOn(path))).traps;
  assert.ok(trap);
  return trap;
}

/** Cannot be followed: validation keeps such a path from here, and adding it throws. */
const impossible: CompiledTrap = { ...trapFor('/c/file'), path: '/c/\0' };

class Scene extends TemporaryDirectory {
  readonly changed: string[] = [];
  readonly files = new TrapFiles({
    identify: identifyByStat,
    onChange: (id) => this.changed.push(id),
    onProblem: (problem) => assert.fail(problem),
  });
  readonly container: SourceContainer = {
    id: 'containerd://1',
    name: 'nginx',
    pid: 1,
    root: this.path,
    podNamespace: 'default',
    podName: 'nginx',
    podUid: '1',
    podIp: '',
  };

  constructor() {
    super();
    for (const name of ['a', 'b', 'c']) {
      mkdirSync(this.at(name));
      writeFileSync(this.at(name, 'file'), '');
    }
  }

  kinds(...traps: CompiledTrap[]): string[] {
    return [...this.files.follow(this.container, traps).values()].map(({ state }) => state.kind);
  }

  override [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

suite('a call that throws', () => {
  const [a, b, c] = ['/a/file', '/b/file', '/c/file'].map(trapFor) as [
    CompiledTrap,
    CompiledTrap,
    CompiledTrap,
  ];

  test('the first call for a container leaves nothing behind, and can be repeated', () => {
    using scene = new Scene();
    const none = watches();
    assert.throws(() => scene.files.follow(scene.container, [a, b, impossible]), { code: 'RAMPART_INPUT' });
    assert.equal(watches(), none);
    assert.deepEqual(scene.kinds(a, b, c), ['watched', 'watched', 'watched']);
    assert.ok(watches() > none);
    scene.files.forget(scene.container.id);
    assert.equal(watches(), none);
  });

  test('a later one leaves what was there, and nothing else', () => {
    using scene = new Scene();
    const none = watches();
    assert.deepEqual(scene.kinds(a), ['watched']);
    const before = watches();
    // It would drop the first as well.
    assert.throws(() => scene.files.follow(scene.container, [b, impossible]), { code: 'RAMPART_INPUT' });
    assert.equal(watches(), before);
    assert.deepEqual(scene.kinds(a), ['watched']);
    assert.equal(watches(), before);
    assert.deepEqual(scene.kinds(b), ['watched']);
    scene.files.forget(scene.container.id);
    assert.equal(watches(), none);
  });

  test('with what takes the place of a trap: the one before stays', async () => {
    using scene = new Scene();
    const none = watches();
    const other = { ...a, create: true };
    assert.deepEqual(scene.kinds(a), ['watched']);
    assert.throws(() => scene.files.follow(scene.container, [other, impossible]), { code: 'RAMPART_INPUT' });
    assert.deepEqual(scene.kinds(a), ['watched']);
    assert.deepEqual(scene.kinds(other), ['watched']);
    scene.files.forget(scene.container.id);
    assert.equal(watches(), none);
  });
});

test('another container at the same root: files and directories of the one before are refused', () => {
  using scene = new Scene();
  const none = watches();
  const [file, directory] = [trapFor('/a/file'), trapFor('/b/*')];
  assert.deepEqual(scene.kinds(file, directory), ['watched', 'watched']);
  const other = { ...scene.container, id: 'containerd://2' };
  assert.equal(scene.files.follow(other, [file]).get(file)?.state.kind, 'watched');
  assert.deepEqual(scene.changed, [scene.container.id, scene.container.id]);
  scene.files.forget(scene.container.id);
  scene.files.forget(other.id);
  assert.equal(watches(), none);
});
