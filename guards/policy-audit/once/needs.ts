/**
 * What commands need from the API. A scanner that runs forever waits for what does not exist yet; nobody should wait like that for
 * a single scan.
 */
import type { GuardContext } from '../../../guard/context.ts';
import { isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { namespaces, type ResourceType } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { policyGroup } from '../api.ts';

type Asked = Pick<GuardContext, 'client' | 'signal'>;

/** @throws {RampartError} `UNSUPPORTED` if a kind is not served; {KubeError} if it may not be listed. */
export async function checkServed({ client, signal }: Asked, types: readonly ResourceType[]): Promise<void> {
  const check = async (type: ResourceType): Promise<void> => {
    try {
      await client.list(type, {}, { limit: 1, signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      throw new RampartError(errorCodes.UNSUPPORTED, {
        what: 'cannot audit',
        why: `the API does not serve ${type.plural}.${type.group}`,
        next:
          type.group === policyGroup
            ? 'Apply the CRDs of policies: deploy/'
            : 'Apply deploy/policy-reports/, or write no reports: --disable-store',
        cause: error,
      });
    }
  };
  // Of several that are missing, the first one of the list is told, whichever answer comes first.
  const checked = await Promise.allSettled(types.map(check));
  for (const one of checked) if (one.status === 'rejected') throw one.reason;
}

/** @throws {RampartError} `INPUT` if there is no such namespace */
export async function checkNamespace({ client, signal }: Asked, name: string): Promise<void> {
  const found = await orUndefined(client.get(namespaces, { name }, { signal }));
  if (found === undefined)
    throw new RampartError(errorCodes.INPUT, { what: `there is no namespace ${name}` });
}
