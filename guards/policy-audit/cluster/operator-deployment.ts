/** The Deployment of the operator itself: the image that it runs, and whether it is still there. */
import { systemNamespace } from '../../../guard/guard.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import { deploymentType } from './server-objects.ts';

/** As named in deploy/base. */
const operator = { namespace: systemNamespace, name: 'rampart-operator', container: 'operator' };

interface Deployment extends KubeObject {
  readonly spec?: {
    readonly template?: {
      readonly spec?: { readonly containers?: readonly { readonly name: string; readonly image?: string }[] };
    };
  };
}

/** @throws {RampartError} `INPUT` if there is no such Deployment. */
export async function imageOfOperator(client: KubeClient, signal: AbortSignal): Promise<string> {
  const { namespace, name, container } = operator;
  let found: Deployment | undefined;
  try {
    found = await client.get(deploymentType, { namespace, name }, { signal });
  } catch (error) {
    if (!isNotFound(error) && !isForbidden(error)) throw error;
  }
  const image = found?.spec?.template?.spec?.containers?.find((one) => one.name === container)?.image;
  if (image !== undefined) return image;
  throw new RampartError(errorCodes.INPUT, {
    what: 'the image for policy servers is unknown',
    why: `no readable Deployment ${name} in ${namespace} has a container ${container}`,
    next: 'Set the image with --policy-server-image',
  });
}

/** Its uid; undefined if there is none, or if it is being deleted. @throws {KubeError} if it cannot be read */
export async function operatorDeployment(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const target = { namespace, name: operator.name };
  const found = await orUndefined(client.get(deploymentType, target, { signal }));
  return found === undefined || isDeleting(found) ? undefined : found.metadata.uid;
}
