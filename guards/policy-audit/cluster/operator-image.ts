/** The image of policy servers: that of the operator. */
import { systemNamespace } from '../../../guard/guard.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { deploymentType } from './server-objects.ts';

/** As named in deploy/base. */
const operator = { namespace: systemNamespace, name: 'rampart-operator', container: 'operator' };

interface Deployment {
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
    found = (await client.get(deploymentType, { namespace, name }, { signal })) as Deployment;
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
