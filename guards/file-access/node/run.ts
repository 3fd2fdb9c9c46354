/**
 * The guard's part on a node: finds the files and, if this agent is the loader of its kernel, raises alerts for
 * accesses to them, on stdout and at callbacks.
 */
import { join } from 'node:path';

import type { NodePart } from '../../../guard/guard.ts';
import { lastingIdentity } from '../../../guard/identity.ts';
import { CallbackSecrets } from '../delivery/callback-secrets.ts';
import { addDeliveryMetrics } from '../delivery/delivery-metrics.ts';
import { openDelivery } from '../delivery/delivery.ts';
import { runFileAccessNode } from './file-access-node.ts';
import { openHeldAlerts } from './held-alerts.ts';
import type { FileAccessOptions } from '../options.ts';

export const fileAccessNode: NodePart<FileAccessOptions> = async (context, options) => {
  const { client, nodeName, directory, logger, metrics, say } = context;
  using secrets = new CallbackSecrets({ client, defaults: options.callbackSecrets, logger });
  await using delivery = openDelivery({
    directory: join(directory, 'callbacks'),
    log: logger,
    allow: options.allowedCallbacks,
    credentialsFor: secrets.credentialsFor,
  });
  if (metrics !== undefined) addDeliveryMetrics(metrics.metrics, delivery);
  await using held = openHeldAlerts(join(directory, 'held'), logger);
  await runFileAccessNode(context, {
    sensor: { mode: options.mode },
    policyScope: options.policyScope,
    ...{ delivery, held },
    // The queues in this directory are locked, so no other process uses it now.
    identity: lastingIdentity(directory, nodeName),
    onState: ({ ready, isLoader, sensorMode }) => {
      if (ready && isLoader) say(`guarding this machine with sensor mode ${sensorMode}`);
    },
  });
};
