/** The thread of a `YamlReader`. */
import { parentPort } from 'node:worker_threads';

import { replyTo } from './yaml-reader.ts';

parentPort?.on('message', (bytes: Uint8Array) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- for windows
  parentPort?.postMessage(replyTo(bytes));
});
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- for windows
parentPort?.postMessage({ loaded: true });
