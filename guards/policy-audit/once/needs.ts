/** What commands require of the API. A scanner that runs forever waits for missing kinds; a single scan does not. */
import type { GuardContext } from '../../../guard/context.ts';
import {
  isForbidden,
  isNotFound,
  type KubeError,
  orUndefined,
} from '../../../lib/kube/client/client-errors.ts';
import { namespaces, type ResourceType } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import {
  kubewardenTypes,
  policyGroup,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';

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
        next: 'Apply deploy/policy-reports/, or write no reports: --disable-store',
        cause: error,
      });
    }
  };
  // If several are missing, the first one in the list is reported, whichever answer arrives first.
  const checked = await Promise.allSettled(types.map(check));
  for (const one of checked) if (one.status === 'rejected') throw one.reason;
}

/**
 * Checks that the API serves at least one kind of policy: ValidatingAdmissionPolicies need no installation, and
 * Kubewarden's need no recent version of Kubernetes.
 *
 * @returns the kinds that may not be listed, such as `validatingadmissionpolicies.admissionregistration.k8s.io`,
 * and why: a user who requests an audit may often read only Kubewarden's kinds.
 * @throws {RampartError} `UNSUPPORTED` if no kind is served; {KubeError} if no kind may be listed.
 */
export async function checkPolicies({ client, signal }: Asked): Promise<ReadonlyMap<string, string>> {
  const refused = new Map<string, KubeError>();
  let listed = 0;
  const types: readonly ResourceType[] = [
    ...kubewardenTypes,
    validatingAdmissionPolicies,
    validatingAdmissionPolicyBindings,
  ];
  for (const type of types) {
    try {
      await client.list(type, {}, { limit: 1, signal });
      listed++;
    } catch (error) {
      if (isNotFound(error)) continue;
      if (!isForbidden(error) || type.group === policyGroup) throw error;
      refused.set(`${type.plural}.${type.group}`, error);
    }
  }
  const [first] = refused.values();
  if (listed > 0) return new Map([...refused].map(([kind, error]) => [kind, error.message]));
  if (first !== undefined) throw first;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: 'cannot audit',
    why: `the API serves neither policies of ${policyGroup} nor ValidatingAdmissionPolicies`,
    next: 'Apply the CRDs of policies: deploy/',
  });
}

/** @throws {RampartError} `INPUT` if the namespace does not exist */
export async function checkNamespace({ client, signal }: Asked, name: string): Promise<void> {
  const found = await orUndefined(client.get(namespaces, { name }, { signal }));
  if (found === undefined)
    throw new RampartError(errorCodes.INPUT, { what: `there is no namespace ${name}` });
}
