/** The image that the operator itself runs. */
import { systemNamespace } from '../../../guard/guard.ts';
import { operatorWorkload } from '../../../guard/removal.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { type Deployment, deployments } from '../../../lib/kube/object/object.ts';

const container = 'operator';

/** @throws {RampartError} `INPUT` if the operator's Deployment does not exist. */
export async function imageOfOperator(client: KubeClient, signal: AbortSignal): Promise<string> {
  const target = { namespace: systemNamespace, name: operatorWorkload.name };
  let found: Deployment | undefined;
  try {
    found = await client.get(deployments, target, { signal });
  } catch (error) {
    if (!isNotFound(error) && !isForbidden(error)) throw error;
  }
  const image = found?.spec?.template.spec?.containers.find(({ name }) => name === container)?.image;
  if (image !== undefined) return image;
  throw new RampartError(errorCodes.INPUT, {
    what: 'the image for policy servers is unknown',
    why: `no readable Deployment ${target.name} in ${target.namespace} has a container ${container}`,
    next: 'Set the image with --policy-server-image',
  });
}
