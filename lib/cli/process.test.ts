import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createLogger } from '../telemetry/log.ts';
import { Health } from '../telemetry/health.ts';
import { observe, runParts } from './process.ts';

test('a process is not ready before its parts have registered their health', async (t) => {
  const said = t.mock.method(process.stderr, 'write', () => true);
  const health = new Health();
  await using observed = await observe({ metrics: '127.0.0.1:0' }, health);
  const [, url] = /metrics on (\S+)\/metrics/.exec(String(said.mock.calls[0]?.arguments[0])) ?? [];
  const readyz = async () => {
    const answer = await fetch(`${url}/readyz`);
    return [answer.status, await answer.text()];
  };
  const starting = '[-] start: it has not started its parts yet\n';
  assert.deepEqual(await readyz(), [503, `${starting}not ready\n`]);
  // The runtime is asked before the guards are there.
  using _runtime = health.ready('runtime', () => undefined);
  assert.deepEqual(await readyz(), [503, `${starting}[+] runtime\nnot ready\n`]);

  const stop = new AbortController();
  let problem: string | undefined = 'not looked yet';
  const work = async (): Promise<void> => {
    using _part = health.ready('work', () => problem);
    await new Promise((resolve) => stop.signal.addEventListener('abort', resolve));
  };
  const logger = createLogger({ level: 'silent' });
  const running = runParts(stop, { ...observed, logger }, { work: work() });
  assert.deepEqual(await readyz(), [503, '[+] runtime\n[-] work: not looked yet\nnot ready\n']);
  problem = undefined;
  assert.deepEqual(await readyz(), [200, '[+] runtime\n[+] work\nready\n']);
  stop.abort();
  await running;
});
