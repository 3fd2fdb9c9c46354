import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, cpSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';

const script = join(import.meta.dirname, 'commit-message');

function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'rampart-commit-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

/** The objections to a message, without the lines that say which message it is and where the rules are. */
function objections(t: TestContext, message: string): string[] {
  const path = join(directory(t), 'COMMIT_EDITMSG');
  writeFileSync(path, message);
  const { status, stderr } = spawnSync(script, [path], { encoding: 'utf8' });
  const lines = stderr.split('\n').filter((line) => line.startsWith('  '));
  assert.equal(status, lines.length === 0 ? 0 : 1, stderr);
  return lines.map((line) => line.trim());
}

suite('a commit message', () => {
  test('with an imperative subject and a body that says why is accepted', (t) => {
    const body = 'Before, a second agent on the node never started.';
    for (const subject of [
      'Release the lease when the agent stops',
      'bpf-programs: keep the program that runs until the new one is attached',
      'Embed the schema in the page',
      `Refuse ${'ä'.repeat(65)}`,
    ]) {
      assert.deepEqual(objections(t, `${subject}\n\n${body}\n# a comment of git\n`), [], subject);
    }
  });

  test('is refused for a long subject, a full stop, no body, and a verb that is not imperative', (t) => {
    const imperative = 'is not imperative; begin with a verb such as add, keep, refuse, report';
    assert.deepEqual(objections(t, `Refuse ${'a'.repeat(66)}\n\nWhy.\n`), [
      'the subject has more than 72 characters',
    ]);
    assert.deepEqual(objections(t, 'Keep it.\n\nWhy.\n'), ['the subject ends with a full stop']);
    assert.deepEqual(objections(t, 'Keep it\n\n# no reason\n'), [
      'there is no body; say why the change is made',
    ]);
    assert.deepEqual(objections(t, 'Keep it\n\nSigned-off-by: A <a@example.com>\n'), [
      'there is no body; say why the change is made',
    ]);
    assert.deepEqual(objections(t, 'Keep it\nfor good\n\nWhy.\n'), [
      'there is no empty line after the subject',
    ]);
    assert.deepEqual(objections(t, 'Adds a check\n\nWhy.\n'), [`"adds" ${imperative}`]);
    assert.deepEqual(objections(t, 'status: added a check\n\nWhy.\n'), [`"added" ${imperative}`]);
  });

  test('needs no body for a merge, a revert, a release, or a commit that will be folded', (t) => {
    for (const subject of ["Merge branch 'x'", 'Revert "Adds a check"', 'Release 0.2.0', 'fixup! Keep it']) {
      assert.deepEqual(objections(t, `${subject}\n`), [], subject);
    }
  });
});

suite('the messages of new commits', () => {
  function repository(t: TestContext) {
    const top = directory(t);
    mkdirSync(join(top, 'scripts'));
    cpSync(script, join(top, 'scripts/commit-message'));
    const git = (...args: string[]): string => {
      const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com'];
      const { status, stdout, stderr } = spawnSync('git', [...identity, ...args], {
        ...{ cwd: top, encoding: 'utf8' },
        env: { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' },
      });
      assert.equal(status, 0, stderr);
      return stdout.trim();
    };
    git('init', '-q', '-b', 'main');
    const commit = (message: string): void => void git('commit', '-q', '--allow-empty', '-m', message);
    const check = (env: Record<string, string> = {}) =>
      spawnSync(join(top, 'scripts/commit-message'), ['--new'], {
        ...{ cwd: '/', encoding: 'utf8' },
        env: { PATH: process.env['PATH'], ...env },
      });
    return { git, commit, check };
  }

  test('are checked since origin/main, or since the base that CI names; older ones are not', (t) => {
    const { git, commit, check } = repository(t);
    commit('an old message');
    git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    assert.equal(check().status, 0);
    commit('Adds a check');
    const { status, stderr } = check();
    assert.equal(status, 1);
    assert.match(stderr, /^commit message: [\da-f]+: Adds a check\n {2}there is no body.*\n {2}"adds" is/);
    assert.doesNotMatch(stderr, /an old message/);
    assert.equal(check({ RAMPART_BASE: git('rev-parse', 'HEAD') }).status, 0);
  });

  test('are not checked without a base: no remote, or a base that the clone does not have', (t) => {
    const { commit, check } = repository(t);
    commit('an old message');
    for (const env of [{}, { RAMPART_BASE: '0'.repeat(40) }]) {
      const { status, stdout } = check(env);
      assert.equal(status, 0);
      assert.match(stdout, /^commit messages: not checked, as there is no .* to compare with\n$/);
    }
  });
});
