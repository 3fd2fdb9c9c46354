/** Runs `rampart status`. */
import type { Guard } from '../../guard/guard.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../lib/kube/client/client-errors.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { chosenKubeconfig, clusterAccess } from '../../lib/cli/cluster.ts';
import { describeFailure } from '../../lib/cli/failure.ts';
import { stopSignal } from '../../lib/cli/process.ts';
import { type Asked, askCluster } from './ask.ts';
import type { StatusOptions } from './command.ts';
import { renderStatus } from './render.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { outputOptions } from '../../lib/cli/output.ts';

/** @returns the exit code: 0 all is guarded, 1 something is not, 2 cannot tell, which is said on stderr. */
export async function runStatus(guards: readonly Guard[], options: StatusOptions): Promise<0 | 1 | 2> {
  let asked: Asked;
  try {
    asked = await ask(guards, options);
  } catch (error) {
    // Also an API that is away: a script has to tell it from what is not guarded.
    process.stderr.write(describeFailure(error).text);
    return 2;
  }
  const { report } = asked;
  const { stdout } = process;
  stdout.write(
    options.format === 'json'
      ? `${JSON.stringify(report)}\n`
      : renderStatus(report, asked.guards, outputOptions(80, 120)),
  );
  return report.guarded ? 0 : 1;
}

async function ask(guards: readonly Guard[], options: StatusOptions): Promise<Asked> {
  const { namespace } = options;
  refuseEmpty({ '--namespace': namespace });
  const access = clusterAccess(chosenKubeconfig(options));
  using client = new KubeClient(access);
  const server = access.server.href.replace(/\/$/, '');
  const { signal } = stopSignal();
  await expectNamespace(client, namespace, signal);
  return await askCluster({ client, guards, server, namespace, signal });
}

/** What is in a namespace that does not exist would be nothing, and nothing is always guarded. */
async function expectNamespace(
  client: KubeClient,
  name: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (name === undefined) return;
  try {
    await client.get(namespaces, { name }, { signal });
  } catch (error) {
    // Who may not look at it may still list what is in it.
    if (isForbidden(error)) return;
    if (!isNotFound(error)) throw error;
    throw new RampartError(errorCodes.INPUT, {
      what: `there is no namespace ${name}`,
      next: 'Name an existing namespace with -n',
    });
  }
}
