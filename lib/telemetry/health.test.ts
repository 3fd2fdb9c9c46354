import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Health } from './health.ts';

suite('Health', () => {
  test('without parts all is well', () => {
    const health = new Health();
    assert.deepEqual(health.liveness(), { ok: true, text: 'ok\n' });
    assert.deepEqual(health.readiness(), { ok: true, text: 'ready\n' });
  });

  test('a line for each part, with why not; what is not ready is alive', () => {
    const health = new Health();
    let problem: string | undefined = 'no answer:\n  connection refused';
    health.ready('policies', () => undefined);
    health.ready('pods', () => problem);
    assert.deepEqual(health.readiness(), {
      ok: false,
      text: '[+] policies\n[-] pods: no answer: connection refused\nnot ready\n',
    });
    assert.equal(health.liveness().ok, true);
    problem = undefined;
    assert.deepEqual(health.readiness(), { ok: true, text: '[+] policies\n[+] pods\nready\n' });
  });

  test('a part that is ready may have a remark, which a problem takes the place of', () => {
    const health = new Health();
    let [problem, remark]: (string | undefined)[] = [undefined, 'there is none\nhere'];
    health.ready(
      'runtime',
      () => problem,
      () => remark,
    );
    assert.deepEqual(health.readiness(), { ok: true, text: '[+] runtime: there is none here\nready\n' });
    assert.equal(health.notReady(['runtime']), undefined);
    problem = 'no answer';
    assert.deepEqual(health.readiness(), { ok: false, text: '[-] runtime: no answer\nnot ready\n' });
    [problem, remark] = [undefined, undefined];
    assert.equal(health.readiness().text, '[+] runtime\nready\n');
  });

  test('a part that cannot be asked is not well', () => {
    const health = new Health();
    health.alive('sensor', () => {
      throw new Error('the map is gone');
    });
    assert.deepEqual(health.liveness(), { ok: false, text: '[-] sensor: the map is gone\nnot alive\n' });
  });

  test('a part that is over is not asked, its successor is', () => {
    const health = new Health();
    const first = health.ready('work', () => 'of the first term');
    health.ready('work', () => 'of the second term');
    first[Symbol.dispose]();
    assert.match(health.readiness().text, /second term/);
    const other = health.ready('other', () => 'no');
    other[Symbol.dispose]();
    assert.doesNotMatch(health.readiness().text, /other/);
  });
});
