import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { suite, test } from 'node:test';

import { isListening } from './listening.ts';

suite('whether a port is taken', () => {
  for (const host of ['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1']) {
    test(`by one that listens at ${host}, and no more after that`, async () => {
      const server = createServer();
      await once(server.listen(0, host), 'listening');
      const { port } = server.address() as AddressInfo;
      assert.equal(isListening('127.0.0.1', port), true);
      server.close();
      await once(server, 'close');
      assert.equal(isListening('127.0.0.1', port), false);
    });
  }

  test('not by one at another address or port, or that is connected', () => {
    const head = '  sl  local_address rem_address   st tx_queue rx_queue\n';
    // 127.0.0.2:7443 listens, 127.0.0.1:7443 is connected, 127.0.0.1:7444 listens.
    const lines = [
      '   0: 0200007F:1D13 00000000:0000 0A 0:0',
      '   1: 0100007F:1D13 0100007F:C350 01 0:0',
      '   2: 0100007F:1D14 00000000:0000 0A 0:0',
    ];
    const read = (name: string): string | undefined =>
      name === 'tcp' ? `${head}${lines.join('\n')}\n` : undefined;
    assert.equal(isListening('127.0.0.1', 7443, read), false);
    assert.equal(isListening('127.0.0.1', 7444, read), true);
    assert.equal(isListening('127.0.0.2', 7443, read), true);
  });
});
