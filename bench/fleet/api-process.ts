/** The API server of a fleet: as `rampart apiserver`, with room for the connections of many machines, where that has it for one. */
import { parseArgs } from 'node:util';

import { startApiServer } from '../../lib/apiserver/server.ts';
import { stopSignal } from '../../lib/cli/process.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { aborted } from '../../lib/time/abort.ts';

const CONNECTIONS = 100_000;

const { values } = parseArgs({ options: { data: { type: 'string' } }, strict: false });
const { signal } = stopSignal();
await using server = await startApiServer({
  dataDirectory: String(values.data),
  listen: { host: '127.0.0.1', port: 0 },
  version: '0.0.0',
  logger: createLogger({ level: 'error' }),
  limits: { connections: CONNECTIONS },
});
process.stdout.write(`${server.kubeconfig}\n`);
await aborted(signal);
