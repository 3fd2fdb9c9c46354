/** MutatingAdmissionPolicies and their bindings. Kubernetes 1.34 has a beta and an alpha version with the same fields. */
import { apiVersionOf, type Codec, groupResource, type Resource } from '../../resources/resource.ts';
import { admissionBindingColumns, mutatingPolicyColumns } from '../columns/access.ts';
import { mutatingPolicyVersions } from '../facts/names.ts';
import { kindOf } from '../kind.ts';
import { mutatingBindingCauses, mutatingPolicyCauses } from '../validation/mutating-policies.ts';

const group = 'admissionregistration.k8s.io';
const [storedVersion] = mutatingPolicyVersions;
const storedApiVersion = apiVersionOf({ group, version: storedVersion });

function codecOf(version: string): Codec {
  const apiVersion = apiVersionOf({ group, version });
  return {
    decode: (stored) => ({ ...stored, apiVersion }),
    encode: (shown) => ({ ...shown, apiVersion: storedApiVersion }),
  };
}

function versionsOf(kind: string, plural: string, parts: Omit<Parameters<typeof kindOf>[2], 'stored'>) {
  const stored = { name: groupResource({ group, plural }), apiVersion: storedApiVersion };
  return mutatingPolicyVersions.map((version) =>
    kindOf(group, kind, {
      ...{ ...parts, version, plural, namespaced: false, categories: ['api-extensions'] },
      ...(version !== storedVersion && { stored: { ...stored, codec: codecOf(version) } }),
    }),
  );
}

export const mutatingPolicyKinds: readonly Resource[] = [
  ...versionsOf('MutatingAdmissionPolicy', 'mutatingadmissionpolicies', {
    columns: mutatingPolicyColumns,
    strategy: { generation: 'all', validate: mutatingPolicyCauses },
  }),
  ...versionsOf('MutatingAdmissionPolicyBinding', 'mutatingadmissionpolicybindings', {
    columns: admissionBindingColumns,
    strategy: { generation: 'all', validate: mutatingBindingCauses },
  }),
];
